//! The wanted transfers, and the record of each until it has ended.

use std::time::Duration;

use weir_measure::rows::Row;
use weir_measure::{Failure, Stages, State, Transfer};
use weir_world::ErrorClass;

use crate::inject::injection::{JobId, Observed, Phase};

/// Transfers of one link to be submitted together.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) workload: usize,
    pub(crate) link: usize,
    pub(crate) activity: String,
    pub(crate) mode: Option<&'static str>,
    /// Whether each transfer is a measurement: its first attempt decides.
    pub(crate) measured: bool,
    /// Whether a rule asks for them.
    pub(crate) by_rule: bool,
    /// With a rule: source files of the link that may be kept from taking part again, because their copies wait for the audit.
    pub(crate) may_keep: usize,
    /// Whether the rule ends when its files have come.
    pub(crate) is_loop: bool,
    /// How long delivered files live; with a rule, how long it does.
    pub(crate) lifetime: Duration,
    pub(crate) files: Vec<WantedFile>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedFile {
    pub(crate) id: u64,
    /// Index among the run's source files.
    pub(crate) source: usize,
    /// Whether a fault lets it not be at its source.
    pub(crate) is_missing: bool,
    /// When the plan wanted it.
    pub(crate) wanted: Duration,
}

/// One transfer of the run. Times count from its start.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) id: u64,
    pub(crate) workload: usize,
    pub(crate) link: usize,
    /// Index of the source file.
    pub(crate) source: usize,
    pub(crate) size: u64,
    /// Where it goes, below the destination's base.
    pub(crate) path: String,
    pub(crate) job: Option<JobId>,
    pub(crate) wanted: Duration,
    /// When it was handed to the door.
    pub(crate) injected: Duration,
    /// When the service said yes.
    pub(crate) accepted: Option<Duration>,
    pub(crate) started: Option<Duration>,
    pub(crate) ended: Duration,
    /// `None` while it has not ended.
    pub(crate) state: Option<State>,
    pub(crate) mode: Option<String>,
    pub(crate) retries: u32,
    pub(crate) bytes_moved: u64,
    /// Bytes that the service saw moving, if it tells.
    pub(crate) counted: Option<u64>,
    /// How long the first byte of data took, if the service tells.
    pub(crate) first_byte: Option<Duration>,
    /// The time that its newest attempt spent in each state, if the service tells.
    pub(crate) waits: Option<Box<weir_world::Waits>>,
    pub(crate) failure: Option<Failure>,
    /// Whether its file stays for the audit.
    pub(crate) kept: bool,
    /// Of a transfer that a rule asked for: when it passed from one service to the next.
    pub(crate) stages: Option<Stages>,
}

impl Record {
    pub(crate) fn new(file: &WantedFile, wanted: &Wanted, size: u64, path: String, now: Duration) -> Self {
        Self {
            id: file.id,
            workload: wanted.workload,
            link: wanted.link,
            source: file.source,
            size,
            path,
            job: None,
            wanted: file.wanted,
            injected: now,
            accepted: None,
            started: None,
            ended: now,
            state: None,
            mode: None,
            retries: 0,
            bytes_moved: 0,
            counted: None,
            first_byte: None,
            waits: None,
            failure: None,
            kept: false,
            stages: wanted.by_rule.then(|| Stages {
                asked: now,
                ..Stages::default()
            }),
        }
    }

    /// The service said yes.
    pub(crate) fn accepted(&mut self, job: &JobId, at: Duration) {
        self.job = Some(job.clone());
        self.accepted = Some(at);
    }

    /// Takes over the service's report about its end.
    pub(crate) fn observe(&mut self, observed: Observed, started: Option<Duration>) {
        self.started = started;
        self.mode = observed.mode;
        self.counted = observed.counted;
        self.first_byte = observed.first_byte;
        self.waits = observed.waits;
        self.retries = observed.retries;
        // A service that reports an end without a count has moved the file; so has an earlier attempt of an adopted
        // one.
        let whole = if observed.phase == Phase::Finished {
            self.size
        } else {
            0
        };
        self.bytes_moved = observed.bytes_moved.filter(|bytes| *bytes > 0).unwrap_or(whole);
        if !observed.reason.is_empty() || observed.class.is_some() {
            self.failure = Some(Failure {
                class: observed
                    .class
                    .or_else(|| ErrorClass::of_text(&observed.reason))
                    .unwrap_or(ErrorClass::Internal),
                message: observed.reason,
                party: observed.party,
                phase: observed.failed_in,
                remedy: observed.remedy,
            });
        }
    }

    /// Takes over when it passed from one service to the next, if a rule asked for it.
    pub(crate) fn pass(&mut self, told: Stages) {
        if let Some(stages) = &mut self.stages {
            *stages = Stages {
                asked: stages.asked,
                ..told
            };
        }
    }

    /// Returns the lateness of its submission, which includes the service's time to answer.
    pub(crate) fn late(&self) -> Duration {
        self.accepted.unwrap_or(self.injected).saturating_sub(self.wanted)
    }

    /// Returns the row that is accounted for, of a cell of its workload where that has cells.
    pub(crate) fn transfer(&self, cell: Option<usize>) -> Transfer {
        let state = self.state.unwrap_or(State::Cancelled);
        Transfer {
            workload: self.workload,
            link: self.link,
            cell,
            size: self.size,
            state,
            mode: self.mode.clone(),
            injected: self.injected,
            late: self.late(),
            started: self.started,
            ended: self.ended,
            first_byte: self.first_byte.filter(|_| state == State::Finished),
            waits: self.waits.clone(),
            bytes_moved: self.bytes_moved,
            counted: self.counted.filter(|_| state == State::Finished),
            retries: self.retries,
            stages: self.stages,
            failure: match state {
                State::Finished => None,
                // A withdrawn transfer may have a reason too.
                State::Cancelled | State::Unanswered => self.failure.clone(),
                State::Failed => Some(self.failure.clone().unwrap_or_else(|| Failure {
                    class: ErrorClass::Internal,
                    message: "failed without a reason".to_owned(),
                    party: None,
                    phase: None,
                    remedy: None,
                })),
            },
        }
    }

    /// Returns the other columns of its row.
    pub(crate) fn row(&self) -> Row<'_> {
        Row {
            id: self.id,
            wanted: self.wanted,
            injected: self.injected,
            accepted: self.accepted,
            job: self.job.as_ref().filter(|job| !job.is_rule()).map_or("", JobId::as_str),
            rule: self.job.as_ref().filter(|job| job.is_rule()).map_or("", JobId::as_str),
            path: &self.path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_other_services_have_a_class() {
        // Wrong: a report on a grid with another transfer service shows one heap of unknown errors.
        for (reason, class) in [
            (
                "DESTINATION [17] Destination file exists and overwrite is not enabled",
                ErrorClass::Exists,
            ),
            (
                "TRANSFER [5] CHECKSUM MISMATCH Source and destination checksums do not match",
                ErrorClass::Checksum,
            ),
            ("SOURCE [2] No such file or directory", ErrorClass::NotFound),
            (
                "DESTINATION [28] HTTP 507 : No space left on device",
                ErrorClass::NoSpace,
            ),
            ("TRANSFER [70] something else", ErrorClass::Internal),
        ] {
            assert_eq!(
                ErrorClass::of_text(reason).unwrap_or(ErrorClass::Internal),
                class,
                "{reason}"
            );
        }
    }
}
