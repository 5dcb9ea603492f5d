//! One transfer, as a run hands it over when it has ended.

use std::time::Duration;

use weir_world::{ErrorClass, Party, Phase, Waits};

/// One transfer, all attempts included. Times count from the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Index into [`crate::Spec::workloads`].
    pub workload: usize,
    /// Index into [`crate::Spec::links`].
    pub link: usize,
    /// Index into the cells of its workload, where that has cells.
    pub cell: Option<usize>,
    /// Size of the file.
    pub size: u64,
    /// How it ended.
    pub state: State,
    /// Copy mode of the attempt that finished, where known.
    pub mode: Option<String>,
    /// When it was handed to the transfer service, or asked of the catalogue.
    pub injected: Duration,
    /// How much later than wanted it was submitted.
    pub late: Duration,
    /// Start of the attempt that ended it; `None` when none started.
    pub started: Option<Duration>,
    /// End of that attempt, or the moment of failure.
    pub ended: Duration,
    /// From the order of the copy to its first byte of data, in the attempt that finished; `None` if the service does
    /// not report it.
    pub first_byte: Option<Duration>,
    /// The time that the attempt which ended it spent in each state; `None` if nobody tells.
    pub waits: Option<Box<Waits>>,
    /// Bytes moved by the attempt that ended it.
    pub bytes_moved: u64,
    /// Bytes that the transfer service itself saw moving in the attempt that finished; `None` where it saw no final count.
    pub counted: Option<u64>,
    /// Attempts beyond the first.
    pub retries: u32,
    /// When it passed from one service to the next, if a rule asked for it.
    pub stages: Option<Stages>,
    /// The failure, unless it finished.
    pub failure: Option<Failure>,
}

/// When a file that a rule asked for passed from one service to the next; times count from the start of the run, `None` where no service
/// tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// The catalogue was asked for the rule.
    pub asked: Duration,
    /// The catalogue made the request for the file.
    pub requested: Option<Duration>,
    /// The catalogue submitted it to the transfer service.
    pub submitted: Option<Duration>,
    /// The lock of the file was OK.
    pub locked: Option<Duration>,
}

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Delivered, size and checksum verified.
    Finished,
    /// Given up.
    Failed,
    /// Cancelled by the run itself because the run was interrupted; the transfer service confirmed it.
    Cancelled,
    /// The run was interrupted before the transfer service said how the transfer ended: it may have moved nothing, or the whole file.
    Unanswered,
}

/// A failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class of the error.
    pub class: ErrorClass,
    /// Text, secrets removed.
    pub message: String,
    /// Party at fault, where known.
    pub party: Option<Party>,
    /// Phase of the transfer, where known.
    pub phase: Option<Phase>,
    /// The remedy, where known.
    pub remedy: Option<String>,
}

impl State {
    /// Every state.
    pub const ALL: [State; 4] = [State::Finished, State::Failed, State::Cancelled, State::Unanswered];

    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unanswered => "unanswered",
        }
    }

    /// The state with this word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl Transfer {
    /// Returns start and end of the attempt that ended it; a point in time where no start is known.
    pub(crate) fn span(&self) -> (Duration, Duration) {
        (self.started.unwrap_or(self.ended).min(self.ended), self.ended)
    }
}

impl Failure {
    /// The failure of a transfer whose step took longer than `limit`.
    pub fn late_step(limit: Duration) -> Failure {
        let limit = limit.as_secs_f64();
        Failure {
            class: ErrorClass::Timeout,
            message: format!("did not end within the {limit} s that a step may take; withdrawn"),
            party: None,
            phase: None,
            remedy: Some("give the workload a longer timeout, or smaller files".to_owned()),
        }
    }

    /// The failure of a transfer that the service had not ended when the drain was over, after `limit`.
    pub fn unfinished(limit: Duration) -> Failure {
        let limit = limit.as_secs_f64();
        Failure {
            class: ErrorClass::Unfinished,
            message: format!("the transfer service did not end it within the drain of {limit} s; withdrawn"),
            party: Some(Party::TransferService),
            phase: None,
            remedy: Some(
                "look for the reason of its wait; if the grid is only slow, give the challenge a longer drain"
                    .to_owned(),
            ),
        }
    }

    /// The failure of a rule's transfer that had not arrived when the drain was over, after `limit`.
    pub fn not_come(limit: Duration) -> Failure {
        let limit = limit.as_secs_f64();
        Failure {
            message: format!("the file had not come when the drain of {limit} s was over; its rule was withdrawn"),
            party: Some(Party::Catalogue),
            ..Self::unfinished(Duration::ZERO)
        }
    }

    /// The same failure for a transfer whose copy was under way: the service did start it.
    #[must_use]
    pub fn in_its_copy(mut self) -> Failure {
        self.message = format!("{}; its copy was under way", self.message);
        self.party = None;
        let remedy =
            "look at the rates of the link: if it can do no more, give the challenge a longer drain, or ask for less";
        self.remedy = Some(remedy.to_owned());
        self
    }

    /// The same failure, with the service's reason for holding the transfer back, and the responsible party if there is
    /// one.
    #[must_use]
    pub fn held_back(mut self, by: &str, party: Option<Party>) -> Failure {
        self.message = format!("{}; it was held back: {by}", self.message);
        if party.is_some() {
            self.party = party;
            self.remedy = Some("see why the transfers before it failed there, and mend that".to_owned());
        }
        self
    }

    /// The failure of a transfer whose job the service no longer knows.
    pub fn forgotten() -> Failure {
        Failure {
            class: ErrorClass::Forgotten,
            message: "the transfer service took the job and no longer knows it".to_owned(),
            party: Some(Party::TransferService),
            phase: None,
            remedy: Some("look at the service's store: it has lost an acknowledged job".to_owned()),
        }
    }

    /// The failure of a transfer that was cancelled, but not by the run; for a deleted rule, the failure says that.
    pub fn cancelled_by_others() -> Failure {
        Failure {
            class: ErrorClass::Cancelled,
            message: "cancelled, and not by this run".to_owned(),
            party: Some(Party::TransferService),
            phase: None,
            remedy: Some("find the client that cancelled jobs while the challenge ran".to_owned()),
        }
    }
}
