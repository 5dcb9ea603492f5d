//! Reasons why a run withdraws unfinished transfers.

use std::time::Duration;

use weir_measure::{Failure, State};

/// The reason why a run withdraws unfinished transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The run was interrupted: no party failed.
    Interrupted,
    /// The drain of this length is over: the service did not end it.
    Overdue(Duration),
}

impl Withdrawal {
    /// How a transfer ends that is withdrawn for it.
    pub(super) fn end(self, by_rule: bool, explained: impl FnOnce(Failure) -> Failure) -> (State, Option<Failure>) {
        match self {
            Self::Interrupted => (State::Cancelled, None),
            Self::Overdue(limit) if by_rule => (State::Failed, Some(explained(Failure::not_come(limit)))),
            Self::Overdue(limit) => (State::Failed, Some(explained(Failure::unfinished(limit)))),
        }
    }
}
