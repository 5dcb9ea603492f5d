//! Requests of the doors to the driver.

use tokio::sync::oneshot;
use uuid::Uuid;
use weir_sched::{Command, Event, Names, Op, Record};
use weir_world::Core;

use super::bounds::Holdings;
use super::meter::Meter;
use super::pending_answers::{Answer, Forcing};
use crate::{
    config::QueueLimits,
    settings::NamedSetting,
    store::{Change, Submission},
};

/// Requests that wait for the driver. A step takes some 4,000 of them in a few milliseconds; more would only hide overload.
pub(super) const REQUESTS_MAX: usize = 4096;

/// The cores that this driver runs.
pub trait TransferCore: Core<Command = Command, Record = Record, Op = Op, Event = Event> + Send + 'static {}

/// A look at the core and the counts, made between two steps.
pub type Look<C> = Box<dyn FnOnce(&C, &Names, &Meter) + Send>;

/// A request of the door.
pub enum Request<C> {
    /// To take a job.
    Submit {
        /// The job.
        submission: Box<Submission>,
        /// Told once it is durable.
        reply: oneshot::Sender<Answer>,
    },
    /// To take files back.
    Cancel {
        /// Their job.
        job: Uuid,
        /// Whether the job is cancelled with them.
        whole: bool,
        /// The ids of the files.
        files: Vec<u64>,
        /// Why, for their rows.
        reason: String,
        /// Told once it is durable.
        reply: oneshot::Sender<Answer>,
    },
    /// To give files another priority.
    Priority {
        /// Their job.
        job: Uuid,
        /// The ids of the files.
        files: Vec<u64>,
        /// 1 to 5.
        priority: u8,
        /// Told once it is durable.
        reply: oneshot::Sender<Answer>,
    },
    /// To take other settings.
    Settings {
        /// For the core.
        settings: Vec<NamedSetting>,
        /// Their rows.
        changes: Vec<Change>,
        /// Told once it is durable.
        reply: oneshot::Sender<Answer>,
    },
    /// To start files past all limits.
    Force {
        /// The ids of the files.
        files: Vec<u64>,
        /// Called with the forced files: gives the changes to store with them.
        forcing: Forcing,
        /// Told once it is durable.
        reply: oneshot::Sender<Answer>,
    },
    /// To look at the core and the counts.
    Look(Look<C>),
    /// New limits of queues, and of all that is remembered.
    Limits(QueueLimits, Holdings),
    /// A command for the core as it is.
    #[cfg(test)]
    Raw(Command),
}
