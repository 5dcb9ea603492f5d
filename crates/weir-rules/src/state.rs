//! States that follow from others.

use weir_model::catalog::{LockState, ReplicaState, RequestState, RuleState};

/// The states of a file at an RSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStates {
    /// The state of its replica there.
    pub replica: ReplicaState,
    /// The state of the request that is to bring it, if there is one.
    pub request: Option<RequestState>,
}

/// The state of every lock on a file at an RSE: rules that want the same file at the same RSE share its fate.
pub fn of_place(place: FileStates) -> LockState {
    match (place.replica, place.request) {
        (ReplicaState::Available, _) => LockState::Ok,
        (_, Some(request)) if is_open(request) => LockState::Replicating,
        _ => LockState::Stuck,
    }
}

/// Whether a request may still bring its file without anybody's help.
pub fn is_open(request: RequestState) -> bool {
    match request {
        RequestState::Preparing
        | RequestState::Waiting
        | RequestState::Queued
        | RequestState::Submitting
        | RequestState::Submitted
        | RequestState::Suspend
        | RequestState::Lost
        | RequestState::SubmissionFailed => true,
        RequestState::Done
        | RequestState::Failed
        | RequestState::NoSources
        | RequestState::OnlyTapeSources
        | RequestState::MismatchScheme => false,
    }
}

/// The locks of a rule, or of one dataset of it, counted by their states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Locks whose files are present.
    pub ok: u64,
    /// Locks whose files are on their way.
    pub replicating: u64,
    /// Locks whose files cannot be brought.
    pub stuck: u64,
}

impl LockCounts {
    /// The count of one state.
    pub fn of(&mut self, state: LockState) -> &mut u64 {
        match state {
            LockState::Ok => &mut self.ok,
            LockState::Replicating => &mut self.replicating,
            LockState::Stuck => &mut self.stuck,
        }
    }

    /// All of them.
    pub fn total(self) -> u64 {
        self.ok + self.replicating + self.stuck
    }

    /// The state of a dataset lock with these locks of files.
    pub fn state(self) -> LockState {
        match self {
            Self { stuck: 1.., .. } => LockState::Stuck,
            Self { replicating: 1.., .. } => LockState::Replicating,
            _ => LockState::Ok,
        }
    }
}

/// The state of a rule with these locks. A rule that an approver, its owner or its injection holds back keeps its state.
pub fn of_rule(state: RuleState, locks: LockCounts) -> RuleState {
    match state {
        RuleState::WaitingApproval | RuleState::Inject | RuleState::Suspended => state,
        RuleState::Replicating | RuleState::Ok | RuleState::Stuck => match locks.state() {
            LockState::Stuck => RuleState::Stuck,
            LockState::Replicating => RuleState::Replicating,
            LockState::Ok => RuleState::Ok,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_ok_when_all_its_locks_are() {
        let state = |ok, replicating, stuck| of_rule(RuleState::Ok, LockCounts { ok, replicating, stuck });
        assert_eq!(state(0, 0, 0), RuleState::Ok);
        assert_eq!(state(3, 0, 0), RuleState::Ok);
        assert_eq!(state(3, 1, 0), RuleState::Replicating);
        assert_eq!(state(3, 1, 1), RuleState::Stuck);
        for held in [RuleState::WaitingApproval, RuleState::Inject, RuleState::Suspended] {
            assert_eq!(of_rule(held, LockCounts::default()), held);
        }
    }

    #[test]
    fn a_lock_is_stuck_when_nothing_brings_its_file() {
        use ReplicaState::{Available, Bad, Copying};
        let lock = |replica, request| of_place(FileStates { replica, request });
        assert_eq!(lock(Available, None), LockState::Ok);
        assert_eq!(lock(Copying, Some(RequestState::Queued)), LockState::Replicating);
        assert_eq!(lock(Copying, Some(RequestState::NoSources)), LockState::Stuck);
        assert_eq!(lock(Copying, None), LockState::Stuck);
        assert_eq!(lock(Bad, Some(RequestState::Submitted)), LockState::Replicating);
    }
}
