//! See `weir_executor::fuzzing::markers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_executor::fuzzing::markers(data));
