//! See `targets::worlds`.
#![no_main]

#[allow(dead_code, reason = "shared by all targets of the room")]
#[path = "../../crates/weir-sim/tests/fuzzing/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::worlds(data));
