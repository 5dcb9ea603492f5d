//! Notices to the event writer.

use uuid::Uuid;
use weir_executor::timeline::Timeline;
use weir_sched::Work;
use weir_world::OpId;

use weir_events::MessageKind;
use weir_service::time::Millis;

use crate::store::Change;

/// A notice to the event writer.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A job is durable.
    Submitted {
        job: Uuid,
        /// The one file that begins, if the others wait for it.
        live: Option<u64>,
    },
    /// An attempt has begun; its message is written already.
    Lines(MessageKind, String, Vec<u8>),
    /// An attempt begins at another node.
    BegunElsewhere(OpId, Millis),
    /// An attempt at another node is over, and this is how its time went.
    OverElsewhere(OpId, Timeline),
    /// The end of an attempt is durable.
    Ended(OpId, Box<Change>),
    /// The turn of a file that was not used so far is durable.
    Released(u64),
    /// The start of a file's staging, or of the watch for its copy on tape, is durable.
    Began {
        /// The id of the file.
        file: u64,
        /// The operation.
        work: Work,
        /// Since when.
        at: Millis,
    },
    /// Files that ended without an attempt under way: that is durable.
    Cancelled {
        /// Their job.
        job: Uuid,
        /// They.
        files: Vec<u64>,
        /// When.
        at: Millis,
        /// Why.
        reason: String,
    },
}

impl Notice {
    /// The notice of a durable change, if it has one. `op`: the attempt behind it, if there is one.
    pub(crate) fn of(op: Option<OpId>, change: &Change) -> Option<Self> {
        Some(match (op, change) {
            (_, Change::Submit(submission)) => Self::Submitted {
                job: submission.job.id,
                live: submission.live,
            },
            (Some(op), Change::End { .. } | Change::Again { .. } | Change::Advance { .. }) => {
                Self::Ended(op, Box::new(change.clone()))
            }
            (_, Change::Release { file }) => Self::Released(*file),
            (_, Change::Begin { file, work, at, .. }) if *work != Work::Copy => Self::Began {
                file: *file,
                work: *work,
                at: *at,
            },
            (
                _,
                Change::Cancel {
                    job,
                    settled,
                    at,
                    reason,
                    ..
                },
            ) if !settled.is_empty() => Self::Cancelled {
                job: *job,
                files: settled.clone(),
                at: *at,
                reason: reason.clone(),
            },
            _ => return None,
        })
    }

    /// The store took these changes in place of the one of this notice. Returns whether a message remains to be sent.
    pub(crate) fn holds_instead(&mut self, instead: &[Change]) -> bool {
        let Self::Ended(op, told) = self else {
            return matches!(self, Self::Cancelled { .. }) && !instead.is_empty();
        };
        let found = |change: &&Change| matches!(change, Change::End { file, .. } if *file == op.transfer.0);
        instead.iter().find(found).map(|end| **told = end.clone()).is_some()
    }
}
