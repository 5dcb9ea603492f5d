//! See `weir_auth::fuzzing::token`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::fuzzing::token(data));
