//! See `weir_auth::x509::fuzzing::vomses`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::x509::fuzzing::vomses(data));
