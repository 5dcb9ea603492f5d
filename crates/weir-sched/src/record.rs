//! Records: the state that must outlive the process.
//!
//! | record | the store writes | acknowledged |
//! |---|---|---|
//! | [`Record::Submitted`] | the job and its files, with everything the door knows of them, queued or held; the only one that may be refused ([`weir_world::Input::Refused`]), if the job or a file is there already | yes, the client gets its job id |
//! | [`Record::Started`] | file: active (for [`Work::Stage`]: started; for [`Work::Archive`]: archiving), attempt, epoch, start time; `not_before` back to zero | no, the core then starts the operation |
//! | [`Record::Ended`] | file: the state of [`Next`]; one line of history; finish time, bytes, reason; the one in `released`: queued | no, [`crate::Event::Settled`] follows if it was the last |
//! | [`Record::Cancelled`] | files in `settled`: cancelled; files in `stopping`: still active, marked to be stopped; files in `released`: queued | yes, the client gets its answer |
//! | [`Record::PrioritySet`] | files: their priority | yes |
//! | [`Record::Forced`] | files: forced, until they start; `not_before` back to zero | yes |
//! | [`Record::SettingsChanged`] | the settings, if they are kept in the store | yes |
//! | [`Record::Learned`] | learned values of the optimiser, by name; losing them costs only time | no |
//! | [`Record::Live`] | never issued: the store gives it back, one per file that has not ended | |
//!
//! After a restart the store gives back [`Record::Live`] for each file that has not ended, in order of submission; or,
//! for tests, all records from the beginning. Both lead to the same core.

use std::sync::Arc;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{CopyMode, Failure, OpId, TransferId};

use crate::{JobSpec, Priority, Resource, RouteKind, Setting, Terms, Ticket, TransferSpec, Work};

/// One durable fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A job was taken.
    Submitted(Arc<JobSpec>),
    /// An attempt begins: from here on its operation may be running somewhere.
    Started {
        /// The operation.
        op: OpId,
        /// The operation.
        work: Work,
    },
    /// An attempt came to its end.
    Ended {
        /// The operation.
        op: OpId,
        /// How it ended.
        end: End,
        /// The next state of the transfer.
        next: Next,
        /// The held transfer of the same [`crate::Route`] whose turn it is now. Without one, and with a final `next`,
        /// the transfers that are still held are never used.
        released: Option<TransferId>,
    },
    /// Transfers were cancelled.
    Cancelled {
        /// The command that asked.
        ticket: Ticket,
        /// Transfers that were waiting: they have ended, as cancelled.
        settled: Vec<TransferId>,
        /// Transfers with an operation that may be running: it is stopped, and a [`Record::Ended`] follows.
        stopping: Vec<TransferId>,
        /// Held transfers whose turn it is now, because the live one of their [`crate::Route`] is in `settled`.
        released: Vec<TransferId>,
    },
    /// The priority of transfers was changed.
    PrioritySet {
        /// The command that asked.
        ticket: Ticket,
        /// The changed transfers.
        transfers: Vec<TransferId>,
        /// The new priority.
        priority: Priority,
    },
    /// Transfers start whatever the limits say.
    Forced {
        /// The command that asked.
        ticket: Ticket,
        /// The transfers that will start; all of them were queued.
        transfers: Vec<TransferId>,
    },
    /// Settings were changed.
    SettingsChanged {
        /// The command that asked.
        ticket: Ticket,
        /// How, in order.
        changes: Arc<[Setting]>,
    },
    /// Learned values of the optimiser for some resources; later ones replace earlier ones.
    Learned(Arc<[Learned]>),
    /// A transfer that has not ended, as the store's rows tell it.
    Live(Live),
}

/// The learned values of the optimiser for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The resource.
    pub resource: Resource,
    /// How many transfers are worth running.
    pub slots: u32,
    /// Throughput of one transfer.
    pub each: BitRate,
    /// When that was so.
    pub at: Timestamp,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The file was copied and verified.
    Done {
        /// Its size.
        bytes: Bytes,
        /// How the bytes came.
        mode: CopyMode,
        /// Bytes that the executor itself saw moving, by its own reads or by a storage's final count; none if it saw no final count.
        /// Never a size that was looked up.
        #[serde(default)]
        counted: Option<Bytes>,
        /// From the order of the copy to its first byte of data, if the executor knows it.
        #[serde(default)]
        first_byte: Option<Duration>,
    },
    /// The file was there already, whole, left by an earlier attempt of this transfer.
    Adopted {
        /// Its size.
        bytes: Bytes,
    },
    /// The file is on disk, or on tape, as was asked.
    Ready,
    /// It failed.
    Failed(Failure),
    /// It was stopped on demand.
    Stopped {
        /// Bytes that had moved.
        bytes_moved: Bytes,
    },
    /// The result is unknown.
    Lost,
}

/// The state of a transfer after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Ended: the destination has the file.
    Finished,
    /// Ended: no more attempts.
    Failed,
    /// Ended: cancelled, and nothing of it runs any more.
    Cancelled,
    /// Waits for another attempt, or for its next operation.
    Queued {
        /// The next operation.
        work: Work,
        /// Not before this time.
        not_before: Timestamp,
        /// Failures so far that count against the allowed retries.
        failures: u8,
        /// Attempts so far that did not count: immediate retries and lost executors.
        free_retries: u8,
        /// An attempt may have left something at the destination: look before copying.
        resume: bool,
    },
    /// Cancelled, but the operation was lost, or its clean-up failed: another operation will check the destination.
    Cleanup {
        /// Not before this time.
        not_before: Timestamp,
    },
}

impl Next {
    /// The final state, if this is one.
    pub fn settled(self) -> Option<Settled> {
        match self {
            Self::Finished => Some(Settled::Finished),
            Self::Failed => Some(Settled::Failed),
            Self::Cancelled => Some(Settled::Cancelled),
            Self::Queued { .. } | Self::Cleanup { .. } => None,
        }
    }
}

/// A state that nothing changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// The destination has the file, verified.
    Finished,
    /// All attempts failed.
    Failed,
    /// A client or an operator cancelled it.
    Cancelled,
}

/// A transfer that has not ended, in the form in which rows of a store hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// The file.
    pub transfer: TransferSpec,
    /// The terms of its job, with its own priority if that was changed.
    pub terms: Terms,
    /// Where it stands.
    pub state: LiveState,
    /// Of the last [`Next::Queued`]; [`TransferSpec::first_work`] if there was none.
    pub work: Work,
    /// Attempt of the last [`Record::Started`]; 0 if there was none.
    pub attempt: u32,
    /// From the last [`Next::Queued`]; 0 if there was none.
    pub failures: u8,
    /// From the last [`Next::Queued`]; 0 if there was none.
    pub free_retries: u8,
    /// From the last [`Next::Queued`]; false if there was none, but true for a replica that was released: one before it may
    /// have left something at the destination.
    pub resume: bool,
    /// How it follows others of its job, and the first of all of them, which names the route; none for an independent file.
    pub route: Option<(RouteKind, TransferId)>,
    /// From the last [`Next::Queued`] or [`Next::Cleanup`]; zero if there was none, or a [`Record::Started`] or [`Record::Forced`] after
    /// it.
    pub not_before: Timestamp,
}

/// Where a transfer stands that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LiveState {
    /// Submitted, or waiting for another attempt.
    Queued,
    /// Named in a [`Record::Forced`], and not started since.
    Forced,
    /// Waits until it is its turn on its route. If none of its route is in another state, it is never used, and may be left
    /// out.
    Held,
    /// Started, with no end recorded.
    Active,
    /// Named in `stopping` of a [`Record::Cancelled`], with no final state recorded.
    Stopping,
}
