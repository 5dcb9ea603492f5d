//! See `weir_executor::fuzzing::listings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_executor::fuzzing::listings(data));
