//! Changes that a store will never take.

use weir_sched::Work;

use super::Change;
use crate::{
    model::{CANCELED_REASON, FileResult, FileState},
    time::Millis,
};

impl Change {
    /// What it is, for the log: a change may hold what must not be there.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submission",
            Self::Begin { .. } => "begin of an attempt",
            Self::Advance { .. } | Self::Again { .. } => "end of an attempt",
            Self::Requested { .. } => "request to a tape",
            Self::Unpinned { .. } => "pins that were given back",
            Self::End { .. } => "end of a file",
            Self::Release { .. } => "turn of a file",
            Self::Metadata { .. } => "metadata",
            Self::Cancel { .. } => "cancellation",
            Self::Claim { .. } => "claim",
            Self::Force { .. } => "forced start",
            Self::Priority { .. } => "priority",
            Self::Setting { .. } => "setting",
        }
    }

    /// The files that cannot go on without it.
    pub(super) fn set_aside_with(&self) -> Vec<u64> {
        match self {
            Self::Begin { file, .. }
            | Self::Advance { file, .. }
            | Self::Again { file, .. }
            | Self::End { file, .. }
            | Self::Release { file } => vec![*file],
            Self::Cancel { settled, stopping, .. } => settled.iter().chain(stopping).copied().collect(),
            _ => Vec::new(),
        }
    }

    /// What is written in its place: the file fails, in words that every store takes.
    pub(super) fn in_place(&self, now: Millis) -> Vec<Self> {
        let fails = |file: u64, work: Work, state: FileState| {
            let result = FileResult {
                reason: (state != FileState::Finished).then(|| NOT_TAKEN.to_owned()),
                class: (state != FileState::Finished).then_some(weir_world::ErrorClass::Internal),
                ..FileResult::default()
            };
            vec![Self::End {
                file,
                work,
                at: now,
                state,
                result,
            }]
        };
        match self {
            Self::Begin { file, work, .. } | Self::Again { file, work, .. } => fails(*file, *work, FileState::Failed),
            Self::Advance { file, .. } | Self::Release { file } => fails(*file, Work::Copy, FileState::Failed),
            Self::End { file, work, state, .. } => fails(*file, *work, *state),
            Self::Cancel {
                job,
                whole,
                settled,
                stopping,
                at,
                ..
            } => vec![Self::Cancel {
                job: *job,
                whole: *whole,
                settled: settled.clone(),
                stopping: stopping.clone(),
                at: *at,
                reason: CANCELED_REASON.to_owned(),
            }],
            _ => Vec::new(),
        }
    }
}

/// Why a file failed whose row the store does not take.
const NOT_TAKEN: &str =
    "TRANSFER [5] FINALIZATION the service could not record what happened to this file; its log says why";
