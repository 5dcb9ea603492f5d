//! See `weir_challenge::fuzzing::answers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_challenge::fuzzing::answers(data));
