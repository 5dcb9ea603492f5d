//! From the states of files to the state of their job, as FTS3 does it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many files of a job are in which state. Counts distinct file indices: alternative sources of one file count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Waiting: `SUBMITTED`, `TOKEN_PREP`, `ON_HOLD`.
    pub submitted: u64,
    /// Being brought online: `STAGING`, `STARTED`.
    pub staging: u64,
    /// Being copied: `READY`, `ACTIVE`.
    pub active: u64,
    /// Copied, waiting for tape: `ARCHIVING`.
    pub archiving: u64,
    /// `FINISHED`.
    pub finished: u64,
    /// `FAILED`.
    pub failed: u64,
    /// `CANCELED`.
    pub canceled: u64,
}

/// State of a job. Prints as FTS3 writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Nothing has begun.
    Submitted,
    /// Files are being brought online, none is further.
    Staging,
    /// Something has begun, something is left to do.
    Active,
    /// All that is left to do is to wait for tape.
    Archiving,
    /// All files arrived.
    Finished,
    /// Some files arrived, some failed.
    FinishedDirty,
    /// Files failed, none arrived.
    Failed,
    /// Files were cancelled, none failed, not all arrived.
    Canceled,
}

impl JobState {
    /// The word of FTS3.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Staging => "STAGING",
            Self::Active => "ACTIVE",
            Self::Archiving => "ARCHIVING",
            Self::Finished => "FINISHED",
            Self::FinishedDirty => "FINISHEDDIRTY",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }

    /// Tells whether nothing can change any more.
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Finished | Self::FinishedDirty | Self::Failed | Self::Canceled
        )
    }

    /// The job's reason as FTS3 writes it, if there is one.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Failed | Self::FinishedDirty => {
                Some("One or more files failed. Please have a look at the details for more information")
            }
            Self::Canceled => Some("Job canceled by the user"),
            _ => None,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The state of a job of independent files (FTS3 type `N`).
///
/// Failed files outweigh cancelled ones, and a finished file turns them into `FINISHEDDIRTY`; finished and cancelled ones
/// without a failure make `CANCELED`. (Multi-hop jobs, where any failure fails the whole, are decided elsewhere.)
pub fn job_state(counts: FileCounts) -> JobState {
    let FileCounts {
        submitted,
        staging,
        active,
        archiving,
        finished,
        failed,
        canceled,
    } = counts;
    let ended = finished + failed + canceled;
    if submitted + staging + active + archiving == 0 {
        return match (finished, failed, canceled) {
            (1.., 1.., _) => JobState::FinishedDirty,
            (_, 1.., _) => JobState::Failed,
            (_, 0, 1..) => JobState::Canceled,
            (1.., 0, 0) => JobState::Finished,
            (0, 0, 0) => JobState::Submitted,
        };
    }
    if submitted + staging + active == 0 {
        return JobState::Archiving;
    }
    if ended + active + archiving > 0 {
        return JobState::Active;
    }
    if staging > 0 {
        JobState::Staging
    } else {
        JobState::Submitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts in the order submitted, active, finished, failed, cancelled.
    fn check(counts: [u64; 5], expected: &str) {
        let [submitted, active, finished, failed, canceled] = counts;
        let counts = FileCounts {
            submitted,
            active,
            finished,
            failed,
            canceled,
            ..FileCounts::default()
        };
        assert_eq!(job_state(counts).as_str(), expected, "{counts:?}");
    }

    #[test]
    fn files_roll_up_into_their_job() {
        // Clients decide by these words whether to wait, resubmit or give up.
        check([3, 0, 0, 0, 0], "SUBMITTED");
        check([2, 1, 0, 0, 0], "ACTIVE");
        check([2, 0, 1, 0, 0], "ACTIVE");
        check([2, 0, 0, 1, 0], "ACTIVE");
        check([0, 1, 5, 1, 1], "ACTIVE");
        check([0, 0, 3, 0, 0], "FINISHED");
        check([0, 0, 2, 1, 0], "FINISHEDDIRTY");
        check([0, 0, 1, 1, 1], "FINISHEDDIRTY");
        check([0, 0, 0, 3, 0], "FAILED");
        check([0, 0, 0, 1, 2], "FAILED");
        check([0, 0, 0, 0, 3], "CANCELED");
        check([0, 0, 2, 0, 1], "CANCELED");
    }

    #[test]
    fn tape_states_roll_up() {
        let state = |submitted, staging, archiving, finished| {
            job_state(FileCounts {
                submitted,
                staging,
                archiving,
                finished,
                ..FileCounts::default()
            })
            .as_str()
        };
        assert_eq!(state(1, 1, 0, 0), "STAGING");
        assert_eq!(state(1, 1, 0, 1), "ACTIVE");
        assert_eq!(state(0, 0, 2, 1), "ARCHIVING");
        assert_eq!(state(1, 0, 2, 0), "ACTIVE");
    }
}
