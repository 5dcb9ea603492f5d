//! The effect of a batch on the counts and states of jobs.

use std::collections::BTreeMap;

use weir_executor::job::{Counts, job_state_code, job_state_from_code, kind_of};
use weir_service::time::Millis;
use weir_store::postgres::{Session, Values};

use crate::store::StoreError;

/// Changes of a batch to the counts of jobs: written once per job, however many of its files changed.
#[derive(Default)]
pub(super) struct Tally {
    jobs: BTreeMap<i64, Delta>,
}

#[derive(Default)]
pub(super) struct Delta {
    pub started: i64,
    pub finished: i64,
    pub failed: i64,
    pub canceled: i64,
    pub archiving: i64,
    pub cancelled_whole: bool,
    pub at: Millis,
}

const COUNTS: &str = "UPDATE jobs SET n_started = n_started + d.started, n_finished = n_finished + d.finished,
        n_failed = n_failed + d.failed, n_canceled = n_canceled + d.canceled, cancelled = cancelled OR d.whole,
        n_archiving = n_archiving + d.archiving
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::bigint[])
        AS d (job_no, started, finished, failed, canceled, whole, archiving)
    WHERE jobs.job_no = d.job_no
    RETURNING jobs.job_no, n_files, n_started, n_finished, n_failed, n_canceled, cancelled, state, n_archiving, kind";

impl Tally {
    pub(super) fn delta(&mut self, job: i64, at: Millis) -> &mut Delta {
        let delta = self.jobs.entry(job).or_default();
        delta.at = delta.at.max(at);
        delta
    }

    pub(super) fn settle(self, session: &mut Session) -> Result<(), StoreError> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let of = |value: fn(&Delta) -> i64| self.jobs.values().map(value).collect::<Vec<_>>();
        let values: Values<'_> = &[
            &self.jobs.keys().copied().collect::<Vec<_>>(),
            &of(|delta| delta.started),
            &of(|delta| delta.finished),
            &of(|delta| delta.failed),
            &of(|delta| delta.canceled),
            &self
                .jobs
                .values()
                .map(|delta| delta.cancelled_whole)
                .collect::<Vec<_>>(),
            &of(|delta| delta.archiving),
        ];
        let mut ended = JobEnd::default();
        for row in session.query(COUNTS, values)? {
            let counts = Counts {
                files: row.get(1),
                started: row.get(2),
                finished: row.get(3),
                failed: row.get(4),
                canceled: row.get(5),
                archiving: row.get(8),
            };
            let before = job_state_from_code(i64::from(row.get::<_, i16>(7)));
            let (state, reason) = counts.verdict_after(before, kind_of(row.get(9)), row.get(6));
            if state != before {
                let number: i64 = row.get(0);
                let at = self.jobs.get(&number).map_or(0, |delta| delta.at);
                let finished = state.is_terminal().then_some(at);
                ended.push(number, job_state_code(state) as i16, finished, reason);
            }
        }
        ended.write(session)
    }
}

/// Jobs whose state changed.
#[derive(Default)]
struct JobEnd {
    jobs: Vec<i64>,
    states: Vec<i16>,
    finished: Vec<Option<Millis>>,
    reasons: Vec<Option<&'static str>>,
}

impl JobEnd {
    fn push(&mut self, job: i64, state: i16, finished: Option<Millis>, reason: Option<&'static str>) {
        self.jobs.push(job);
        self.states.push(state);
        self.finished.push(finished);
        self.reasons.push(reason);
    }

    fn write(&self, session: &mut Session) -> Result<(), StoreError> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        session.execute(
            "UPDATE jobs SET state = d.state, finished = d.finished, reason = d.reason
             FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[]) AS d (job_no, state, finished, reason)
             WHERE jobs.job_no = d.job_no",
            &[&self.jobs, &self.states, &self.finished, &self.reasons],
        )?;
        Ok(())
    }
}
