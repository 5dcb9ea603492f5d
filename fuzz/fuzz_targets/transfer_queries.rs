//! See `weir_fts::fuzzing::queries`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fts::fuzzing::queries(data));
