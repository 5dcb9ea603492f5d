//! See `weir_auth::fuzzing::redaction`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::fuzzing::redaction(data));
