//! Commands from the transfer service's door to its core.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Timestamp};
use weir_world::TransferId;

use crate::{ActivityId, JobId, Link, Priority, SeId, Setting, Staging, Strategy, Tape, Ticket, VoId, Work};

/// A command of a client or an operator.
///
/// Each command but [`Command::Begin`] gets one answer: a record with its job or ticket, acknowledged once durable; or,
/// for a refused job, [`crate::Event::Refused`]. Each is given once: the door does not repeat them.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Takes a job. Answered by [`crate::Record::Submitted`].
    Submit(Arc<JobSpec>),
    /// Cancels these transfers, as far as they have not ended. Answered by [`crate::Record::Cancelled`], even if there was
    /// nothing left to cancel; once it is acknowledged, the store tells the truth about all of them.
    Cancel {
        /// Comes back in the record.
        ticket: Ticket,
        /// The transfers, of one job or of many. Unknown and ended ones are ignored.
        transfers: Arc<[TransferId]>,
    },
    /// Changes the priority of transfers that have not ended. Answered by [`crate::Record::PrioritySet`].
    SetPriority {
        /// Comes back in the record.
        ticket: Ticket,
        /// The transfers; unknown and ended ones are ignored.
        transfers: Arc<[TransferId]>,
        /// The new priority.
        priority: Priority,
    },
    /// Starts transfers at the next decision, past all limits and turns. Answered by [`crate::Record::Forced`].
    ///
    /// They take slots like any other, so a resource may have more active than it allows; then no other transfer starts
    /// there until enough have ended. A limit of 0 or a hold by an operator still applies: such a transfer starts when
    /// it is lifted.
    Force {
        /// Comes back in the record.
        ticket: Ticket,
        /// The transfers. Transfers that do not wait for their copy (held, at tape, active, cancelled, ended) are ignored,
        /// and so are those that were forced before.
        transfers: Arc<[TransferId]>,
    },
    /// Changes settings. Running transfers go on. Answered by [`crate::Record::SettingsChanged`].
    Set {
        /// Comes back in the record.
        ticket: Ticket,
        /// In order; the last word counts.
        changes: Arc<[Setting]>,
    },
    /// Everything is restored: decisions may begin. Until then jobs are taken, but nothing starts, and all
    /// other commands wait.
    Begin,
}

/// A job, as far as decisions need it. URLs, metadata, tokens and checksums stay with the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpec {
    /// Its name.
    pub job: JobId,
    /// The terms of all its transfers.
    pub terms: Terms,
    /// One per file, in the order in which they should start. Ids are fresh.
    pub transfers: Vec<TransferSpec>,
    /// Groups of transfers that form one route; empty for independent files. No two share a transfer.
    pub routes: Vec<Route>,
}

/// Neighbours among the transfers of a job that bring one file together: one of them is live, the others are held until
/// it is their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// How they follow each other.
    pub kind: RouteKind,
    /// Their places in [`JobSpec::transfers`].
    pub places: std::ops::Range<usize>,
    /// The index of the transfer that begins. For replicas, the core puts the best here before it records the job.
    pub live: usize,
}

/// How the transfers of a route follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RouteKind {
    /// Several sources of one file. When one has failed for good or is cancelled, the best of those left is next; when one has
    /// brought the file, the others are not used.
    Replicas(Strategy),
    /// One hop after the other, in order. When one fails or is cancelled, those after it are not used.
    Hops,
}

/// One file of a job.
///
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferSpec {
    /// Its name, given by the store, never reused.
    pub id: TransferId,
    /// Where the file is.
    pub source: SeId,
    /// Where it is to go.
    pub destination: SeId,
    /// How large it is said to be; zero if unknown. A hint: used to weigh queues, not to verify.
    pub size: Bytes,
    /// Activity of this file.
    pub activity: ActivityId,
    /// Its tape operations.
    pub tape: Tape,
}

impl TransferSpec {
    /// The link it uses.
    pub fn link(&self) -> Link {
        Link {
            source: self.source,
            destination: self.destination,
        }
    }

    /// The first operation of the transfer.
    pub fn first_work(&self) -> Work {
        match self.tape.stage {
            Staging::No => Work::Copy,
            Staging::First | Staging::Only => Work::Stage,
        }
    }
}

/// The terms of a job: all it asks for, beside its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// How urgent.
    pub priority: Priority,
    /// The virtual organisation.
    pub vo: VoId,
    /// How often to try again after a failure, as FTS reads it: 0 the server's default, below 0 never, above 0 so often.
    pub retries: i32,
    /// How long to wait before the first new try; zero for the server's default.
    pub retry_delay: Duration,
    /// When all files should have arrived; zero if it does not matter. Among transfers of one priority and link, the
    /// earliest deadlines go first.
    pub deadline: Timestamp,
}
