//! What the transfer service's door asks of its core.

use std::sync::Arc;
use std::time::Duration;

use weir_units::{Bytes, Timestamp};
use weir_world::TransferId;

use crate::{ActivityId, JobId, Link, Priority, SeId, Setting, Ticket, VoId};

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
}

/// One file of a job.
///
/// Room is left here for what later rooms bring: alternative sources, the hop that must come before, staging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl TransferSpec {
    /// The link it uses.
    pub fn link(&self) -> Link {
        Link {
            source: self.source,
            destination: self.destination,
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
