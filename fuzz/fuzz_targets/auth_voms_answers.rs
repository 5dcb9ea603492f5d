//! See `weir_auth::x509::fuzzing::voms_answers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_auth::x509::fuzzing::voms_answers(data));
