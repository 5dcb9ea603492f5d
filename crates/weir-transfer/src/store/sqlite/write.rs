//! Writing: a batch is one transaction.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use uuid::Uuid;
use weir_sched::Work;
use weir_world::Waits;

use super::{renewals, tape, urls};
use weir_executor::job::{
    Claim, Counts, FileResult, FileState, TokenHash, bytes, job_state_code, job_state_from_code, kind_of,
};
use weir_service::time::Millis;

use crate::store::{Change, Conflict, FollowUp, Sealer, StoreError, Submission, urls::SealedUrls};

pub(super) fn apply(connection: &mut Connection, sealer: &Sealer, changes: &[Change]) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut touched = Touched::default();
    for change in changes {
        apply_one(&transaction, sealer, &mut touched, change)?;
    }
    touched.settle(&transaction)?;
    transaction.commit()?;
    Ok(())
}

/// Changes of a batch to the counts of jobs: written once per job, however many of its files changed.
#[derive(Default)]
struct Touched {
    jobs: BTreeMap<i64, JobDelta>,
    /// Tokens met in this batch, by hash, and how many files of it name them.
    tokens: HashMap<TokenHash, (i64, i64)>,
}

#[derive(Default)]
struct JobDelta {
    started: i64,
    finished: i64,
    failed: i64,
    canceled: i64,
    archiving: i64,
    cancelled_whole: bool,
    at: Millis,
}

fn apply_one(
    transaction: &Transaction<'_>,
    sealer: &Sealer,
    touched: &mut Touched,
    change: &Change,
) -> Result<(), StoreError> {
    match change {
        Change::Submit(submission) => submit(transaction, sealer, touched, submission),
        Change::Begin {
            file,
            work: Work::Copy,
            attempt,
            epoch,
            at,
        } => begin(transaction, touched, *file, *attempt, *epoch, *at),
        Change::Begin {
            file,
            work,
            attempt,
            epoch,
            at,
        } => tape::begin(transaction, *file, *work, (*attempt, *epoch), *at),
        Change::Advance { file, at, next, result } => {
            advance(transaction, touched, (*file, *at, *next), result.as_ref())
        }
        Change::Requested { files, request } => tape::requested(transaction, files, request),
        Change::Unpinned { files } => tape::unpinned(transaction, files),
        Change::Again {
            file,
            work,
            attempt,
            at,
            result,
            follow_up,
        } => again(transaction, *file, *work, (*attempt, *at), result, *follow_up),
        Change::End {
            file,
            work,
            at,
            state,
            result,
        } => {
            if *work != Work::Copy && *state == FileState::Finished {
                tape::finished(transaction, *file, *work, *at)?;
            }
            end(transaction, touched, *file, *work, *at, *state, result)
        }
        Change::Cancel {
            job,
            whole,
            settled,
            stopping,
            at,
            reason,
        } => cancel(
            transaction,
            touched,
            *job,
            *whole,
            &[(settled, true), (stopping, false)],
            *at,
            reason,
        ),
        Change::Release { file } => release(transaction, *file),
        Change::Metadata { file, metadata } => set_metadata(transaction, *file, metadata.get()),
        Change::Claim { file, claim } => set_claim(transaction, *file, claim.as_ref()),
        Change::Force { files } => force(transaction, files),
        Change::Priority { job, priority } => set_priority(transaction, *job, *priority),
        Change::Setting { key, value } => set_setting(transaction, key, value.as_deref()),
    }
}

fn advance(
    transaction: &Transaction<'_>,
    touched: &mut Touched,
    (file, at, next): (u64, Millis, Work),
    result: Option<&FileResult>,
) -> Result<(), StoreError> {
    if let Some(result) = result {
        moved(transaction, file, result)?;
    }
    if let Some(job_no) = tape::advance(transaction, file, at, next)? {
        let delta = touched.delta(job_no, at);
        match next {
            Work::Archive => delta.archiving += 1,
            Work::Copy | Work::Stage => delta.started += 1,
        }
    }
    Ok(())
}

/// A further source of a file continues with the newest claim of the ones before.
fn release(transaction: &Transaction<'_>, file: u64) -> Result<(), StoreError> {
    let claim = |column: &str| {
        format!(
            "(SELECT c.{column} FROM jobs j JOIN files c ON c.file_id BETWEEN j.first_file AND j.first_file + j.n_files - 1
              WHERE j.job_no = files.job_no AND j.kind = 'R' AND c.claim_since IS NOT NULL
              ORDER BY c.file_id DESC LIMIT 1)"
        )
    };
    let text = format!(
        "UPDATE files SET state = (SELECT iif(j.kind = 'R' AND json_extract(j.params, '$.bring_online') IS NOT NULL, 6, 0)
             FROM jobs j WHERE j.job_no = files.job_no), resume = (SELECT j.kind = 'R' FROM jobs j WHERE j.job_no = files.job_no),
         claim_since = {}, claim_until = {} WHERE file_id = ?1 AND state = 5",
        claim("claim_since"),
        claim("claim_until")
    );
    transaction.prepare_cached(&text)?.execute([file as i64])?;
    Ok(())
}

fn set_metadata(transaction: &Transaction<'_>, file: u64, metadata: &str) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE files SET metadata = ?2 WHERE file_id = ?1 AND finished IS NULL")?
        .execute(params![file as i64, metadata])?;
    Ok(())
}

fn set_claim(transaction: &Transaction<'_>, file: u64, claim: Option<&Claim>) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE files SET claim_since = ?2, claim_until = ?3 WHERE file_id = ?1 AND finished IS NULL")?
        .execute(params![
            file as i64,
            claim.map(|claim| claim.since),
            claim.and_then(|claim| claim.until)
        ])?;
    Ok(())
}

fn force(transaction: &Transaction<'_>, files: &[u64]) -> Result<(), StoreError> {
    let text = "UPDATE files SET state = 9, not_before = 0 WHERE file_id = ?1 AND state = 0 AND finished IS NULL";
    let mut force = transaction.prepare_cached(text)?;
    for file in files {
        force.execute([*file as i64])?;
    }
    Ok(())
}

fn set_priority(transaction: &Transaction<'_>, job: Uuid, priority: u8) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE jobs SET priority = ?2 WHERE job_id = ?1 AND finished IS NULL")?
        .execute(params![job.as_bytes(), priority])?;
    Ok(())
}

fn set_setting(transaction: &Transaction<'_>, key: &str, value: Option<&str>) -> Result<(), StoreError> {
    match value {
        Some(value) => transaction
            .prepare_cached("INSERT INTO settings VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2")?
            .execute(params![key, value])?,
        None => transaction
            .prepare_cached("DELETE FROM settings WHERE key = ?1")?
            .execute(params![key])?,
    };
    Ok(())
}

fn submit(
    transaction: &Transaction<'_>,
    sealer: &Sealer,
    touched: &mut Touched,
    submission: &Submission,
) -> Result<(), StoreError> {
    let job = &submission.job;
    let first = submission.files.first().map_or(0, |file| file.id);
    let params_text = serde_json::to_string(&job.params).map_err(|error| StoreError::Broken(error.into()))?;
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO jobs (job_no, job_id, kind, state, user_dn, cred_id, vo, priority, submitted, source_se, dest_se,
             params, metadata, first_file, n_files, expires)
             SELECT ?12, ?1, ?2, ?15, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
             WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE job_id = ?1)
               AND NOT EXISTS (SELECT 1 FROM history WHERE job_id = ?1)",
        )?
        .execute(params![
            job.id.as_bytes(),
            job.kind.to_string(),
            job.user_dn,
            job.cred_id,
            job.vo,
            job.priority,
            job.submitted,
            job.source_se,
            job.dest_se,
            params_text,
            job.metadata.as_ref().map(|raw| raw.get()),
            first as i64,
            submission.files.len() as i64,
            job.params.max_time_in_queue,
            job_state_code(submission.first_job_state()),
        ])?;
    if inserted == 0 {
        return Err(Conflict::Duplicate(job.id).into());
    }
    let job_no = first as i64;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO files (file_id, job_no, source, dest, checksum, size, activity, strategy, scitag, metadata, staging,
         archive, src_token, dst_token, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    let tokens = touched.tokens(transaction, sealer, submission)?;
    let mut last = 0;
    for file in &submission.files {
        last = last.max(file.id);
        if let Some(sealed) = SealedUrls::of(sealer, file) {
            urls::keep(transaction, &sealed)?;
        }
        let token = |hash: Option<TokenHash>| hash.and_then(|hash| tokens.get(&hash).copied());
        insert.execute(params![
            file.id as i64,
            job_no,
            file.source.as_str(),
            file.destination.as_str(),
            file.checksum,
            file.user_filesize.map(|size| size as i64),
            file.activity,
            file.selection_strategy,
            file.scitag,
            file.metadata.as_ref().map(|raw| raw.get()),
            file.staging_metadata.as_ref().map(|raw| raw.get()),
            file.archive_metadata.as_ref().map(|raw| raw.get()),
            token(file.source_token),
            token(file.destination_token),
            submission.first_state(file).code(),
        ])?;
    }
    for (file, name) in submission.destinations() {
        if !claim_destination(transaction, file.id, name)? {
            return Err(Conflict::Taken(file.destination.to_string()).into());
        }
    }
    transaction
        .prepare_cached("UPDATE meta SET value = max(value, ?1) WHERE key = 'next_file'")?
        .execute([last as i64 + 1])?;
    Ok(())
}

/// Whether the destination is free, and this file's from now on.
fn claim_destination(transaction: &Transaction<'_>, file: u64, name: TokenHash) -> Result<bool, StoreError> {
    let taken = transaction
        .prepare_cached(
            "INSERT INTO destinations VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET file_id = excluded.file_id
             WHERE EXISTS (SELECT 1 FROM files f JOIN jobs j USING (job_no) WHERE f.file_id = destinations.file_id
                 AND (f.finished IS NOT NULL OR j.finished IS NOT NULL))",
        )?
        .execute(params![file as i64, name.0])?;
    Ok(taken > 0)
}

fn begin(
    transaction: &Transaction<'_>,
    touched: &mut Touched,
    file: u64,
    attempt: u32,
    epoch: u64,
    at: Millis,
) -> Result<(), StoreError> {
    let job_no = transaction
        .prepare_cached(
            "UPDATE files SET state = 1, attempts = ?2, epoch = ?3, started = ?4, first_start = coalesce(first_start, ?4),
             not_before = 0
             WHERE file_id = ?1 AND finished IS NULL RETURNING job_no",
        )?
        .query_row(params![file as i64, attempt, epoch as i64, at], |row| row.get(0))
        .optional()?;
    if let Some(job_no) = job_no
        && attempt == 1
    {
        touched.delta(job_no, at).started += 1;
    }
    Ok(())
}

fn again(
    transaction: &Transaction<'_>,
    file: u64,
    work: Work,
    (attempt, at): (u32, Millis),
    result: &FileResult,
    follow_up: FollowUp,
) -> Result<(), StoreError> {
    let [class, party, phase] = result.words();
    let changed = transaction
        .prepare_cached(
            "UPDATE files SET state = iif(stopping, state, ?15), epoch = NULL, not_before = ?2, failures = ?3, free_retries = ?4, resume = ?5,
             filesize = coalesce(?6, filesize), moved = iif(?16, moved, ?7), moved_total = min(moved_total, 9007199254740992) + ?7, mode = iif(?16, mode, ?8), counted = iif(?16, counted, ?17), first_byte = iif(?16, first_byte, ?18), waits = iif(?16, waits, ?19), reason = ?9, class = ?10, party = ?11, phase = ?12,
             remedy = ?13, again = ?14
             WHERE file_id = ?1 AND finished IS NULL",
        )?
        .execute(params![
            file as i64,
            follow_up.not_before,
            follow_up.failures,
            follow_up.free_retries,
            follow_up.resume,
            result.filesize.map(bytes),
            bytes(result.bytes_moved),
            result.mode,
            result.reason,
            class,
            party,
            phase,
            result.remedy,
            result.recoverable,
            FileState::waiting(work).code(),
            work == Work::Archive,
            result.counted.map(bytes),
            result.first_byte_ms.map(bytes),
            waits(result),
        ])?;
    if changed > 0 && !result.waited_for_issuer() {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO attempts VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                file as i64,
                attempt,
                at,
                result.reason.as_deref().unwrap_or_default()
            ])?;
    }
    Ok(())
}

fn end(
    transaction: &Transaction<'_>,
    touched: &mut Touched,
    file: u64,
    work: Work,
    at: Millis,
    state: FileState,
    result: &FileResult,
) -> Result<(), StoreError> {
    assert!(state.is_terminal(), "a file cannot end in {}", state.as_str());
    let [class, party, phase] = result.words();
    let job_no = transaction
        .prepare_cached(
            "UPDATE files SET state = ?2, finished = ?3, epoch = NULL, stopping = 0,
             filesize = coalesce(?4, filesize), moved = iif(?13, moved, ?5), moved_total = min(moved_total, 9007199254740992) + ?5, mode = iif(?13, mode, ?6), counted = iif(?13, counted, ?14), first_byte = iif(?13, first_byte, ?15), waits = iif(?13, waits, ?16), reason = ?7, class = ?8, party = ?9, phase = ?10,
             remedy = ?11, again = ?12
             WHERE file_id = ?1 AND finished IS NULL RETURNING job_no",
        )?
        .query_row(
            params![
                file as i64,
                state.code(),
                at,
                result.filesize.map(bytes),
                bytes(result.bytes_moved),
                result.mode,
                result.reason,
                class,
                party,
                phase,
                result.remedy,
                result.recoverable,
                work == Work::Archive,
                result.counted.map(bytes),
                result.first_byte_ms.map(bytes),
                waits(result),
            ],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(job_no) = job_no {
        let delta = touched.delta(job_no, at);
        delta.archiving -= i64::from(work == Work::Archive);
        match state {
            FileState::Finished => delta.finished += 1,
            FileState::Failed => delta.failed += 1,
            _ => delta.canceled += 1,
        }
    }
    Ok(())
}

/// The time in each state, as it is kept.
fn waits(result: &FileResult) -> Option<String> {
    result.waits.as_deref().map(Waits::to_string)
}

/// Adds the bytes of an attempt that was not the last.
fn moved(transaction: &Transaction<'_>, file: u64, result: &FileResult) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "UPDATE files SET filesize = coalesce(?2, filesize), moved = ?3, moved_total = min(moved_total, 9007199254740992) + ?3, mode = ?4, counted = ?5, first_byte = ?6, waits = ?7,
             reason = NULL, class = NULL, party = NULL, phase = NULL, remedy = NULL, again = NULL
             WHERE file_id = ?1 AND finished IS NULL",
        )?
        .execute(params![
            file as i64,
            result.filesize.map(bytes),
            bytes(result.bytes_moved),
            result.mode,
            result.counted.map(bytes),
            result.first_byte_ms.map(bytes),
            waits(result),
        ])?;
    Ok(())
}

/// Each list comes with whether its files have ended by this.
fn cancel(
    transaction: &Transaction<'_>,
    touched: &mut Touched,
    job: Uuid,
    whole: bool,
    lists: &[(&Vec<u64>, bool)],
    at: Millis,
    reason: &str,
) -> Result<(), StoreError> {
    let job_no: Option<i64> = transaction
        .prepare_cached("SELECT job_no FROM jobs WHERE job_id = ?1 AND finished IS NULL")?
        .query_row([job.as_bytes()], |row| row.get(0))
        .optional()?;
    let Some(job_no) = job_no else { return Ok(()) };
    let mut settle = transaction.prepare_cached(
        "UPDATE files SET state = 4, finished = ?3, reason = ?4, class = 'cancelled', epoch = NULL
         WHERE file_id = ?1 AND job_no = ?2 AND finished IS NULL",
    )?;
    let mut mark = transaction
        .prepare_cached("UPDATE files SET stopping = 1 WHERE file_id = ?1 AND job_no = ?2 AND finished IS NULL")?;
    let mut archiving = transaction
        .prepare_cached("SELECT count(*) FROM files WHERE file_id = ?1 AND finished IS NULL AND state = 8")?;
    let (mut canceled, mut watched) = (0, 0);
    for (files, ended) in lists {
        for file in *files {
            if *ended {
                watched += archiving.query_row([*file as i64], |row| row.get::<_, i64>(0))?;
                canceled += settle.execute(params![*file as i64, job_no, at, reason])?;
            } else {
                mark.execute(params![*file as i64, job_no])?;
            }
        }
    }
    let delta = touched.delta(job_no, at);
    delta.canceled += canceled as i64;
    delta.archiving -= watched;
    delta.cancelled_whole |= whole;
    Ok(())
}

impl Touched {
    fn delta(&mut self, job_no: i64, at: Millis) -> &mut JobDelta {
        let delta = self.jobs.entry(job_no).or_default();
        delta.at = delta.at.max(at);
        delta
    }

    /// The numbers of the tokens that a submission names. New ones are written.
    fn tokens(
        &mut self,
        transaction: &Transaction<'_>,
        sealer: &Sealer,
        submission: &Submission,
    ) -> Result<HashMap<TokenHash, i64>, StoreError> {
        let mut named = BTreeMap::<TokenHash, i64>::new();
        for file in &submission.files {
            for hash in [file.source_token, file.destination_token].into_iter().flatten() {
                *named.entry(hash).or_default() += 1;
            }
        }
        let number = |(hash, files): (TokenHash, i64)| {
            let number = self.token(transaction, sealer, submission, (hash, files))?;
            Ok((hash, number))
        };
        named.into_iter().map(number).collect()
    }

    fn token(
        &mut self,
        transaction: &Transaction<'_>,
        sealer: &Sealer,
        submission: &Submission,
        (hash, files): (TokenHash, i64),
    ) -> Result<i64, StoreError> {
        let number = match self.tokens.get(&hash) {
            Some((number, _)) => *number,
            None => match renewals::write_token(transaction, sealer, submission, (hash, files))? {
                // With all that is to be said of it: with a token for each file that is all there ever is.
                Some(fresh) => {
                    self.tokens.insert(hash, (fresh, 0));
                    return Ok(fresh);
                }
                None => renewals::number_of(transaction, hash)?,
            },
        };
        self.tokens.entry(hash).or_insert((number, 0)).1 += files;
        if let Some(expiring) = submission.expiring.get(&hash) {
            renewals::expect(transaction, number, *expiring, submission.range())?;
        }
        Ok(number)
    }

    fn settle(self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let mut named = transaction.prepare_cached("UPDATE tokens SET n_refs = n_refs + ?2 WHERE token_no = ?1")?;
        for (number, files) in self.tokens.into_values().filter(|(_, files)| *files != 0) {
            named.execute([number, files])?;
        }
        let mut count = transaction.prepare_cached(
            "UPDATE jobs SET n_started = n_started + ?2, n_finished = n_finished + ?3, n_failed = n_failed + ?4,
             n_canceled = n_canceled + ?5, cancelled = max(cancelled, ?6), n_archiving = n_archiving + ?7 WHERE job_no = ?1
             RETURNING n_files, n_started, n_finished, n_failed, n_canceled, cancelled, state, n_archiving, kind",
        )?;
        let mut conclude =
            transaction.prepare_cached("UPDATE jobs SET state = ?2, finished = ?3, reason = ?4 WHERE job_no = ?1")?;
        for (job_no, delta) in self.jobs {
            let changes = params![
                job_no,
                delta.started,
                delta.finished,
                delta.failed,
                delta.canceled,
                i64::from(delta.cancelled_whole),
                delta.archiving
            ];
            let (counts, cancelled, before, kind) = count.query_row(changes, |row| {
                let counts = Counts {
                    files: row.get(0)?,
                    started: row.get(1)?,
                    finished: row.get(2)?,
                    failed: row.get(3)?,
                    canceled: row.get(4)?,
                    archiving: row.get(7)?,
                };
                let before = job_state_from_code(row.get(6)?);
                Ok((
                    counts,
                    row.get::<_, bool>(5)?,
                    before,
                    kind_of(&row.get::<_, String>(8)?),
                ))
            })?;
            let (state, reason) = counts.verdict_after(before, kind, cancelled);
            if state != before {
                let finished = state.is_terminal().then_some(delta.at);
                conclude.execute(params![job_no, job_state_code(state), finished, reason])?;
            }
        }
        Ok(())
    }
}
