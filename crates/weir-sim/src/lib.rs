//! The simulated world: what the real driver, the network and the storage do, in virtual time.
//!
//! The room `world` of the house. It drives the same cores as the real drivers, but in virtual time: days pass in seconds,
//! and the same seed gives the same run, byte for byte. It is pure: no runtime, no clock, no socket, no database.
//!
//! | module | what it holds |
//! |---|---|
//! | [`network`] | flows over shared capacities: who gets which rate, and who ends when |
//! | [`spec`] | the tables of a challenge file about the simulated world |
//! | [`scene`] | a plan and its simulated world, resolved into numbers |
//! | [`world`] | the event loop: attempts, storage, tokens, the store; [`world::run`] runs a whole plan |
//! | `catalog` | who keeps the books of rules: Weir's catalogue, the model of Rucio's daemons |
//! | [`policies`] | who decides: Weir's scheduler, the imitation of FTS, a fixed number per link |
//! | [`optimum`](mod@optimum) | what any scheduler could have moved at most |
//! | [`report`] | what a run writes: rows and the report |
//! | [`checks`] | what watches from outside in every run |
//! | [`flows`] | the network alone: flows from a JSON file, their ends as JSON |
//!
//! # Invariants
//! - **Time is an integer.** Events are ordered by (time, sequence); no loop waits for a sum of roundings to reach a value.
//! - **Bytes are integers.** A flow that ended has moved its size, exactly.
//! - **Cost follows change.** A network in which no class gains or loses a flow is not solved again.
//! - **One stream of randomness per owner.** What a link draws does not depend on what another one draws.
//! - **No policy.** The world carries out what a core orders; what a policy knows, it is told through the seam.

mod background;
mod catalog;
pub mod checks;
pub mod compare;
mod draw;
pub mod flows;
mod hash;
pub mod network;
pub mod optimum;
pub mod policies;
pub mod report;
mod row;
pub mod scene;
mod slab;
pub mod spec;
mod terms;
mod want;
pub mod world;

pub use spec::{SIM_TABLES, SimPlan, SimSpec};
