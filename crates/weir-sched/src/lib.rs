//! The transfer service's core: it decides the start of every transfer, and the step after its end.
//!
//! The room `schedule` of the house. Jobs come in through the transfer service's door; this core decides; the driver
//! (in `weir-transfer`, or the simulator) stores, copies and answers. It is pure: no runtime, no clock, no database, no
//! network.
//!
//! # Invariants
//! - **Persist before act.** No start and no answer leaves before its record is durable ([`weir_world`], "What a core
//!   promises").
//! - **One operation at a time.** A transfer has at most one operation of this core, and each has its own number.
//! - **Terminal is terminal.** A transfer ends once, in one of three ways ([`Settled`]).
//! - **Limits hold.** No link, storage element, VO at a storage element or shared resource has more active transfers
//!   than its limit at the time of start. Limits on bandwidth ([`Setting::Rate`]) are met within seconds. Only
//!   [`Command::Force`] goes past them, and the slots that it took count for all later starts.
//! - **Settings are data.** Order, limits and the optimiser follow [`Settings`], which change at any time.
//! - **Cost follows change.** The cost of a step follows the changes of its inputs, not the queue; a queued transfer
//!   takes about 55 bytes.
//!
//! # The life of a transfer
//! ```text
//!  Submit ─▶ queued ─▶ starting ─▶ running ─┬─▶ finished
//!              ▲   (its record is   │  │    ├─▶ failed
//!              │    on its way)     │  │    └─▶ cancelled
//!              └───── delayed ◀─────┘  └─▶ (Cancel) stopping ─▶ cancelled, or finished if it was faster
//! ```
//! Several sources of one file, or the hops of one, are a [`Route`]: one is in this picture, the others are *held*
//! outside it until it is their turn. The record of an end names the transfer that it releases, so no crash falls
//! between them.
//!
//! A transfer that needs tape goes this way up to three times. The purposes are to be brought online at its source ([`Work::Stage`]), to
//! be copied, and to be watched until it is on tape ([`Work::Archive`]).
//!
//! Only *held*, *queued* (*forced*, if it is to start whatever the limits say), *active* (starting or running) and
//! *stopping* exist in the store: see [`Record`] and [`LiveState`].
//!
//! # How a driver uses it
//! 1. Take a new, greater `epoch` from the store. Make a [`Scheduler`]. Give it [`Record::Live`] for each file that has
//!    not ended, in order of submission, and [`Record::SettingsChanged`] and [`Record::Learned`] if they are stored.
//!    Then give [`Command::Begin`].
//! 2. Step it with all new inputs, and carry out the effects in order. `Persist` effects go into one transaction with
//!    as many others as are at hand; afterwards, one `Persisted` with the last number says it for all.
//! 3. `Ack(seq)` belongs to the record of that number: it names the job or the ticket that waits.
//! 4. `Start(op, order)`: look up the data of the order by `op.transfer`; report one final event.
//!
//! ```
//! use std::sync::Arc;
//! use weir_sched::*;
//! use weir_units::{Bytes, Timestamp};
//! use weir_world::{Core, CopyMode, Outcome, Seq, TransferId, WorldEvent};
//!
//! let mut names = Names::default();
//! let (source, destination) = (names.se("https://ral"), names.se("https://qmul"));
//! let transfer = TransferSpec { id: TransferId(1), source, destination, size: Bytes(5_000_000), activity: names.activity("default"), ..TransferSpec::default() };
//! let job = Arc::new(JobSpec { job: JobId(7), terms: Terms::default(), transfers: vec![transfer], routes: vec![] });
//!
//! let mut core = Scheduler::new(Config::default());
//! let mut effects = Vec::new();
//! core.step(Timestamp(0), &[Input::Command(Command::Begin), Input::Command(Command::Submit(job))], &mut effects);
//! assert!(matches!(effects[..2], [Effect::Persist(Seq(1), Record::Submitted(_)), Effect::Persist(Seq(2), Record::Started { .. })]));
//!
//! effects.clear();
//! core.step(Timestamp(1), &[Input::Persisted(Seq(2))], &mut effects);
//! let [Effect::Ack(Seq(1)), Effect::Start(op, Op::Copy { resume: false, .. })] = effects[..] else { panic!("{effects:?}") };
//!
//! effects.clear();
//! let done = Outcome::Done { bytes: Bytes(5_000_000), mode: CopyMode::Pull, counted: None, first_byte: None };
//! core.step(Timestamp(2), &[Input::World(op, WorldEvent::Ended(done))], &mut effects);
//! assert!(matches!(effects[..], [Effect::Persist(Seq(3), Record::Ended { next: Next::Finished, .. })]));
//! ```

mod command;
mod core;
mod effect;
mod job;
mod names;
mod policy;
mod reason;
mod record;
mod retry;
mod settings;
mod sources;
mod stats;
mod waits;
mod words;

pub use command::{Command, JobSpec, Route, RouteKind, Terms, TransferSpec};
pub use core::{Config, Effect, Input, Scheduler};
pub use effect::{Event, Op, Refusal};
pub use job::{FileCounts, JobState, job_state};
pub use names::Names;
pub use reason::{Cause, Decision, Holder, Order, Reason, Verdict, Why};
pub use record::{End, Learned, Live, LiveState, Next, Record, Settled};
pub use retry::RetryPolicy;
pub use settings::{Direction, Mode, Resource, Setting, Settings};
pub use sources::{Candidate, Choice, Strategy, rank_by, rank_sources};
pub use stats::{Counts, GateStats, LinkStats, SeStats, TapeStats};
pub use waits::{LinkWaits, QueueWait};
pub use words::{ActivityId, GroupId, JobId, Link, Priority, SeId, Staging, Tape, Ticket, VoId, Work};
