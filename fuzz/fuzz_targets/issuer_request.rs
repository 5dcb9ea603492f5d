//! See `weir_issuer::fuzzing::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_issuer::fuzzing::request(data));
