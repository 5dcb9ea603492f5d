//! Tape operations of files.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use weir_executor::{
    job::{FileState, TapeTimes},
    orders::Pin,
};
use weir_sched::Work;
use weir_service::time::Millis;

use super::urls::surl;
use crate::store::{StoreError, unreadable_pin};

/// Reads the five columns of a file that begin here.
pub(super) fn times(row: &Row<'_>, first: usize) -> rusqlite::Result<TapeTimes> {
    Ok(TapeTimes {
        staging_start: row.get(first)?,
        staging_finished: row.get(first + 1)?,
        archive_start: row.get(first + 2)?,
        archive_finished: row.get(first + 3)?,
        request: row.get(first + 4)?,
    })
}

/// A file is asked to be brought online, or its copy is watched; the first time counts.
pub(super) fn begin(
    transaction: &Transaction<'_>,
    file: u64,
    work: Work,
    (attempt, epoch): (u32, u64),
    at: Millis,
) -> Result<(), StoreError> {
    let changed = transaction
        .prepare_cached(
            "UPDATE files SET state = ?2, attempts = ?3, epoch = ?4, not_before = 0 WHERE file_id = ?1 AND finished IS NULL",
        )?
        .execute(params![file as i64, FileState::doing(work).code(), attempt, epoch as i64])?;
    if changed > 0 {
        let column = if work == Work::Stage {
            "staging_start"
        } else {
            "archive_start"
        };
        note(transaction, file, column, at)?;
    }
    Ok(())
}

/// The tape operation is done: the next one follows. Returns the number of the job.
pub(super) fn advance(
    transaction: &Transaction<'_>,
    file: u64,
    at: Millis,
    next: Work,
) -> Result<Option<i64>, StoreError> {
    let job_no = transaction
        .prepare_cached(
            "UPDATE files SET state = iif(stopping, state, ?2), epoch = NULL, not_before = 0
             WHERE file_id = ?1 AND finished IS NULL RETURNING job_no",
        )?
        .query_row(params![file as i64, FileState::waiting(next).code()], |row| row.get(0))
        .optional()?;
    if job_no.is_some() {
        let column = if next == Work::Archive {
            "archive_start"
        } else {
            "staging_finished"
        };
        note(transaction, file, column, at)?;
    }
    Ok(job_no)
}

/// The last thing that was asked of tape has come about.
pub(super) fn finished(transaction: &Transaction<'_>, file: u64, work: Work, at: Millis) -> Result<(), StoreError> {
    let column = if work == Work::Stage {
        "staging_finished"
    } else {
        "archive_finished"
    };
    note(transaction, file, column, at)
}

fn note(transaction: &Transaction<'_>, file: u64, column: &str, at: Millis) -> Result<(), StoreError> {
    let text = format!(
        "INSERT INTO tape (file_id, {column}) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET {column} = coalesce({column}, excluded.{column})"
    );
    transaction.prepare_cached(&text)?.execute(params![file as i64, at])?;
    Ok(())
}

pub(super) fn requested(transaction: &Transaction<'_>, files: &[u64], request: &str) -> Result<(), StoreError> {
    let mut statement = transaction.prepare_cached(
        "INSERT INTO tape (file_id, request, pinned) SELECT ?1, ?2, 1 FROM files WHERE file_id = ?1
         ON CONFLICT DO UPDATE SET request = excluded.request, pinned = 1",
    )?;
    for file in files {
        statement.execute(params![*file as i64, request])?;
    }
    Ok(())
}

pub(super) fn unpinned(transaction: &Transaction<'_>, files: &[u64]) -> Result<(), StoreError> {
    let mut statement = transaction.prepare_cached("UPDATE tape SET pinned = 0 WHERE file_id = ?1")?;
    for file in files {
        statement.execute([*file as i64])?;
    }
    Ok(())
}

/// See [`crate::store::Store::pins`].
pub(super) fn pins(connection: &Connection) -> Result<Vec<Pin>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.file_id, f.finished IS NOT NULL, f.source FROM tape t JOIN files f USING (file_id) WHERE t.pinned ORDER BY 1",
    )?;
    let rows = statement.query_map([], |row| {
        let file = row.get::<_, i64>(0)? as u64;
        let (over, source) = (row.get(1)?, surl(row, 2));
        Ok((file, source.map(|source| Pin { file, source, over })))
    })?;
    let mut pins = Vec::new();
    for row in rows {
        match row? {
            (_, Ok(pin)) => pins.push(pin),
            (file, Err(error)) => unreadable_pin(file, &error),
        }
    }
    Ok(pins)
}
