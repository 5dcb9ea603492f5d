//! See `weir_transfer::fuzzing::listings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_transfer::fuzzing::listings(data));
