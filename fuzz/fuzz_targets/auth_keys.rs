//! See `weir_auth::fuzzing::keys`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::fuzzing::keys(data));
