//! Proofs of the scheduler in the simulated world: equal parts, changes followed, neighbours lived with.
//!
//! Every world here is small, and each test says what is best in it.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod change;
mod equal;
mod lab;
mod neighbours;
