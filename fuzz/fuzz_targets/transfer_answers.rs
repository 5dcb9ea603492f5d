//! See `weir_executor::fuzzing::answers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_executor::fuzzing::answers(data));
