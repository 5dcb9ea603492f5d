//! See `weir_executor::fuzzing::surls`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_executor::fuzzing::surls(data));
