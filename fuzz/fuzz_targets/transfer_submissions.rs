//! See `weir_fts::fuzzing::submissions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fts::fuzzing::submissions(data));
