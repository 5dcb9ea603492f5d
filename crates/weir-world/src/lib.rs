//! The seam between a service's core and the world that runs it.
//!
//! A **core** decides: it is a state machine that takes inputs and the time, and gives effects. It opens no socket, reads no clock and
//! knows no database. A **world** acts: it feeds inputs, carries out effects, and reports their results. The real world has sockets, a
//! store and the wall clock; the simulated one has virtual time. Both pass [`world_suite!`].
//!
//! # What a core promises
//! - **Persist before act.** No [`Effect::Start`] and no [`Effect::Ack`] leaves before [`Input::Persisted`] of its record came in.
//! - **Fenced.** Every operation carries the core's epoch; a core ignores reports about operations of another epoch.
//! - **Patient.** Inputs may be late, repeated, reordered or (as far as the table below allows) lost, without harm.
//!
//! # What a world promises
//! | about | promise |
//! |---|---|
//! | time | `now` never goes back between two calls of [`Core::step`] |
//! | [`Effect::Persist`] | stored in the order of issue. [`Input::Persisted`]`(n)` says that **all** records up to and including `n` are durable: one may stand for many, and a later one heals a lost one |
//! | [`Input::Refused`] | the answer to a record that contradicts the store. It is never lost, and comes before any [`Input::Persisted`] of its number or a later one; a core states which of its records can be refused |
//! | [`Effect::Start`] | done at once; leads to at most one [`WorldEvent::Started`] and to exactly one *final* event ([`WorldEvent::is_final`]), possibly repeated. If the operation's end is unknown, the final event is [`WorldEvent::Lost`] |
//! | [`Effect::Stop`] | ends a running operation soon, with [`Outcome::Stopped`] or with the outcome that it had reached; ignored for an operation that has ended or was never started here |
//! | [`Effect::WakeAt`] | a step (usually with [`Input::Timer`]) at or after that time, never counted from an earlier one; the earliest pending time counts, later ones may be dropped after a step |
//! | [`Input::Command`] | given once, in the order in which it was accepted |
//! | [`Input::Restored`] | before the first command, from the records that were made durable |
//!
//! # Example
//! ```
//! use weir_units::{Bytes, Timestamp};
//! use weir_world::{CopyMode, Core, Effect, Input, OpId, Outcome, Seq, TransferId, WorldEvent};
//!
//! /// Copies every number that it is told, once the number is durable.
//! #[derive(Default)]
//! struct Copier { told: Vec<u64> }
//!
//! impl Core for Copier {
//!     type Command = u64;
//!     type Record = u64;
//!     type Op = &'static str;
//!     type Event = ();
//!     fn step(&mut self, _now: Timestamp, inputs: &[Input<u64, u64>], effects: &mut Vec<Effect<u64, &'static str, ()>>) {
//!         for input in inputs {
//!             match input {
//!                 Input::Command(number) => {
//!                     self.told.push(*number);
//!                     effects.push(Effect::Persist(Seq(self.told.len() as u64), *number));
//!                 }
//!                 Input::Persisted(seq) => {
//!                     let op = OpId { transfer: TransferId(self.told[seq.index()]), attempt: 1, epoch: 1 };
//!                     effects.push(Effect::Start(op, "copy"));
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//!
//! let (mut core, mut effects) = (Copier::default(), Vec::new());
//! core.step(Timestamp(0), &[Input::Command(7)], &mut effects);
//! assert!(matches!(effects[..], [Effect::Persist(Seq(1), 7)]));
//! ```

mod cause;
pub mod class;
mod gauge;
mod ids;
mod outcome;
mod seam;
pub mod suite;
mod wait;
mod words;

pub use cause::{CauseClass, Place, PlaceKind};
pub use gauge::{Gauge, GaugeUnit};
pub use ids::{OpId, Seq, TransferId};
pub use outcome::{CopyMode, ErrorClass, Failure, Outcome, Party, Phase, Retry};
pub use seam::{Core, Effect, Input, WorldEvent};
pub use wait::{Held, Wait, WaitPhase, Waits};
