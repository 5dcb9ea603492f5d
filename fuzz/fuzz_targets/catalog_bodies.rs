//! See `weir_catalog::fuzzing::bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_catalog::fuzzing::bodies(data));
