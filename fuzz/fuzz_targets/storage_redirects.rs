//! See `weir_storage::copy::fuzzing::redirects`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_storage::copy::fuzzing::redirects(data));
