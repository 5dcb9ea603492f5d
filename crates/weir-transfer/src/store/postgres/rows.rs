//! One round of changes as columns: one statement for each kind.

use std::collections::HashMap;

use uuid::Uuid;
use weir_sched::Work;

use super::{
    results::{RESULT_ARRAYS, RESULT_COLUMNS, RESULT_SET, Results},
    tally::Tally,
    tape,
    text::text,
};
use weir_executor::job::FileState;

use crate::store::{Change, StoreError};
use weir_store::postgres::Session;

/// Changes of different files and jobs.
#[derive(Default)]
pub(super) struct Rows<'a> {
    begins: Vec<&'a Change>,
    agains: Vec<&'a Change>,
    ends: Vec<&'a Change>,
    cancels: Vec<&'a Change>,
    claims: Vec<&'a Change>,
    releases: Vec<i64>,
    forced: Vec<i64>,
    tapes: Vec<&'a Change>,
    others: Vec<&'a Change>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(round: &[&'a Change]) -> Self {
        let mut rows = Self::default();
        for change in round {
            match change {
                Change::Begin { work: Work::Copy, .. } => rows.begins.push(change),
                Change::Again { .. } => rows.agains.push(change),
                Change::End { .. } => rows.ends.push(change),
                Change::Cancel { .. } => rows.cancels.push(change),
                Change::Claim { .. } => rows.claims.push(change),
                Change::Release { file } => rows.releases.push(*file as i64),
                Change::Force { files } => rows.forced.extend(files.iter().map(|file| *file as i64)),
                Change::Begin { .. } | Change::Advance { .. } | Change::Requested { .. } | Change::Unpinned { .. } => {
                    rows.tapes.push(change);
                }
                _ => rows.others.push(change),
            }
        }
        rows
    }

    pub(super) fn write(&self, session: &mut Session, tally: &mut Tally) -> Result<(), StoreError> {
        self.begin(session, tally)?;
        self.again(session)?;
        self.end(session, tally)?;
        self.cancel(session, tally)?;
        self.claim(session)?;
        self.release(session)?;
        self.force(session)?;
        tape::write(session, tally, &self.tapes)?;
        others(session, &self.others)
    }

    fn begin(&self, session: &mut Session, tally: &mut Tally) -> Result<(), StoreError> {
        let (mut files, mut attempts, mut epochs, mut ats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for change in &self.begins {
            if let Change::Begin {
                file,
                attempt,
                epoch,
                at,
                ..
            } = change
            {
                files.push(*file as i64);
                attempts.push(*attempt as i32);
                epochs.push(*epoch as i64);
                ats.push(*at);
            }
        }
        if files.is_empty() {
            return Ok(());
        }
        let begun = session.query(
            "UPDATE files SET state = 1, attempts = d.attempt, epoch = d.epoch, started = d.at,
                 first_start = coalesce(first_start, d.at), not_before = 0
             FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[]) AS d (file_id, attempt, epoch, at)
             WHERE files.file_id = d.file_id AND finished IS NULL RETURNING job_no, d.attempt, d.at",
            &[&files, &attempts, &epochs, &ats],
        )?;
        for row in begun {
            if row.get::<_, i32>(1) == 1 {
                tally.delta(row.get(0), row.get(2)).started += 1;
            }
        }
        Ok(())
    }

    fn again(&self, session: &mut Session) -> Result<(), StoreError> {
        let (mut results, mut numbers, mut ats) = (Results::default(), Vec::new(), Vec::new());
        let (mut not_before, mut failures, mut free, mut resume) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut waiting = Vec::new();
        for change in &self.agains {
            if let Change::Again {
                file,
                work,
                attempt,
                at,
                result,
                follow_up,
            } = change
            {
                results.push(*file, *work, result);
                waiting.push(FileState::waiting(*work).code() as i16);
                numbers.push(*attempt as i32);
                ats.push(*at);
                not_before.push(follow_up.not_before);
                failures.push(i16::from(follow_up.failures));
                free.push(i16::from(follow_up.free_retries));
                resume.push(follow_up.resume);
            }
        }
        if ats.is_empty() {
            return Ok(());
        }
        let text = format!(
            "WITH d AS (SELECT * FROM unnest({RESULT_ARRAYS}, $16::integer[], $17::bigint[], $18::bigint[], $19::smallint[],
                 $20::smallint[], $21::boolean[], $22::smallint[])
                 AS d ({RESULT_COLUMNS}, attempt, at, not_before, failures, free_retries, resume, waiting)),
             changed AS (UPDATE files SET state = CASE WHEN stopping THEN state ELSE d.waiting END, epoch = NULL,
                 not_before = d.not_before, failures = d.failures, free_retries = d.free_retries, resume = d.resume, {RESULT_SET}
                 FROM d WHERE files.file_id = d.file_id AND finished IS NULL
                 RETURNING files.file_id, d.attempt, d.at, coalesce(d.reason, '') AS why, d.party)
             INSERT INTO attempts SELECT file_id, attempt, at, why FROM changed WHERE party IS DISTINCT FROM 'issuer'
             ON CONFLICT (file_id, attempt) DO UPDATE SET ended = excluded.ended, reason = excluded.reason"
        );
        results.with(|columns| {
            let mut values = columns.to_vec();
            values.extend([
                &numbers as &(dyn tokio_postgres::types::ToSql + Sync),
                &ats,
                &not_before,
                &failures,
                &free,
                &resume,
                &waiting,
            ]);
            session.execute(&text, &values).map(|_| ())
        })
    }

    fn end(&self, session: &mut Session, tally: &mut Tally) -> Result<(), StoreError> {
        let (mut results, mut states, mut ats) = (Results::default(), Vec::new(), Vec::new());
        let mut works = Vec::new();
        for change in &self.ends {
            if let Change::End {
                file,
                work,
                at,
                state,
                result,
            } = change
            {
                assert!(state.is_terminal(), "a file cannot end in {}", state.as_str());
                results.push(*file, *work, result);
                works.push(FileState::doing(*work).code() as i16);
                states.push(state.code() as i16);
                ats.push(*at);
            }
        }
        if ats.is_empty() {
            return Ok(());
        }
        let text = format!(
            "UPDATE files SET state = d.state, finished = d.at, epoch = NULL, stopping = false, {RESULT_SET}
             FROM unnest({RESULT_ARRAYS}, $16::smallint[], $17::bigint[], $18::smallint[]) AS d ({RESULT_COLUMNS}, state, at, work)
             WHERE files.file_id = d.file_id AND finished IS NULL RETURNING job_no, d.state, d.at, d.work, files.file_id"
        );
        let ended = results.with(|columns| {
            let mut values = columns.to_vec();
            values.extend([&states as &(dyn tokio_postgres::types::ToSql + Sync), &ats, &works]);
            session.query(&text, &values)
        })?;
        let mut taped = Vec::new();
        for row in ended {
            let (work, at) = (FileState::from_code(row.get::<_, i16>(3).into()).work(), row.get(2));
            let state = FileState::from_code(i64::from(row.get::<_, i16>(1)));
            if work != Work::Copy && state == FileState::Finished {
                taped.push((row.get(4), work, at));
            }
            let delta = tally.delta(row.get(0), at);
            delta.archiving -= i64::from(work == Work::Archive);
            match state {
                FileState::Finished => delta.finished += 1,
                FileState::Failed => delta.failed += 1,
                _ => delta.canceled += 1,
            }
        }
        tape::finished(session, &taped)
    }

    fn cancel(&self, session: &mut Session, tally: &mut Tally) -> Result<(), StoreError> {
        let id = |change: &&Change| match change {
            Change::Cancel { job, .. } => Some(*job),
            _ => None,
        };
        let jobs = self.cancels.iter().filter_map(id).collect::<Vec<_>>();
        if jobs.is_empty() {
            return Ok(());
        }
        let live = session.query(
            "SELECT job_id, job_no FROM jobs WHERE job_id = ANY ($1) AND finished IS NULL",
            &[&jobs],
        )?;
        let live = live
            .iter()
            .map(|row| (row.get::<_, Uuid>(0), row.get::<_, i64>(1)))
            .collect::<HashMap<_, _>>();
        let (mut files, mut numbers, mut ats, mut reasons) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut stopped, mut stopped_numbers) = (Vec::new(), Vec::new());
        for change in &self.cancels {
            let Change::Cancel {
                job,
                whole,
                settled,
                stopping,
                at,
                reason,
            } = change
            else {
                continue;
            };
            let Some(number) = live.get(job) else { continue };
            tally.delta(*number, *at).cancelled_whole |= whole;
            for file in settled {
                files.push(*file as i64);
                numbers.push(*number);
                ats.push(*at);
                reasons.push(text(reason));
            }
            for file in stopping {
                stopped.push(*file as i64);
                stopped_numbers.push(*number);
            }
        }
        if !files.is_empty() {
            for row in session.query(ARCHIVING, &[&files, &numbers, &ats])? {
                tally.delta(row.get(0), row.get(1)).archiving -= 1;
            }
            let canceled = session.query(
                "UPDATE files SET state = 4, finished = d.at, reason = d.reason, class = 'cancelled', epoch = NULL
                 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) AS d (file_id, job_no, at, reason)
                 WHERE files.file_id = d.file_id AND files.job_no = d.job_no AND finished IS NULL
                 RETURNING files.job_no, d.at",
                &[&files, &numbers, &ats, &reasons],
            )?;
            for row in canceled {
                tally.delta(row.get(0), row.get(1)).canceled += 1;
            }
        }
        if !stopped.is_empty() {
            session.execute(
                "UPDATE files SET stopping = true FROM unnest($1::bigint[], $2::bigint[]) AS d (file_id, job_no)
                 WHERE files.file_id = d.file_id AND files.job_no = d.job_no AND finished IS NULL",
                &[&stopped, &stopped_numbers],
            )?;
        }
        Ok(())
    }

    /// The newest claim of one of the file's sources is the known state of the destination. Whether the file is staged
    /// first is searched in the parameters as text. They contain the word only then (inside of a text its quotes would
    /// be escaped), and JSON may hold characters that PostgreSQL does not read.
    fn release(&self, session: &mut Session) -> Result<(), StoreError> {
        if self.releases.is_empty() {
            return Ok(());
        }
        session.execute(
            "UPDATE files SET state = CASE WHEN j.kind = 'R' AND strpos(j.params, '\"bring_online\":') > 0 THEN 6 ELSE 0 END,
                 resume = j.kind = 'R', claim_since = c.since, claim_until = c.until
             FROM unnest($1::bigint[]) AS d (id) JOIN files f ON f.file_id = d.id JOIN jobs j ON j.job_no = f.job_no
             LEFT JOIN LATERAL (SELECT s.claim_since AS since, s.claim_until AS until FROM files s
                 WHERE j.kind = 'R' AND s.file_id BETWEEN j.job_no AND j.job_no + j.n_files - 1
                   AND s.claim_since IS NOT NULL ORDER BY s.file_id DESC LIMIT 1) c ON true
             WHERE files.file_id = d.id AND files.state = 5",
            &[&self.releases],
        )?;
        Ok(())
    }

    fn force(&self, session: &mut Session) -> Result<(), StoreError> {
        if !self.forced.is_empty() {
            let text = "UPDATE files SET state = 9, not_before = 0 WHERE file_id = ANY ($1) AND state = 0 AND finished IS NULL";
            session.execute(text, &[&self.forced])?;
        }
        Ok(())
    }

    fn claim(&self, session: &mut Session) -> Result<(), StoreError> {
        let (mut files, mut since, mut until) = (Vec::new(), Vec::new(), Vec::new());
        for change in &self.claims {
            if let Change::Claim { file, claim } = change {
                files.push(*file as i64);
                since.push(claim.map(|claim| claim.since));
                until.push(claim.and_then(|claim| claim.until));
            }
        }
        if files.is_empty() {
            return Ok(());
        }
        session.execute(
            "UPDATE files SET claim_since = d.since, claim_until = d.until
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS d (file_id, since, until)
             WHERE files.file_id = d.file_id AND finished IS NULL",
            &[&files, &since, &until],
        )?;
        Ok(())
    }
}

const ARCHIVING: &str = "SELECT files.job_no, d.at FROM files JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[])
    AS d (file_id, job_no, at) ON files.file_id = d.file_id AND files.job_no = d.job_no WHERE finished IS NULL AND state = 8";

/// Changes that update rows one by one, of different files, jobs and settings.
fn others(session: &mut Session, changes: &[&Change]) -> Result<(), StoreError> {
    let (mut jobs, mut priorities, mut files, mut metadata) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut keys, mut values, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Priority { job, priority } => {
                jobs.push(*job);
                priorities.push(i16::from(*priority));
            }
            Change::Metadata { file, metadata: told } => {
                files.push(*file as i64);
                metadata.push(text(told.get()));
            }
            Change::Setting {
                key,
                value: Some(value),
            } => {
                keys.push(text(key));
                values.push(text(value));
            }
            Change::Setting { key, value: None } => gone.push(text(key)),
            _ => {}
        }
    }
    if !jobs.is_empty() {
        session.execute(
            "UPDATE jobs SET priority = d.priority FROM unnest($1::uuid[], $2::smallint[]) AS d (id, priority)
             WHERE job_id = d.id AND finished IS NULL",
            &[&jobs, &priorities],
        )?;
    }
    if !files.is_empty() {
        session.execute(
            "UPDATE files SET metadata = d.metadata FROM unnest($1::bigint[], $2::text[]) AS d (id, metadata)
             WHERE file_id = d.id AND finished IS NULL",
            &[&files, &metadata],
        )?;
    }
    if !keys.is_empty() {
        session.execute(
            "INSERT INTO settings SELECT DISTINCT ON (key) * FROM unnest($1::text[], $2::text[]) AS d (key, value)
             ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            &[&keys, &values],
        )?;
    }
    if !gone.is_empty() {
        session.execute("DELETE FROM settings WHERE key = ANY ($1)", &[&gone])?;
    }
    Ok(())
}
