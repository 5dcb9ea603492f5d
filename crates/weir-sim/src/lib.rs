//! The simulated world: what the real driver, the network and the storage do, in virtual time.
//!
//! The room `world` of the house. It drives the same cores as the real drivers, but in virtual time: days pass in seconds,
//! and the same seed gives the same run, byte for byte. It is pure: no runtime, no clock, no socket, no database.
//!
//! | module | what it holds |
//! |---|---|
//! | [`network`] | flows over shared capacities: who gets which rate, and who ends when |
//!
//! # Invariants
//! - **Time is an integer.** Events are ordered by (time, sequence); no loop waits for a sum of roundings to reach a value.
//! - **Bytes are integers.** A flow that ended has moved its size, exactly.
//! - **Cost follows change.** A network in which no class gains or loses a flow is not solved again.

pub mod network;
