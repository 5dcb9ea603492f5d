//! Out of the tables of the present, into history; and out of history.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::read;
use weir_service::time::Millis;

use crate::store::{
    StoreError,
    packed::{PACK_MAX, pack},
};

/// A job that ended.
struct EndedJob {
    number: i64,
    first: i64,
    last: i64,
}

/// See [`crate::store::Store::archive`].
pub(super) fn archive(
    connection: &mut Connection,
    damaged: &mut BTreeSet<i64>,
    before: Millis,
    files_max: usize,
) -> Result<usize, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (mut moved, mut tokens) = (0, BTreeMap::new());
    for job in due(&transaction, before, files_max + damaged.len())? {
        if moved >= files_max {
            break;
        }
        if damaged.contains(&job.number) {
            continue;
        }
        match move_job(&transaction, &job, files_max - moved, &mut tokens) {
            Ok(n) => moved += n,
            Err(StoreError::Unreadable(reason)) => {
                tracing::error!(
                    job_no = job.number,
                    reason,
                    "a job that ended cannot be read; it stays where it is"
                );
                damaged.insert(job.number);
            }
            Err(error) => return Err(error),
        }
    }
    let mut release = transaction.prepare_cached("UPDATE tokens SET n_refs = n_refs - ?2 WHERE token_no = ?1")?;
    let mut remove = transaction.prepare_cached("DELETE FROM tokens WHERE token_no = ?1 AND n_refs <= 0")?;
    let mut forget = transaction.prepare_cached("DELETE FROM renewals WHERE token_no = ?1")?;
    for (token, files) in tokens {
        release.execute([token, files])?;
        if remove.execute([token])? > 0 {
            forget.execute([token])?;
        }
    }
    drop((release, remove, forget));
    transaction.commit()?;
    Ok(moved)
}

fn due(transaction: &Transaction<'_>, before: Millis, limit: usize) -> Result<Vec<EndedJob>, StoreError> {
    let mut statement = transaction.prepare_cached(
        "SELECT job_no, first_file, n_files FROM jobs WHERE finished <= ?1 ORDER BY finished, job_no LIMIT ?2",
    )?;
    let rows = statement.query_map(params![before, limit as i64], |row| {
        let (number, first, files): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(EndedJob {
            number,
            first,
            last: first + files - 1,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Moves some files of a job, and the job itself once it has none left. Changes nothing if a row cannot be read.
fn move_job(
    transaction: &Transaction<'_>,
    job: &EndedJob,
    files_max: usize,
    tokens: &mut BTreeMap<i64, i64>,
) -> Result<usize, StoreError> {
    let mut moved = 0;
    loop {
        let n = move_files(transaction, job, PACK_MAX.min(files_max - moved), tokens)?;
        moved += n;
        if n == 0 {
            break;
        }
        if moved >= files_max {
            return Ok(moved);
        }
    }
    transaction
        .prepare_cached("INSERT INTO history SELECT * FROM jobs WHERE job_no = ?1")?
        .execute([job.number])?;
    transaction
        .prepare_cached("DELETE FROM jobs WHERE job_no = ?1")?
        .execute([job.number])?;
    Ok(moved + 1)
}

fn move_files(
    transaction: &Transaction<'_>,
    job: &EndedJob,
    limit: usize,
    tokens: &mut BTreeMap<i64, i64>,
) -> Result<usize, StoreError> {
    let files = read::files_between(transaction, job.first, job.last, limit)?;
    let (Some(first), Some(last)) = (files.first(), files.last()) else {
        return Ok(0);
    };
    let range = [first.spec.id as i64, last.spec.id as i64];
    let retries = read::retries_between(transaction, range)?;
    let n = files.len();
    let packed = pack(files, retries)?;
    transaction
        .prepare_cached("INSERT INTO history_files VALUES (?1, ?2)")?
        .execute(params![range[0], packed])?;
    let mut remove = transaction
        .prepare_cached("DELETE FROM files WHERE file_id BETWEEN ?1 AND ?2 RETURNING src_token, dst_token")?;
    let mut rows = remove.query(range)?;
    while let Some(row) = rows.next()? {
        for column in 0..2 {
            if let Some(token) = row.get::<_, Option<i64>>(column)? {
                *tokens.entry(token).or_default() += 1;
            }
        }
    }
    transaction
        .prepare_cached("DELETE FROM attempts WHERE file_id BETWEEN ?1 AND ?2")?
        .execute(range)?;
    transaction
        .prepare_cached("DELETE FROM tape WHERE file_id BETWEEN ?1 AND ?2")?
        .execute(range)?;
    for table in ["urls", "destinations"] {
        let text = format!("DELETE FROM {table} WHERE file_id BETWEEN ?1 AND ?2");
        transaction.prepare_cached(&text)?.execute(range)?;
    }
    Ok(n)
}

/// See [`crate::store::Store::forget`]. A pack is hundreds of pages, each of which has to be freed, while the writer waits.
pub(super) fn forget(connection: &mut Connection, before: Millis, files_max: usize) -> Result<usize, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut forgotten = 0;
    while forgotten < files_max
        && let Some(job) = oldest(&transaction, before)?
    {
        forgotten += forget_some(&transaction, &job, files_max - forgotten)?;
    }
    transaction.commit()?;
    Ok(forgotten)
}

fn oldest(transaction: &Transaction<'_>, before: Millis) -> Result<Option<EndedJob>, StoreError> {
    let text = "SELECT job_no, first_file, n_files FROM history WHERE finished <= ?1 ORDER BY finished, job_no LIMIT 1";
    let job = |row: &rusqlite::Row<'_>| {
        let (number, first, files): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(EndedJob {
            number,
            first,
            last: first + files - 1,
        })
    };
    Ok(transaction.prepare_cached(text)?.query_row([before], job).optional()?)
}

/// Forgets packs of a job from its end, and the job with the first of them. Gives the number of files.
fn forget_some(transaction: &Transaction<'_>, job: &EndedJob, files_max: usize) -> Result<usize, StoreError> {
    let mut newest =
        transaction.prepare_cached("SELECT max(first_file) FROM history_files WHERE first_file BETWEEN ?1 AND ?2")?;
    let mut remove = transaction.prepare_cached("DELETE FROM history_files WHERE first_file = ?1")?;
    let (mut end, mut forgotten) = (job.last + 1, 0);
    while forgotten < files_max {
        let Some(pack) = newest.query_row([job.first, end - 1], |row| row.get::<_, Option<i64>>(0))? else {
            break;
        };
        remove.execute([pack])?;
        forgotten += (end - pack).clamp(1, PACK_MAX as i64) as usize;
        end = pack;
    }
    if newest
        .query_row([job.first, end - 1], |row| row.get::<_, Option<i64>>(0))?
        .is_none()
    {
        transaction
            .prepare_cached("DELETE FROM history WHERE job_no = ?1")?
            .execute([job.number])?;
        forgotten = forgotten.max(1);
    }
    Ok(forgotten)
}
