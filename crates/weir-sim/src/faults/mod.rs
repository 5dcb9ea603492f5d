//! Faults of the challenge in the simulated world.
//!
//! A fault changes the models of the things at its place while it lasts. The models in force are always computed anew: the
//! scene as it was, then every fault that is on now, in the order of the file. So faults of different kinds at one place
//! add up, and the end of one leaves the others.

pub(crate) mod check;
pub(crate) mod conditions;
pub(crate) mod models;
pub(crate) mod prepare;
pub mod scene_fault;
pub mod state;
