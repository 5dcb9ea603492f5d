//! The network against progressive filling as in the textbook, on networks and loads drawn at random.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

mod agreement;
mod held;
mod naive;
