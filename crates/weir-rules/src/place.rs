//! A file at an RSE: its replica, the request that brings it, and the locks that hold it there. Every change of it is a function here.

use std::time::Duration;

use weir_model::catalog::{LockState, ReplicaState, RequestState};
use weir_units::Timestamp;

use crate::{
    deletion::OBSOLETE,
    retry::{self, Next},
    state,
};

/// A file at an RSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The state of the replica.
    pub replica: ReplicaState,
    /// Locks that hold it.
    pub n_locks: u64,
    /// Time from which the replica may be deleted; `None` while a lock holds it, and where no deletion was ever requested.
    pub tombstone: Option<Timestamp>,
    /// The request that is to bring it, or that failed to.
    pub request: Option<Request>,
}

/// A request that brings a file to an RSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its state.
    pub state: RequestState,
    /// Attempts that failed.
    pub n_failures: u32,
    /// No rule wants it any more. The submitter drops it if it has not gone out, and asks the transfer service to cancel it if it has.
    pub cancel: bool,
    /// Not submitted before this time.
    pub not_before: Timestamp,
}

/// How an attempt of a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The file is there, with its size and checksum verified.
    Done,
    /// The transfer failed.
    Failed {
        /// Whether a repetition may succeed.
        recoverable: bool,
        /// Whether another source has the file.
        has_other_source: bool,
    },
    /// It was cancelled, or dropped before it went out.
    Cancelled,
    /// The transfer service does not know it.
    Lost,
    /// No source can give the file: one of the states that says why.
    NoSource(RequestState),
}

/// When a replica without locks may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseTerms {
    /// The time of the release.
    pub now: Timestamp,
    /// It is of no use any more: the rule was to purge its replicas, or the RSE keeps none.
    pub purge: bool,
    /// So long it stays as a cached copy at least.
    pub delay: Duration,
}

impl Request {
    fn queued(state: RequestState) -> Self {
        Self {
            state,
            n_failures: 0,
            cancel: false,
            not_before: Timestamp(0),
        }
    }
}

impl Place {
    /// The state of every lock on it.
    pub fn lock_state(&self) -> LockState {
        let request = self.request.map(|request| request.state);
        state::of_place(state::FileStates {
            replica: self.replica,
            request,
        })
    }

    /// Adds a lock. A missing file is requested, once for all locks.
    #[must_use]
    pub fn locked(place: Option<Self>) -> Self {
        let mut place = place.unwrap_or(Self {
            replica: ReplicaState::Copying,
            n_locks: 0,
            tombstone: None,
            request: None,
        });
        place.n_locks += 1;
        place.tombstone = None;
        if let Some(request) = &mut place.request {
            // A cancellation that went out already ends in another request.
            request.cancel = false;
        }
        place.requested()
    }

    /// Requests the file unless it is present or on its way.
    fn requested(mut self) -> Self {
        if self.lock_state() != LockState::Stuck {
            return self;
        }
        let state = match self.replica {
            // Once the file is gone it is brought anew.
            ReplicaState::BeingDeleted => RequestState::Waiting,
            _ => RequestState::Queued,
        };
        self.request = Some(Request::queued(state));
        self
    }

    /// Takes a lock away. The last one leaves a tombstone, and a request that is to be cancelled.
    #[must_use]
    pub fn released(mut self, terms: ReleaseTerms) -> Self {
        self.n_locks = self.n_locks.saturating_sub(1);
        if self.n_locks > 0 {
            return self;
        }
        let is_open = self.request.is_some_and(|request| state::is_open(request.state));
        let delay = u64::try_from(terms.delay.as_nanos()).unwrap_or(u64::MAX);
        self.tombstone = Some(match self.replica {
            ReplicaState::Available if !terms.purge => Timestamp(terms.now.0.saturating_add(delay)),
            // Half a file is of no use.
            _ => OBSOLETE,
        });
        match (&mut self.request, self.replica) {
            (request, ReplicaState::BeingDeleted) => *request = None,
            (Some(request), _) if is_open => request.cancel = true,
            // A part that an attempt may have left is deleted with the row.
            (_, ReplicaState::Copying) => return self.being_deleted(),
            (request, _) => *request = None,
        }
        self
    }

    /// Marks the replica as being deleted. The caller has checked that no lock holds it.
    #[must_use]
    pub fn being_deleted(mut self) -> Self {
        self.replica = ReplicaState::BeingDeleted;
        self.request = None;
        self
    }

    /// The file was deleted at its storage. `None`: the row goes too. A file that was locked meanwhile is requested again.
    #[must_use]
    pub fn deleted(mut self) -> Option<Self> {
        if self.n_locks == 0 {
            return None;
        }
        self.replica = ReplicaState::Copying;
        self.request = Some(Request::queued(RequestState::Queued));
        Some(self)
    }

    /// An attempt of its request ended. The same end twice, or one of a request that is not open, changes nothing.
    #[must_use]
    pub fn ended(mut self, end: End, now: Timestamp) -> Self {
        let Some(request) = self.request.filter(|request| state::is_open(request.state)) else {
            return self;
        };
        if end == End::Done {
            (self.replica, self.request) = (ReplicaState::Available, None);
            return self;
        }
        if self.n_locks == 0 {
            // No lock wants the file any more, and an aborted copy may have left a part of it.
            return self.being_deleted();
        }
        self.request = Some(after(request, end, now));
        self
    }

    /// A client has put the file there itself, or says that it is not there any more. `None`: a transfer brings it, and tells by itself.
    #[must_use]
    pub fn told(mut self, replica: ReplicaState) -> Option<Self> {
        // A transfer or a deletion says these by itself.
        if matches!(replica, ReplicaState::Copying | ReplicaState::BeingDeleted) {
            return None;
        }
        match (self.replica, self.request.map(|request| request.state)) {
            // A client brings it, and says so by the state.
            (_, None | Some(RequestState::Waiting)) if self.replica != ReplicaState::BeingDeleted => {}
            (_, Some(state)) if !state::is_open(state) => {}
            _ => return None,
        }
        self.request = None;
        self.replica = replica;
        Some(self)
    }

    /// Starts the attempts of a stuck request anew.
    #[must_use]
    pub fn repaired(self) -> Self {
        if self.n_locks == 0 { self } else { self.requested() }
    }
}

/// A request whose attempt ended without the file, while a lock wants it.
fn after(request: Request, end: End, now: Timestamp) -> Request {
    let again = |n_failures, pause: Duration| Request {
        state: RequestState::Queued,
        n_failures,
        cancel: false,
        not_before: Timestamp(now.0.saturating_add(pause.as_nanos() as u64)),
    };
    match end {
        End::Done | End::Cancelled => again(request.n_failures, Duration::ZERO),
        End::NoSource(state) => Request { state, ..request },
        End::Lost => failed(request, true, true, again),
        End::Failed {
            recoverable,
            has_other_source,
        } => failed(request, recoverable, has_other_source, again),
    }
}

fn failed(
    request: Request,
    recoverable: bool,
    has_other_source: bool,
    again: impl Fn(u32, Duration) -> Request,
) -> Request {
    let n_failures = request.n_failures + 1;
    match retry::after_failure(n_failures, recoverable, has_other_source) {
        Next::Again(pause) => again(n_failures, pause),
        Next::Stuck => Request {
            state: RequestState::Failed,
            n_failures,
            ..request
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000_000);
    const KEEP: ReleaseTerms = ReleaseTerms {
        now: NOW,
        purge: false,
        delay: Duration::from_secs(60),
    };

    fn available(n_locks: u64) -> Place {
        Place {
            replica: ReplicaState::Available,
            n_locks,
            tombstone: None,
            request: None,
        }
    }

    fn failed(place: Place) -> Place {
        let end = End::Failed {
            recoverable: true,
            has_other_source: false,
        };
        place.ended(end, NOW)
    }

    #[test]
    fn rules_share_a_request() {
        let one = Place::locked(None);
        let two = Place::locked(Some(one));
        assert_eq!(
            (two.n_locks, two.request, two.lock_state()),
            (2, one.request, LockState::Replicating)
        );
        let here = two.ended(End::Done, NOW);
        assert_eq!((here, here.lock_state()), (available(2), LockState::Ok));
        assert_eq!(here.ended(End::Done, NOW), here);
        // A late failure of an attempt whose file has arrived.
        assert_eq!(failed(here), here);
    }

    #[test]
    fn the_last_lock_leaves_a_tombstone() {
        let one = available(2).released(KEEP);
        assert_eq!(one, available(1));
        let none = one.released(KEEP);
        assert_eq!(none.tombstone, Some(Timestamp(NOW.0 + 60_000_000_000)));
        assert_eq!(Place::locked(Some(none)), available(1));
        let purged = one.released(ReleaseTerms { purge: true, ..KEEP });
        assert_eq!(purged.tombstone, Some(OBSOLETE));
    }

    #[test]
    fn a_request_that_nobody_wants_is_cancelled_and_its_rest_deleted() {
        let place = Place::locked(None).released(KEEP);
        assert!(place.request.unwrap().cancel && place.tombstone == Some(OBSOLETE));
        // It was too late.
        assert_eq!(place.ended(End::Done, NOW).replica, ReplicaState::Available);
        let gone = place.ended(End::Cancelled, NOW);
        assert_eq!((gone.replica, gone.deleted()), (ReplicaState::BeingDeleted, None));
        // A new lock arrives before the cancellation is confirmed.
        let again = Place::locked(Some(place));
        assert!(!again.request.unwrap().cancel);
        let requeued = again.ended(End::Cancelled, NOW).request.unwrap();
        assert_eq!((requeued.state, requeued.n_failures), (RequestState::Queued, 0));
    }

    #[test]
    fn a_file_that_is_wanted_during_its_deletion_is_copied_anew() {
        let place = Place::locked(Some(available(0).being_deleted()));
        assert_eq!(
            (place.request.unwrap().state, place.lock_state()),
            (RequestState::Waiting, LockState::Replicating)
        );
        let back = place.deleted().unwrap();
        assert_eq!(
            (back.replica, back.request.unwrap().state),
            (ReplicaState::Copying, RequestState::Queued)
        );
        let dropped = place.released(KEEP);
        assert_eq!(
            (dropped.replica, dropped.request, dropped.deleted()),
            (ReplicaState::BeingDeleted, None, None)
        );
    }

    #[test]
    fn a_client_that_uploads_tells_when_the_file_is_there() {
        let mut place = Place::locked(None);
        assert_eq!(place.told(ReplicaState::Available), None, "a transfer brings it");
        place.request.as_mut().unwrap().state = RequestState::Waiting;
        assert_eq!(place.lock_state(), LockState::Replicating);
        assert_eq!(place.told(ReplicaState::Available), Some(available(1)));
        let bad = available(1).told(ReplicaState::Bad).unwrap();
        assert_eq!((bad.request, bad.lock_state()), (None, LockState::Stuck));
        assert_eq!(available(0).being_deleted().told(ReplicaState::Available), None);
        // A replica with a lock cannot be marked for deletion.
        assert_eq!(available(1).told(ReplicaState::BeingDeleted), None);
    }

    #[test]
    fn four_failures_are_enough_until_a_repair() {
        let mut place = Place::locked(None);
        for n in 1..4 {
            place = failed(place);
            let request = place.request.unwrap();
            assert_eq!((request.state, request.n_failures), (RequestState::Queued, n));
            assert!(request.not_before > NOW);
        }
        let stuck = failed(place);
        assert_eq!(
            (stuck.request.unwrap().state, stuck.lock_state()),
            (RequestState::Failed, LockState::Stuck)
        );
        assert_eq!(failed(stuck), stuck);
        assert_eq!(stuck.repaired().request, Some(Request::queued(RequestState::Queued)));
        assert_eq!(available(1).repaired(), available(1));
        let nowhere = place.ended(End::NoSource(RequestState::NoSources), NOW);
        assert_eq!(nowhere.lock_state(), LockState::Stuck);
        // Releasing a stuck file deletes it, with the partial file that its attempts left.
        assert_eq!(stuck.released(KEEP).replica, ReplicaState::BeingDeleted);
    }
}
