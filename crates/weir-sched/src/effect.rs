//! Orders and events of the core.

use serde::{Deserialize, Serialize};
use weir_world::TransferId;

use crate::{JobId, Link, Settled};

/// An order to an executor. The executor looks up everything else (URLs, tokens, checksums) by the transfer's id.
///
/// Room is left for `Delete` and `Stat`; executors match with a fallback that fails the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// Bring the file to the destination.
    ///
    /// Ends with `Done`, `Failed`, or (only with `resume`) `Adopted`.
    Copy {
        /// From where to where.
        link: Link,
        /// An earlier attempt of this transfer may have left something at the destination. Look there first: a whole file
        /// (size and checksum agree) is adopted, a part is removed, then the file is copied.
        resume: bool,
        /// Earlier failures that counted, for the executor's choice of mode.
        failures: u8,
    },
    /// The transfer is cancelled, but one of its operations was lost: bring the destination to a known state.
    ///
    /// Ends with `Adopted` if the whole file is there; otherwise the executor removes the partial file of an earlier
    /// attempt and ends with `Stopped`. `Failed` is treated as `Stopped`.
    Cleanup {
        /// From where to where.
        link: Link,
    },
    /// Bring the file from tape to disk at the source. A request of an earlier operation is not repeated.
    ///
    /// Ends with `Ready`, or `Failed`. After a stop the request remains; it is released with the pins, when the
    /// transfer has ended.
    Stage {
        /// From where to where.
        link: Link,
    },
    /// Watch the copy until it is on tape at the destination.
    ///
    /// Ends with `Ready`, or `Failed`.
    Archive {
        /// From where to where.
        link: Link,
    },
}

impl Op {
    /// From where to where its transfer goes.
    pub fn link(&self) -> Link {
        match self {
            Self::Copy { link, .. } | Self::Cleanup { link } | Self::Stage { link } | Self::Archive { link } => *link,
        }
    }
}

/// An event for observers. Except for refusals, each leaves only after its record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A job was not taken, and nothing of it is kept.
    Refused {
        /// The job.
        job: JobId,
        /// Why.
        refusal: Refusal,
    },
    /// A transfer ended, durably. Once per transfer.
    Settled {
        /// The transfer.
        transfer: TransferId,
        /// How.
        state: Settled,
    },
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The core holds as many transfers as it may: come back later.
    #[error("{queued} transfers are queued and {limit} are allowed")]
    QueueFull {
        /// Transfers that have not ended.
        queued: u64,
        /// How many may be.
        limit: u64,
    },
    /// A transfer of this id is there already: the job was given twice.
    #[error("transfer {0} was submitted before")]
    Duplicate(TransferId),
}
