//! From the states of files to the state of their job.

use weir_sched::JobState;

/// How many files of a job are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All files of the job.
    pub files: i64,
    /// Files of which an attempt has begun, ended or not.
    pub started: i64,
    /// Files in [`FileState::Finished`](super::FileState::Finished).
    pub finished: i64,
    /// Files in [`FileState::Failed`](super::FileState::Failed).
    pub failed: i64,
    /// Files in [`FileState::Canceled`](super::FileState::Canceled).
    pub canceled: i64,
    /// Files in [`FileState::Archiving`](super::FileState::Archiving).
    pub archiving: i64,
}

impl Counts {
    /// The state of a job of this kind, and its reason in FTS3's words. `cancelled` says that the whole job was.
    pub fn verdict(&self, kind: char, cancelled: bool) -> (JobState, Option<&'static str>) {
        let mut state = match kind {
            SEVERAL_SOURCES => self.of_one_file().state(),
            SEVERAL_HOPS if self.failed > 0 => JobState::Failed,
            _ => self.state(),
        };
        if state.is_terminal() && cancelled && self.canceled > 0 {
            state = JobState::Canceled;
        }
        (
            state,
            state.reason().filter(|_| state != JobState::Canceled || cancelled),
        )
    }

    /// As [`Self::verdict`], of a job that was in this state before: while nothing has begun, staging stays staging.
    pub fn verdict_after(&self, before: JobState, kind: char, cancelled: bool) -> (JobState, Option<&'static str>) {
        match (before, self.verdict(kind, cancelled)) {
            (JobState::Staging, (JobState::Submitted, reason)) => (JobState::Staging, reason),
            (_, verdict) => verdict,
        }
    }

    /// As counts of distinct files, where all are sources of one.
    fn of_one_file(&self) -> Self {
        let mut one = Self {
            files: 1,
            started: self.started.min(1),
            archiving: self.archiving.min(1),
            ..Self::default()
        };
        if self.finished > 0 {
            (one.finished, one.archiving) = (1, 0);
        } else if self.failed + self.canceled >= self.files {
            (one.failed, one.canceled) = if self.failed > 0 { (1, 0) } else { (0, 1) };
        }
        one
    }

    /// The state that follows from the files. A job that has begun stays active while a retry waits.
    pub fn state(&self) -> JobState {
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        let left = number(self.files - self.finished - self.failed - self.canceled - self.archiving);
        let (submitted, active) = if self.started > 0 { (0, left) } else { (left, 0) };
        weir_sched::job_state(weir_sched::FileCounts {
            submitted,
            active,
            archiving: number(self.archiving),
            finished: number(self.finished),
            failed: number(self.failed),
            canceled: number(self.canceled),
            ..weir_sched::FileCounts::default()
        })
    }
}

/// The kind of a job whose files are all sources of one file.
pub const SEVERAL_SOURCES: char = 'R';

/// The kind of a job whose files are hops, one after the other.
pub const SEVERAL_HOPS: char = 'H';

#[cfg(test)]
mod tests {
    use super::*;

    fn rolls_up(files: i64, started: i64, finished: i64, failed: i64, canceled: i64, expected: JobState) {
        assert_eq!(
            Counts {
                files,
                started,
                finished,
                failed,
                canceled,
                archiving: 0,
            }
            .verdict('N', false)
            .0,
            expected
        );
    }

    #[test]
    fn a_job_is_what_its_files_are() {
        rolls_up(3, 0, 0, 0, 0, JobState::Submitted);
        rolls_up(3, 1, 0, 0, 0, JobState::Active);
        rolls_up(3, 3, 3, 0, 0, JobState::Finished);
        rolls_up(3, 3, 1, 2, 0, JobState::FinishedDirty);
        rolls_up(3, 3, 2, 0, 1, JobState::Canceled);
        rolls_up(3, 3, 0, 1, 2, JobState::Failed);
        rolls_up(3, 0, 0, 0, 3, JobState::Canceled);
        rolls_up(3, 3, 0, 2, 0, JobState::Active);
        let partly = Counts {
            files: 3,
            started: 3,
            finished: 1,
            failed: 1,
            canceled: 1,
            archiving: 0,
        };
        assert_eq!(
            partly.verdict('N', true),
            (JobState::Canceled, Some("Job canceled by the user"))
        );
    }

    #[test]
    fn jobs_of_sources_and_hops_are_what_their_files_are() {
        // Files, started, finished, failed, canceled.
        let state = |kind, [files, started, finished, failed, canceled]: [i64; 5]| {
            let counts = Counts {
                files,
                started,
                finished,
                failed,
                canceled,
                archiving: 0,
            };
            counts.verdict(kind, false).0
        };
        for (counts, expected) in [
            ([3, 0, 0, 0, 0], JobState::Submitted),
            ([3, 2, 0, 1, 0], JobState::Active),
            ([3, 2, 1, 1, 0], JobState::Finished),
            ([3, 3, 0, 2, 1], JobState::Failed),
            ([3, 0, 0, 0, 3], JobState::Canceled),
            ([3, 0, 0, 0, 2], JobState::Submitted),
        ] {
            assert_eq!(state(SEVERAL_SOURCES, counts), expected, "sources: {counts:?}");
        }
        for (counts, expected) in [
            ([3, 0, 0, 0, 0], JobState::Submitted),
            ([3, 1, 1, 0, 0], JobState::Active),
            ([3, 2, 1, 1, 0], JobState::Failed),
            ([3, 3, 3, 0, 0], JobState::Finished),
            ([3, 2, 1, 0, 2], JobState::Canceled),
        ] {
            assert_eq!(state(SEVERAL_HOPS, counts), expected, "hops: {counts:?}");
        }
    }
}
