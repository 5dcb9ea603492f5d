//! See `targets::proppatch`.
#![no_main]

#[allow(dead_code, reason = "shared by all targets of the room")]
#[path = "../../crates/weir-storage/tests/endpoint/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::proppatch(data));
