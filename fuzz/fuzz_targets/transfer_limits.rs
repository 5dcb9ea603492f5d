//! See `weir_fts::fuzzing::limits`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fts::fuzzing::limits(data));
