//! What the transfer service's door asks of its core.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{Bytes, Timestamp};
use weir_world::TransferId;

use crate::{ActivityId, JobId, Link, Priority, SeId, Setting, Staging, Strategy, Tape, Ticket, VoId, Work};

/// What clients and operators ask.
///
/// Each command but [`Command::Begin`] gets one answer: a record with its job or ticket, acknowledged once durable; or, for a
/// job that is not taken, [`crate::Event::Refused`]. Given once each: the door does not repeat them.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Takes a job. Answered by [`crate::Record::Submitted`].
    Submit(Arc<JobSpec>),
    /// Cancels these transfers, as far as they have not ended. Answered by [`crate::Record::Cancelled`], even if there was
    /// nothing left to cancel; once it is acknowledged, the store tells the truth about all of them.
    Cancel {
        /// Comes back in the record.
        ticket: Ticket,
        /// Which; of one job or of many. Unknown and ended ones are passed over.
        transfers: Arc<[TransferId]>,
    },
    /// Changes the priority of transfers that have not ended. Answered by [`crate::Record::PrioritySet`].
    SetPriority {
        /// Comes back in the record.
        ticket: Ticket,
        /// Which; unknown and ended ones are passed over.
        transfers: Arc<[TransferId]>,
        /// To what.
        priority: Priority,
    },
    /// Starts transfers at the next decision, past all limits and turns. Answered by [`crate::Record::Forced`].
    ///
    /// They take their slots like any other, so that a resource may have more active than it allows; then nobody else starts there until
    /// enough have ended. What an operator holds back (a limit of 0, a hold) waits all the same, and starts when it no longer is.
    Force {
        /// Comes back in the record.
        ticket: Ticket,
        /// Which. Those that do not wait for their copy (held, at tape, active, cancelled, ended) are passed over, and so are those that
        /// were forced before.
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
    /// What holds for all its transfers.
    pub terms: Terms,
    /// One per file, in the order in which they should start. Ids are fresh.
    pub transfers: Vec<TransferSpec>,
    /// Those of them that belong together; empty for independent files. No two share a transfer.
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
    /// The place of the one that begins. For replicas, the core puts the best here before it records the job.
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
    /// What it asks of tape.
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

    /// What is to be done first.
    pub fn first_work(&self) -> Work {
        match self.tape.stage {
            Staging::No => Work::Copy,
            Staging::First | Staging::Only => Work::Stage,
        }
    }
}

/// What a job asks for, beside its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// How urgent.
    pub priority: Priority,
    /// For whom.
    pub vo: VoId,
    /// How often to try again after a failure, as FTS reads it: 0 the server's default, below 0 never, above 0 so often.
    pub retries: i32,
    /// How long to wait before the first new try; zero for the server's default.
    pub retry_delay: Duration,
    /// When all files should have arrived; zero if it does not matter. Among transfers of one priority and link, those
    /// whose deadline is near go first.
    pub deadline: Timestamp,
}
