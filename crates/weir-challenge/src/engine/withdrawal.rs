//! Ends transfers that the service has not ended: on request, for time, at the end of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_measure::{Failure, State};

use super::{Engine, JOBS_PER_POLL};
use crate::error::chain;
use crate::injection::{InjectionDoor, JobId};

impl<D: InjectionDoor> Engine<D> {
    /// Asks the service to withdraw everything that has not ended. The answers come by polling.
    pub(crate) async fn cancel_unfinished(&mut self) {
        let jobs: Vec<JobId> = self.jobs.keys().cloned().collect();
        for chunk in jobs.chunks(JOBS_PER_POLL) {
            if let Err(error) = self.door.cancel(chunk).await {
                self.folder
                    .log(&format!("could not withdraw {} jobs: {}", chunk.len(), chain(&error)));
            }
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
                    tracing::warn!(error = %chain(&error), "could not withdraw what timed out");
                }
            }
        });
    }

    /// Ends the account of transfers that the service did not end: they count as cancelled.
    pub(crate) fn give_up(&mut self) {
        let now = self.clock.now();
        let left: Vec<u64> = self.pending.keys().copied().collect();
        for id in left {
            self.end(id, State::Cancelled, now, |_| {});
        }
    }
}
