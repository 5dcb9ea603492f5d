//! See `weir_auth::fuzzing::scopes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::fuzzing::scopes(data));
