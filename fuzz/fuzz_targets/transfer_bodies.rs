//! See `weir_fts::fuzzing::bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fts::fuzzing::bodies(data));
