//! Ends transfers that the service has not ended: on request, for time, at the end of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use weir_measure::{Failure, State};

use super::withdrawal_reason::Withdrawal;
use super::{Engine, JOBS_PER_POLL, Pending};
use crate::inject::injection::{InjectionDoor, JobId, Observed, Phase};

/// How long a service may not know a job that it took: another node, or a proxy at a restart, may answer for a while without its store.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

/// Concurrent questions about links when a run withdraws unfinished transfers.
const ASKED_AT_ONCE: usize = 16;

/// Time for all of these questions.
const ASKING_MAX: Duration = Duration::from_secs(10);

/// A transfer that had not ended.
struct Waiting {
    link: usize,
    by_rule: bool,
    /// Why it waited, as far as the service tells.
    why: String,
}

impl Waiting {
    fn of(pending: &Pending) -> Self {
        Self {
            link: pending.record.link,
            by_rule: pending.record.stages.is_some(),
            why: pending.waits.clone(),
        }
    }
}

impl<D: InjectionDoor> Engine<D> {
    /// Asks the service to withdraw everything that has not ended. The answers come by polling.
    pub(crate) async fn withdraw(&mut self, why: Withdrawal) {
        if matches!(why, Withdrawal::Overdue(_)) {
            self.ask_what_holds().await;
        }
        self.withdrawal = Some(why);
        let jobs: Vec<JobId> = self.jobs.keys().cloned().collect();
        self.rules.are_withdrawn(&jobs);
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

    /// Asks the service for the reasons that hold back links with unfinished transfers, as many as there is time for.
    async fn ask_what_holds(&mut self) {
        let links: BTreeSet<usize> = self.pending.values().map(|pending| pending.record.link).collect();
        let door = &self.door;
        let ask = |link: usize| {
            let ends = self.links[link];
            async move { Some((link, door.held_back(ends.source, ends.destination).await?)) }
        };
        let asked = futures_util::stream::iter(links.into_iter().map(ask)).buffer_unordered(ASKED_AT_ONCE);
        let deadline = tokio::time::sleep(ASKING_MAX);
        let told: Vec<_> = asked
            .take_until(deadline)
            .filter_map(|told| async { told })
            .collect()
            .await;
        self.held_back = told.into_iter().collect();
    }

    /// Adds the last state of a withdrawn transfer to its failure: its copy, or a queue that did not move.
    fn explained(&self, failure: Failure, of: Option<&Waiting>, was_active: bool) -> Failure {
        if was_active {
            return failure.in_its_copy();
        }
        let by_rule = of.is_some_and(|waiting| waiting.by_rule);
        let link = match of {
            // The catalogue's reason is about this file; the transfer service's is about the whole link.
            Some(waiting) if !waiting.why.is_empty() => return failure.held_back(&waiting.why, None),
            of => of.map(|waiting| waiting.link),
        };
        let held = link.and_then(|link| Some((link, self.held_back.get(&link)?)));
        // A file that waits in the catalogue is not in the service's queue.
        let held = held.filter(|(_, held)| held.by_failures || !by_rule);
        let Some((link, held)) = held else { return failure };
        let party = held.party.or_else(|| self.failed_by.get(&link).copied());
        failure.held_back(&held.text, party.filter(|_| held.by_failures))
    }

    /// Records the cancellation of a transfer: by this run, or by another client, which fails it.
    pub(super) fn take_cancelled(&mut self, observed: Observed, was_active: bool) {
        let waiting = self.pending.get(&observed.id).map(Waiting::of);
        let by_rule = waiting.as_ref().is_some_and(|waiting| waiting.by_rule);
        let (state, failure) = self.withdrawal.map_or_else(
            || {
                let failure = (!by_rule || observed.reason.is_empty()).then(Failure::cancelled_by_others);
                (State::Failed, failure)
            },
            |why| why.end(by_rule, |failure| self.explained(failure, waiting.as_ref(), was_active)),
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
            job.as_str()
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
        self.rules.are_withdrawn(&jobs);
        tokio::spawn(async move {
            for chunk in jobs.chunks(JOBS_PER_POLL) {
                if let Err(error) = door.cancel(chunk).await {
                    tracing::warn!(error = %weir_auth::error_chain(&error), "could not withdraw what timed out");
                }
            }
        });
    }

    /// Ends the account of transfers of which the service has not said how they ended. Returns how many there were.
    pub(crate) fn give_up(&mut self, why: Withdrawal) -> usize {
        let now = self.clock.now();
        let pending = self.pending.iter();
        let left = pending.map(|(id, pending)| (*id, Waiting::of(pending), pending.phase == Phase::Active));
        let left: Vec<_> = left.collect();
        let count = left.len();
        for (id, waiting, is_active) in left {
            let (state, failure) = match why {
                Withdrawal::Interrupted => (State::Unanswered, None),
                Withdrawal::Overdue(_) => {
                    let explained = |failure| self.explained(failure, Some(&waiting), is_active);
                    why.end(waiting.by_rule, explained)
                }
            };
            self.end(id, state, now, |record| record.failure = failure);
        }
        count
    }
}
