//! Reading.

use std::{collections::HashMap, fmt::Write as _};

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use serde_json::value::RawValue;
use uuid::Uuid;
use weir_executor::{
    job::{
        Claim, Counts, File, FileResult, FileState, Job, NewFile, NewJob, Retry, TokenHash, index_of, job_state_code,
        job_state_from_code, kind_of, meaning,
    },
    orders::{Order, proxy_name},
};
use weir_world::{ErrorClass, Party, Phase, Waits};

use crate::store::{
    FollowUp, JobFilter, Live, LiveJob, OVERDUE_MAX, OVERDUE_PAGE, Overdue, Restored, Sealer, StoreError, Unreadable,
    packed::{self, Packed},
};

use super::{packs, secrets, tape, urls};

const JOB: &str = "SELECT job_id, kind, state, user_dn, cred_id, vo, priority, submitted, finished, reason, cancelled,
    source_se, dest_se, params, metadata, n_files, n_started, n_finished, n_failed, n_canceled, job_no, n_archiving FROM jobs";

/// Place of `counted` in [`FILE`], after the times of tape; `first_byte` and `waits` follow.
const COUNTED: usize = 39;

const FILE: &str = "SELECT f.file_id, j.job_id, j.first_file, f.state, f.attempts, f.started, f.finished, f.filesize,
    f.moved, f.mode, f.reason, f.class, f.party, f.phase, f.remedy, f.again, f.source, f.dest, f.checksum, f.size,
    f.activity, f.strategy, f.scitag, f.metadata, f.staging, f.archive, s.hash, d.hash, f.first_start, f.stopping,
    f.claim_since, f.claim_until, f.moved_total, j.kind, t.staging_start, t.staging_finished, t.archive_start,
    t.archive_finished, t.request, f.counted, f.first_byte, f.waits
    FROM files f JOIN jobs j USING (job_no) LEFT JOIN tape t USING (file_id)
    LEFT JOIN tokens s ON s.token_no = f.src_token LEFT JOIN tokens d ON d.token_no = f.dst_token";

pub(super) fn job(connection: &Connection, id: Uuid) -> Result<Option<Job>, StoreError> {
    let text = format!("{JOB} WHERE job_id = ?1 UNION ALL {} WHERE job_id = ?1", in_history());
    Ok(connection
        .prepare_cached(&text)?
        .query_row([id.as_bytes()], job_row)
        .optional()?)
}

/// The same of a job that left the present.
fn in_history() -> String {
    JOB.replace("FROM jobs", "FROM history")
}

pub(super) fn jobs(connection: &Connection, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
    let mut text = if filter.live_only() {
        format!("{JOB} WHERE finished IS NULL")
    } else {
        format!("SELECT * FROM ({JOB} UNION ALL {}) WHERE 1", in_history())
    };
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if !filter.states.is_empty() {
        let codes = filter
            .states
            .iter()
            .map(|state| job_state_code(*state).to_string())
            .collect::<Vec<_>>()
            .join(",");
        let _ = write!(text, " AND state IN ({codes})");
    }
    let columns = [
        ("user_dn", &filter.user_dn),
        ("cred_id", &filter.cred_id),
        ("vo", &filter.vo),
        ("source_se", &filter.source_se),
        ("dest_se", &filter.dest_se),
    ];
    for (column, value) in columns {
        if let Some(value) = value {
            values.push(Box::new(value.clone()));
            let _ = write!(text, " AND {column} = ?{}", values.len());
        }
    }
    if let Some(since) = filter.finished_since
        && !filter.live_only()
    {
        values.push(Box::new(since));
        let _ = write!(text, " AND finished >= ?{}", values.len());
    }
    match filter.limit {
        Some(limit) => {
            let _ = write!(text, " ORDER BY job_no DESC LIMIT {limit}");
        }
        None => text.push_str(" ORDER BY job_no"),
    }
    let mut statement = connection.prepare(&text)?;
    let mut rows = statement.query(rusqlite::params_from_iter(values))?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next()? {
        match job_row(row) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                tracing::error!(row = name_of_job(row), %error, "a row of the store cannot be read; it is not listed");
            }
        }
    }
    Ok(jobs)
}

pub(super) fn files(connection: &Connection, job: Uuid) -> Result<Vec<File>, StoreError> {
    let range = connection
        .prepare_cached(
            "SELECT first_file, n_files FROM jobs WHERE job_id = ?1
             UNION ALL SELECT first_file, n_files FROM history WHERE job_id = ?1",
        )?
        .query_row([job.as_bytes()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })
        .optional()?;
    let Some((first, n_files)) = range else {
        return Ok(Vec::new());
    };
    let last = first + n_files - 1;
    let present = files_between(connection, first, last, usize::MAX >> 1)?;
    if present.len() as i64 == n_files {
        return Ok(present);
    }
    packed::merge(present, &packs::packs(connection, first, last)?)
}

/// Files of the present with these ids, in order.
pub(super) fn files_between(
    connection: &Connection,
    first: i64,
    last: i64,
    limit: usize,
) -> Result<Vec<File>, StoreError> {
    let text = format!("{FILE} WHERE f.file_id BETWEEN ?1 AND ?2 ORDER BY f.file_id LIMIT ?3");
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map([first, last, limit as i64], file_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn file(connection: &Connection, id: u64) -> Result<Option<File>, StoreError> {
    if let Some(file) = present_file(connection, id)? {
        return Ok(Some(file));
    }
    Ok(old_file(connection, id)?.map(|packed| packed.file))
}

fn present_file(connection: &Connection, id: u64) -> Result<Option<File>, StoreError> {
    let text = format!("{FILE} WHERE f.file_id = ?1");
    Ok(connection
        .prepare_cached(&text)?
        .query_row([id as i64], file_row)
        .optional()?)
}

fn old_file(connection: &Connection, id: u64) -> Result<Option<Packed>, StoreError> {
    match packs::pack_of(connection, id)? {
        Some(pack) => packed::one(&pack, id),
        None => Ok(None),
    }
}

pub(super) fn retries(connection: &Connection, file: u64) -> Result<Vec<Retry>, StoreError> {
    let present = retries_between(connection, [file as i64; 2])?;
    if present.is_empty() && present_file(connection, file)?.is_none() {
        return Ok(old_file(connection, file)?
            .map(|packed| packed.retries)
            .unwrap_or_default());
    }
    Ok(present)
}

/// Attempts of these files of the present, in the order of files.
pub(super) fn retries_between(connection: &Connection, range: [i64; 2]) -> Result<Vec<Retry>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT file_id, attempt, ended, reason FROM attempts WHERE file_id BETWEEN ?1 AND ?2 ORDER BY file_id, attempt",
    )?;
    let rows = statement.query_map(range, |row| {
        Ok(Retry {
            file: row.get::<_, i64>(0)? as u64,
            attempt: row.get(1)?,
            at: row.get(2)?,
            reason: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Jobs first, by the index of expiry; then their files by range. Page by page, as many may have no waiting files.
pub(super) fn overdue(connection: &Connection, now: i64) -> Result<Vec<Overdue>, StoreError> {
    let mut page = connection.prepare_cached(
        "SELECT expires, job_no, job_id, kind, first_file, n_files FROM jobs
         WHERE finished IS NULL AND expires <= ?1 AND (expires, job_no) > (?2, ?3) ORDER BY expires, job_no LIMIT ?4",
    )?;
    let mut waiting = connection.prepare_cached(
        "SELECT file_id FROM files WHERE file_id BETWEEN ?1 AND ?2 AND finished IS NULL AND state IN (0, 6, 9) AND stopping = 0
         ORDER BY file_id LIMIT ?3",
    )?;
    let (mut found, mut left, mut last) = (Vec::new(), OVERDUE_MAX, (i64::MIN, 0));
    loop {
        let mut jobs = page.query(params![now, last.0, last.1, OVERDUE_PAGE])?;
        let mut n = 0;
        while let Some(row) = jobs.next()? {
            n += 1;
            last = (row.get(0)?, row.get(1)?);
            let (first, n_files) = (row.get::<_, i64>(4)?, row.get::<_, i64>(5)?);
            let ids = waiting.query_map(params![first, first + n_files - 1, left as i64], |row| {
                row.get::<_, i64>(0)
            })?;
            let files = ids.map(|id| Ok(id? as u64)).collect::<rusqlite::Result<Vec<_>>>()?;
            left -= files.len();
            if !files.is_empty() {
                found.push(Overdue {
                    job: Uuid::from_bytes(row.get(2)?),
                    kind: kind_of(&row.get::<_, String>(3)?),
                    files,
                });
            }
            if left == 0 {
                return Ok(found);
            }
        }
        if n < OVERDUE_PAGE {
            return Ok(found);
        }
    }
}

pub(super) fn order(connection: &Connection, sealer: &Sealer, id: u64) -> Result<Option<Order>, StoreError> {
    // One transaction for all of it: separate ones would each read their pages anew after a concurrent write.
    let _one_look = connection.unchecked_transaction()?;
    let Some(mut file) = present_file(connection, id)? else {
        return Ok(None);
    };
    let Some(job) = job(connection, file.job)? else {
        return Ok(None);
    };
    let mut tokens = connection.prepare_cached(
        "SELECT t.hash, t.sealed FROM files f JOIN tokens t ON t.token_no IN (f.src_token, f.dst_token) WHERE f.file_id = ?1",
    )?;
    let tokens = tokens.query_map([id as i64], |row| {
        Ok((TokenHash(row.get(0)?), row.get::<_, Vec<u8>>(1)?))
    })?;
    let tokens = tokens.collect::<Result<HashMap<_, _>, _>>()?;
    let open = |hash: Option<TokenHash>| -> Result<_, StoreError> {
        let Some(hash) = hash else { return Ok(None) };
        tokens
            .get(&hash)
            .and_then(|sealed| sealer.open(hash, sealed))
            .map(Some)
            .ok_or_else(|| StoreError::Sealed(hash.short()))
    };
    let source_token = open(file.spec.source_token)?;
    let destination_token = match file.spec.destination_token {
        same if same == file.spec.source_token => source_token.clone(),
        other => open(other)?,
    };
    urls::open(connection, sealer, &mut file.spec)?;
    let proxy = if job.spec.moves_by_proxy(&file) {
        secrets::kept(connection, sealer, &proxy_name(&job.spec.owner()))?
    } else {
        None
    };
    Ok(Some(Order {
        proxy,
        file,
        job: job.spec,
        source_token,
        destination_token,
    }))
}

pub(super) fn settings(connection: &Connection, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
    let text = "SELECT key, value FROM settings WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key";
    let mut statement = connection.prepare_cached(text)?;
    let rows = statement.query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Live files come in the order of their ids, which is that of their jobs: one pass, one job in memory at a time.
pub(super) fn restore(connection: &Connection, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
    let mut files = connection.prepare(
        "SELECT file_id, source, dest, activity, size, attempts, epoch IS NOT NULL, stopping, not_before, failures,
         free_retries, resume, state FROM files WHERE finished IS NULL AND file_id BETWEEN ?1 AND ?2 ORDER BY file_id",
    )?;
    let text = JOB.replace(
        "job_no, n_archiving FROM jobs",
        "first_file, n_archiving FROM jobs WHERE finished IS NULL AND first_file < ?1 ORDER BY job_no",
    );
    let mut jobs = connection.prepare(&text)?;
    let mut rows = jobs.query([below as i64])?;
    while let Some(row) = rows.next()? {
        let found = job_row(row).and_then(|job| Ok((job, row.get::<_, i64>(20)?)));
        let (job, first) = match found {
            Ok(found) => found,
            Err(error) => {
                each(unreadable(name_of_job(row), &error));
                continue;
            }
        };
        let mut live = Vec::new();
        let mut rows = files.query(params![first, first.saturating_add(job.counts.files - 1)])?;
        while let Some(row) = rows.next()? {
            match live_row(row) {
                Ok(file) => live.push(file),
                Err(error) => {
                    let id = row.get::<_, i64>(0).unwrap_or_default();
                    each(unreadable(format!("file {id}"), &error));
                }
            }
        }
        each(Restored::Job(Box::new(LiveJob {
            job: job.spec,
            first: first as u64,
            files: live,
        })));
    }
    Ok(())
}

fn unreadable(what: String, error: &rusqlite::Error) -> Restored {
    Restored::Unreadable(Unreadable {
        what,
        reason: error.to_string(),
    })
}

/// For people.
fn name_of_job(row: &Row<'_>) -> String {
    let id = row.get(0).map(Uuid::from_bytes);
    format!("job {}", id.unwrap_or_default())
}

fn live_row(row: &Row<'_>) -> rusqlite::Result<Live> {
    Ok(Live {
        file: row.get::<_, i64>(0)? as u64,
        source: urls::surl(row, 1)?,
        destination: urls::surl(row, 2)?,
        activity: row.get(3)?,
        size: row.get::<_, Option<i64>>(4)?.map(|size| size as u64),
        attempts: row.get(5)?,
        running: row.get(6)?,
        stopping: row.get(7)?,
        state: FileState::from_code(row.get(12)?),
        follow_up: FollowUp {
            not_before: row.get(8)?,
            failures: row.get(9)?,
            free_retries: row.get(10)?,
            resume: row.get(11)?,
        },
    })
}

fn job_row(row: &Row<'_>) -> rusqlite::Result<Job> {
    let id: [u8; 16] = row.get(0)?;
    let params: String = row.get(13)?;
    let spec = NewJob {
        id: Uuid::from_bytes(id),
        kind: kind_of(&row.get::<_, String>(1)?),
        user_dn: row.get(3)?,
        cred_id: row.get(4)?,
        vo: row.get(5)?,
        priority: row.get(6)?,
        submitted: row.get(7)?,
        source_se: row.get(11)?,
        dest_se: row.get(12)?,
        params: serde_json::from_str(&params).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(13, rusqlite::types::Type::Text, error.into())
        })?,
        metadata: raw(row, 14)?,
    };
    Ok(Job {
        spec,
        state: job_state_from_code(row.get(2)?),
        finished: row.get(8)?,
        reason: row.get(9)?,
        cancelled: row.get(10)?,
        counts: Counts {
            files: row.get(15)?,
            started: row.get(16)?,
            finished: row.get(17)?,
            failed: row.get(18)?,
            canceled: row.get(19)?,
            archiving: row.get(21)?,
        },
    })
}

fn file_row(row: &Row<'_>) -> rusqlite::Result<File> {
    let id: i64 = row.get(0)?;
    let first: i64 = row.get(2)?;
    let size = |column| {
        row.get::<_, Option<i64>>(column)
            .map(|size| size.map(|size| size as u64))
    };
    Ok(File {
        spec: NewFile {
            id: id as u64,
            index: index_of(&row.get::<_, String>(33)?, id - first),
            source: urls::surl(row, 16)?,
            destination: urls::surl(row, 17)?,
            secrets: None,
            checksum: row.get(18)?,
            user_filesize: size(19)?,
            activity: row.get(20)?,
            selection_strategy: row.get(21)?,
            scitag: row.get(22)?,
            metadata: raw(row, 23)?,
            staging_metadata: raw(row, 24)?,
            archive_metadata: raw(row, 25)?,
            source_token: row.get::<_, Option<[u8; 32]>>(26)?.map(TokenHash),
            destination_token: row.get::<_, Option<[u8; 32]>>(27)?.map(TokenHash),
        },
        job: Uuid::from_bytes(row.get(1)?),
        state: FileState::from_code(row.get(3)?),
        attempts: row.get(4)?,
        first_started: row.get(28)?,
        started: row.get(5)?,
        finished: row.get(6)?,
        stopping: row.get(29)?,
        claim: match row.get(30)? {
            Some(since) => Some(Claim {
                since,
                until: row.get(31)?,
            }),
            None => None,
        },
        moved_total: row.get::<_, i64>(32)? as u64,
        tape: tape::times(row, 34)?,
        result: FileResult {
            filesize: size(7)?,
            bytes_moved: row.get::<_, i64>(8)? as u64,
            counted: size(COUNTED)?,
            first_byte_ms: size(COUNTED + 1)?,
            waits: word(row, COUNTED + 2, Waits::parse)?.map(Box::new),
            mode: row.get(9)?,
            reason: row.get(10)?,
            class: word(row, 11, ErrorClass::parse)?,
            party: word(row, 12, Party::parse)?,
            phase: word(row, 13, Phase::parse)?,
            remedy: row.get(14)?,
            recoverable: row.get(15)?,
            // One node alone works on this store.
            host: None,
        },
    })
}

fn raw(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Box<RawValue>>> {
    let Some(text) = row.get::<_, Option<String>>(column)? else {
        return Ok(None);
    };
    RawValue::from_string(text)
        .map(Some)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into()))
}

/// A word of the field's, if it is one.
fn word<T>(row: &Row<'_>, column: usize, parse: fn(&str) -> Option<T>) -> rusqlite::Result<Option<T>> {
    Ok(meaning(row.get_ref(column)?.as_str_or_null()?, parse))
}
