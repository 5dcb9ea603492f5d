//! The seam between a service's core and the world that runs it.
//!
//! A **core** decides: it is a state machine that takes inputs and the time, and gives effects. It opens no socket, reads no
//! clock and knows no database. A **world** does: it feeds inputs, carries out effects, and reports what came of them. The
//! real world has sockets, a store and the wall clock; the simulated one has virtual time. Both pass [`world_suite!`].
//!
//! # What a core promises
//! - **Persist before act.** No [`Effect::Start`] and no [`Effect::Ack`] leaves before [`Input::Persisted`] of its record came in.
//! - **Fenced.** Every operation carries the core's epoch; a core ignores what is said about operations of another epoch.
//! - **Patient.** Inputs may be late, repeated, reordered or (as far as the table below allows) lost, without harm.
//!
//! # What a world promises
//! | about | promise |
//! |---|---|
//! | time | `now` never goes back between two calls of [`Core::step`] |
//! | [`Effect::Persist`] | stored in the order of issue; [`Input::Persisted`]`(n)` says that **all** records up to and including `n` are durable, so one may stand for many, and a lost one is healed by a later one; it is never said of a record that could still vanish. What a store will never take, because it contradicts what it holds, is answered by [`Input::Refused`], which is never lost and comes before any [`Input::Persisted`] of its number or a later one; a core says which of its records can be refused |
//! | [`Effect::Start`] | done at once, leads to at most one [`WorldEvent::Started`] and to exactly one *final* event ([`WorldEvent::is_final`]), possibly repeated; if nobody can say what became of it, the final event is [`WorldEvent::Lost`] |
//! | [`Effect::Stop`] | ends a running operation soon, with [`Outcome::Stopped`] or with what it had come to; of an operation that has ended, or was never started here, it is ignored |
//! | [`Effect::WakeAt`] | a step (usually with [`Input::Timer`]) at or after that time, never counted from an earlier one; the earliest pending wish counts, later ones may be forgotten when a step has happened |
//! | [`Input::Command`] | given once, in the order in which it was accepted |
//! | [`Input::Restored`] | before the first command, from the records that were made durable |
//!
//! # Example
//! ```
//! use weir_units::{Bytes, Timestamp};
//! use weir_world::{CopyMode, Core, Effect, Input, OpId, Outcome, Seq, TransferId, WorldEvent};
//!
//! /// Copies whatever number it is told, once the number is durable.
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

pub mod class;
mod ids;
mod outcome;
mod seam;
pub mod suite;

pub use ids::{OpId, Seq, TransferId};
pub use outcome::{CopyMode, ErrorClass, Failure, Outcome, Party, Phase, Retry};
pub use seam::{Core, Effect, Input, WorldEvent};
