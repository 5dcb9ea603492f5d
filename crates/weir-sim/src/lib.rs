//! The simulated world: driver, network and storage in virtual time.
//!
//! The room `world` of the house. It drives the same cores as the real drivers, but in virtual time: days pass in
//! seconds, and the same seed gives the same run, byte for byte. It is pure: no runtime, no clock, no socket, no
//! database.
//!
//! | module | content |
//! |---|---|
//! | [`network`] | flows over shared capacities: their rates and their ends |
//! | [`spec`] | the tables of a challenge file about the simulated world |
//! | [`scene`] | a plan and its simulated world, resolved into numbers |
//! | [`faults`] | what the challenge breaks on purpose |
//! | [`world`] | the event loop: attempts, storage, tokens, the store; [`world::run`] runs a whole plan |
//! | `catalog` | the catalogue of rules: Weir's, or the model of Rucio's daemons |
//! | [`policies`] | the schedulers: Weir's, the imitation of FTS, a fixed number per link |
//! | [`optimum`](mod@optimum) | an estimate of the rate that the best scheduler could reach |
//! | [`report`] | the output of a run: rows and the report |
//! | [`incident`] | an incident with its faults, and with its remedy |
//! | [`checks`] | invariants that are checked in every run |
//! | [`flows`] | the network alone: flows from a JSON file, their ends as JSON |
//!
//! # Invariants
//! - **Time is an integer.** Events are ordered by (time, sequence); no loop waits for a sum of roundings to reach a
//!   value.
//! - **Bytes are integers.** A flow that ended has moved its size, exactly.
//! - **Cost follows change.** A network in which no class gains or loses a flow is not solved again.
//! - **One stream of randomness per owner.** The draws of a link do not depend on those of another one.
//! - **No policy.** The world carries out the orders of a core; a policy learns everything through the seam.

mod background;
pub mod case;
mod catalog;
pub mod checks;
pub mod compare;
mod draw;
pub mod faults;
pub mod flows;
mod hash;
pub mod incident;
pub mod network;
pub mod optimum;
pub mod policies;
pub mod report;
mod row;
pub mod scene;
mod sim_plan;
mod slab;
pub mod spec;
mod terms;
mod unlimited;
mod want;
pub mod world;

pub use sim_plan::SimPlan;
pub use spec::{SIM_TABLES, SimSpec};
pub use unlimited::UNLIMITED;
