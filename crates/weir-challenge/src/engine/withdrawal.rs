//! Ends transfers that the service has not ended: on request, for time, at the end of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_measure::{Failure, State};

use super::{Engine, JOBS_PER_POLL};
use crate::injection::{InjectionDoor, JobId, Observed};

/// How long a service may not know a job that it took: another node, or a proxy at a restart, may answer for a while without its store.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

/// Why a run withdraws what has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Withdrawal {
    /// The run was interrupted: nobody failed.
    Interrupted,
    /// The drain of this length is over: the service did not end it.
    Overdue(Duration),
}

impl Withdrawal {
    /// How transfers end that are withdrawn for it.
    fn end(self) -> (State, Option<Failure>) {
        match self {
            Self::Interrupted => (State::Cancelled, None),
            Self::Overdue(limit) => (State::Failed, Some(Failure::unfinished(limit))),
        }
    }
}

impl<D: InjectionDoor> Engine<D> {
    /// Asks the service to withdraw everything that has not ended. The answers come by polling.
    pub(crate) async fn withdraw(&mut self, why: Withdrawal) {
        self.withdrawal = Some(why);
        let jobs: Vec<JobId> = self.jobs.keys().cloned().collect();
        for chunk in jobs.chunks(JOBS_PER_POLL) {
            if let Err(error) = self.door.cancel(chunk).await {
                self.folder.log(&format!(
                    "could not withdraw {} jobs: {}",
                    chunk.len(),
                    weir_auth::error_chain(&error)
                ));
            }
        }
    }

    /// Takes in that a transfer was cancelled: by this run, or by somebody else, which fails it.
    pub(super) fn take_cancelled(&mut self, observed: Observed) {
        let (state, failure) = self.withdrawal.map_or_else(
            || (State::Failed, Some(Failure::cancelled_by_others())),
            Withdrawal::end,
        );
        let ended = observed
            .ended
            .map_or_else(|| self.clock.now(), |moment| self.clock.at(moment));
        let started = observed.started.map(|moment| self.clock.at(moment));
        self.end(observed.id, state, ended, |record| {
            record.observe(observed, started);
            record.failure = failure.or(record.failure.take());
        });
    }

    /// Takes in that the service does not know a job that it took. Its transfers have failed if that stays so.
    pub(super) fn take_unknown(&mut self, job: &JobId) {
        let Some(transfers) = self.jobs.get(job).cloned() else {
            return;
        };
        let now = self.clock.now();
        let since = *self.unknown.entry(job.clone()).or_insert(now);
        if now.saturating_sub(since) < UNKNOWN_MAX {
            return;
        }
        self.folder.log(&format!(
            "the transfer service took the job {} and no longer knows it",
            job.0
        ));
        for id in transfers {
            self.end(id, State::Failed, now, |record| {
                record.failure = Some(Failure::forgotten());
            });
        }
    }

    /// Withdraws transfers that took longer than they may, and counts them as failed.
    pub(crate) fn time_out(&mut self, ids: &[u64], limit: Duration) {
        let now = self.clock.now();
        let mut jobs = BTreeSet::new();
        for id in ids {
            let Some(pending) = self.pending.get(id) else { continue };
            jobs.extend(pending.record.job.clone());
            let failure = Failure::late_step(limit);
            self.end(*id, State::Failed, now, |record| record.failure = Some(failure));
        }
        let door = self.door.clone();
        let jobs: Vec<JobId> = jobs.into_iter().collect();
        tokio::spawn(async move {
            for chunk in jobs.chunks(JOBS_PER_POLL) {
                if let Err(error) = door.cancel(chunk).await {
                    tracing::warn!(error = %weir_auth::error_chain(&error), "could not withdraw what timed out");
                }
            }
        });
    }

    /// Ends the account of transfers that the service did not even withdraw.
    pub(crate) fn give_up(&mut self, why: Withdrawal) {
        let now = self.clock.now();
        let (state, failure) = why.end();
        let left: Vec<u64> = self.pending.keys().copied().collect();
        for id in left {
            self.end(id, state, now, |record| record.failure.clone_from(&failure));
        }
    }
}
