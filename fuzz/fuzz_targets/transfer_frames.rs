//! See `weir_events::fuzzing::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_events::fuzzing::frames(data));
