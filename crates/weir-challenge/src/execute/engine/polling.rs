//! Asks the services how far transfers are.

use weir_measure::State;

use super::{Engine, JOBS_PER_POLL, Polled};
use crate::inject::injection::{InjectionDoor, JobId, JobState, Observed, Phase};

/// Limit of requests in one round of polling. The next round takes the jobs behind them.
const POLLS_PER_ROUND: usize = 40;

/// Polls under way at once.
const POLLS_AT_ONCE: usize = 4;

impl<D: InjectionDoor> Engine<D> {
    /// Starts a round of polling, unless one is under way.
    pub(crate) fn poll(&mut self) {
        if !self.polls.is_empty() || self.poll_order.is_empty() {
            return;
        }
        let count = self.poll_order.len().min(JOBS_PER_POLL * POLLS_PER_ROUND);
        let mut round: Vec<JobId> = self.poll_order.drain(..count).collect();
        self.poll_order.extend(round.iter().cloned());
        // One service is asked for all jobs of one kind.
        round.sort_by_key(JobId::is_rule);
        let door = self.door.clone();
        self.polls.spawn(async move {
            use futures_util::StreamExt;
            let kinds = round.chunk_by(|one, other| one.is_rule() == other.is_rule());
            let chunks: Vec<Vec<JobId>> = kinds
                .flat_map(|kind| kind.chunks(JOBS_PER_POLL))
                .map(<[JobId]>::to_vec)
                .collect();
            let door = &door;
            let ask = |chunk: Vec<JobId>| async move { door.observe(&chunk).await };
            futures_util::stream::iter(chunks)
                .map(ask)
                .buffer_unordered(POLLS_AT_ONCE)
                .collect()
                .await
        });
    }

    pub(super) fn take_polled(&mut self, polled: Polled) {
        for answer in polled {
            match answer {
                Ok(jobs) => {
                    self.poll_failures = 0;
                    for (job, state) in jobs {
                        self.take_job(&job, state);
                    }
                }
                Err(error) => {
                    self.poll_failures += 1;
                    // The first error is logged; a service that is down would repeat it twice a second.
                    if self.poll_failures == 1 || self.poll_failures.is_multiple_of(60) {
                        self.folder
                            .log(&format!("poll failed: {}", weir_auth::error_chain(&error)));
                    }
                }
            }
        }
        let jobs = &self.jobs;
        self.poll_order.retain(|job| jobs.contains_key(job));
    }

    fn take_job(&mut self, job: &JobId, state: JobState) {
        match state {
            JobState::Known(transfers) => {
                self.unknown.remove(job);
                for observed in transfers {
                    self.take_observed(observed);
                }
            }
            JobState::Unknown => self.take_unknown(job),
        }
    }

    fn take_observed(&mut self, observed: Observed) {
        let Some(pending) = self.pending.get_mut(&observed.id) else {
            return;
        };
        let link = &mut self.link_states[pending.record.workload][pending.record.link];
        let was_active = pending.phase == Phase::Active;
        match (was_active, observed.phase == Phase::Active) {
            (false, true) => link.active += 1,
            (true, false) => link.active -= 1,
            _ => {}
        }
        pending.phase = observed.phase;
        pending.record.retries = observed.retries;
        // A catalogue gives the reason why each file waits; for others the reason is that of the last attempt.
        if pending.record.stages.is_some() && !observed.phase.is_final() {
            pending.waits.clone_from(&observed.reason);
        }
        let state = match observed.phase {
            Phase::Queued | Phase::Active => return,
            Phase::Finished => State::Finished,
            Phase::Failed => State::Failed,
            Phase::Cancelled => return self.take_cancelled(observed, was_active),
        };
        let ended = observed
            .ended
            .map_or_else(|| self.clock.now(), |moment| self.clock.at(moment));
        let started = observed.started.map(|moment| self.clock.at(moment));
        let stages = self.stages_of(&observed);
        self.end(observed.id, state, ended, |record| {
            record.observe(observed, started);
            record.pass(stages);
        });
    }
}
