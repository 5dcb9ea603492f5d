//! Decoding of rows.

use serde_json::value::RawValue;
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;
use weir_executor::{
    job::{
        Claim, Counts, File, FileResult, FileState, Job, NewFile, NewJob, Retry, TapeTimes, TokenHash, index_of,
        job_state_from_code, kind_of, meaning,
    },
    surl::Surl,
};
use weir_world::{ErrorClass, Party, Phase, Waits};

use crate::store::{FollowUp, Live, StoreError};

/// Columns of a job, of the present or of history.
pub(super) const JOB: &str =
    "job_id, kind, state, user_dn, cred_id, vo, priority, submitted, finished, reason, cancelled,
    source_se, dest_se, params, metadata, n_files, n_started, n_finished, n_failed, n_canceled, job_no, n_archiving";

/// Files with their job and the hashes of their tokens.
pub(super) const FILE: &str =
    "SELECT f.file_id, j.job_id, j.job_no, f.state, f.attempts, f.started, f.finished, f.filesize,
    f.moved, f.mode, f.reason, f.class, f.party, f.phase, f.remedy, f.again, f.source, f.dest, f.checksum, f.size,
    f.activity, f.strategy, f.scitag, f.metadata, f.staging, f.archive, s.hash, d.hash, f.first_start, f.stopping,
    f.claim_since, f.claim_until, f.moved_total, j.kind, t.staging_start, t.staging_finished, t.archive_start,
    t.archive_finished, t.request, f.host, f.counted, f.first_byte, f.waits
    FROM files f JOIN jobs j USING (job_no) LEFT JOIN tape t ON t.file_id = f.file_id
    LEFT JOIN tokens s ON s.token_no = f.src_token LEFT JOIN tokens d ON d.token_no = f.dst_token";

/// Columns of a live file.
pub(super) const LIVE: &str =
    "file_id, source, dest, activity, size, attempts, epoch IS NOT NULL, stopping, not_before,
    failures, free_retries, resume, job_no, state";

/// A value, or why it cannot be read.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column)
        .map_err(|error| StoreError::Unreadable(error.to_string()))
}

/// A URL as its row has it.
pub(super) fn surl(row: &Row, column: usize) -> Result<Surl, StoreError> {
    let url = Surl::try_from(get::<String>(row, column)?);
    url.map_err(|error| StoreError::Unreadable(error.to_string()))
}

fn raw(row: &Row, column: usize) -> Result<Option<Box<RawValue>>, StoreError> {
    let Some(text) = get::<Option<String>>(row, column)? else {
        return Ok(None);
    };
    let raw = RawValue::from_string(text).map_err(|error| StoreError::Unreadable(error.to_string()));
    raw.map(Some)
}

fn size(row: &Row, column: usize) -> Result<Option<u64>, StoreError> {
    Ok(get::<Option<i64>>(row, column)?.map(|size| size as u64))
}

fn hash(row: &Row, column: usize) -> Result<Option<TokenHash>, StoreError> {
    let Some(bytes) = get::<Option<&[u8]>>(row, column)? else {
        return Ok(None);
    };
    let hash = <[u8; 32]>::try_from(bytes).map_err(|error| StoreError::Unreadable(error.to_string()))?;
    Ok(Some(TokenHash(hash)))
}

/// Of a row of [`JOB`]. For people: which one it is, even if it cannot be read.
pub(super) fn name_of_job(row: &Row) -> String {
    format!("job {}", row.try_get::<_, Uuid>(0).unwrap_or_default())
}

pub(super) fn job(row: &Row) -> Result<Job, StoreError> {
    let params = serde_json::from_str(get(row, 13)?);
    let spec = NewJob {
        id: get(row, 0)?,
        kind: kind_of(get(row, 1)?),
        user_dn: get(row, 3)?,
        cred_id: get(row, 4)?,
        vo: get(row, 5)?,
        priority: get::<i16>(row, 6)? as u8,
        submitted: get(row, 7)?,
        source_se: get(row, 11)?,
        dest_se: get(row, 12)?,
        params: params.map_err(|error| StoreError::Unreadable(error.to_string()))?,
        metadata: raw(row, 14)?,
    };
    Ok(Job {
        spec,
        state: job_state_from_code(i64::from(get::<i16>(row, 2)?)),
        finished: get(row, 8)?,
        reason: get(row, 9)?,
        cancelled: get(row, 10)?,
        counts: Counts {
            files: get(row, 15)?,
            started: get(row, 16)?,
            finished: get(row, 17)?,
            failed: get(row, 18)?,
            canceled: get(row, 19)?,
            archiving: get(row, 21)?,
        },
    })
}

pub(super) fn file(row: &Row) -> Result<File, StoreError> {
    let (id, first): (i64, i64) = (get(row, 0)?, get(row, 2)?);
    let until = get(row, 31)?;
    let claim = get::<Option<i64>>(row, 30)?.map(|since| Claim { since, until });
    Ok(File {
        spec: NewFile {
            id: id as u64,
            index: index_of(get(row, 33)?, id - first),
            source: surl(row, 16)?,
            destination: surl(row, 17)?,
            secrets: None,
            checksum: get(row, 18)?,
            user_filesize: size(row, 19)?,
            activity: get(row, 20)?,
            selection_strategy: get(row, 21)?,
            scitag: get::<Option<i32>>(row, 22)?.map(|scitag| scitag as u32),
            metadata: raw(row, 23)?,
            staging_metadata: raw(row, 24)?,
            archive_metadata: raw(row, 25)?,
            source_token: hash(row, 26)?,
            destination_token: hash(row, 27)?,
        },
        job: get(row, 1)?,
        state: FileState::from_code(i64::from(get::<i16>(row, 3)?)),
        attempts: get::<i32>(row, 4)? as u32,
        first_started: get(row, 28)?,
        started: get(row, 5)?,
        finished: get(row, 6)?,
        stopping: get(row, 29)?,
        claim,
        moved_total: get::<i64>(row, 32)? as u64,
        tape: TapeTimes {
            staging_start: get(row, 34)?,
            staging_finished: get(row, 35)?,
            archive_start: get(row, 36)?,
            archive_finished: get(row, 37)?,
            request: get(row, 38)?,
        },
        result: FileResult {
            filesize: size(row, 7)?,
            bytes_moved: get::<i64>(row, 8)? as u64,
            counted: size(row, 40)?,
            first_byte_ms: size(row, 41)?,
            waits: meaning(get(row, 42)?, Waits::parse).map(Box::new),
            mode: get(row, 9)?,
            reason: get(row, 10)?,
            class: meaning(get(row, 11)?, ErrorClass::parse),
            party: meaning(get(row, 12)?, Party::parse),
            phase: meaning(get(row, 13)?, Phase::parse),
            remedy: get(row, 14)?,
            recoverable: get(row, 15)?,
            host: get(row, 39)?,
        },
    })
}

pub(super) fn live(row: &Row) -> Result<Live, StoreError> {
    Ok(Live {
        file: get::<i64>(row, 0)? as u64,
        source: surl(row, 1)?,
        destination: surl(row, 2)?,
        activity: get(row, 3)?,
        size: size(row, 4)?,
        attempts: get::<i32>(row, 5)? as u32,
        running: get(row, 6)?,
        stopping: get(row, 7)?,
        state: FileState::from_code(i64::from(get::<i16>(row, 13)?)),
        follow_up: FollowUp {
            not_before: get(row, 8)?,
            failures: get::<i16>(row, 9)? as u8,
            free_retries: get::<i16>(row, 10)? as u8,
            resume: get(row, 11)?,
        },
    })
}

/// Of `file_id, attempt, ended, reason`.
pub(super) fn retry(row: &Row) -> Result<Retry, StoreError> {
    Ok(Retry {
        file: get::<i64>(row, 0)? as u64,
        attempt: get::<i32>(row, 1)? as u32,
        at: get(row, 2)?,
        reason: get(row, 3)?,
    })
}
