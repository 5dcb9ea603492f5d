//! See `connection::World::feed`.
#![no_main]

use std::mem::ManuallyDrop;

#[allow(dead_code, reason = "shared with the tests of the endpoint")]
#[path = "../../crates/weir-storage/tests/endpoint/lab.rs"]
mod lab;

#[allow(dead_code, reason = "shared with tests of single cases")]
#[path = "../../crates/weir-storage/tests/endpoint/connection/mod.rs"]
mod connection;

thread_local! {
    // Not dropped: at the end of the process there is nothing left to stop it on.
    static WORLD: ManuallyDrop<connection::World> = ManuallyDrop::new(connection::World::new());
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    WORLD.with(|world| world.feed(data));
});
