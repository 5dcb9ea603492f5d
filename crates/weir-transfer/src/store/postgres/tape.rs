//! Tape operations of files, as columns: one statement for each kind.

use weir_sched::Work;

use super::{
    decode::{get, surl},
    results::{RESULT_ARRAYS, RESULT_COLUMNS, RESULT_SET, Results},
    tally::Tally,
    text::text,
};
use weir_executor::{job::FileState, orders::Pin};
use weir_service::time::Millis;

use crate::store::{Change, StoreError, unreadable_pin};
use weir_store::postgres::Session;

/// Changes of different files.
pub(super) fn write(session: &mut Session, tally: &mut Tally, changes: &[&Change]) -> Result<(), StoreError> {
    if changes.is_empty() {
        return Ok(());
    }
    begin(session, changes)?;
    advance(session, tally, changes)?;
    requested(session, changes)?;
    unpinned(session, changes)
}

fn ids(files: &[u64]) -> impl Iterator<Item = i64> {
    files.iter().map(|file| *file as i64)
}

fn begin(session: &mut Session, changes: &[&Change]) -> Result<(), StoreError> {
    let (mut files, mut attempts, mut epochs, mut ats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut states = Vec::new();
    for change in changes {
        if let Change::Begin {
            file,
            work,
            attempt,
            epoch,
            at,
        } = change
        {
            files.push(*file as i64);
            attempts.push(*attempt as i32);
            epochs.push(*epoch as i64);
            ats.push(*at);
            states.push(FileState::doing(*work).code() as i16);
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    session.execute(
        "WITH d AS (SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::smallint[])
             AS d (file_id, attempt, epoch, at, state)),
         changed AS (UPDATE files SET state = d.state, attempts = d.attempt, epoch = d.epoch, not_before = 0
             FROM d WHERE files.file_id = d.file_id AND finished IS NULL RETURNING files.file_id, d.at, d.state)
         INSERT INTO tape (file_id, staging_start, archive_start)
             SELECT file_id, CASE WHEN state = 7 THEN at END, CASE WHEN state = 8 THEN at END FROM changed
         ON CONFLICT (file_id) DO UPDATE SET staging_start = coalesce(tape.staging_start, excluded.staging_start),
             archive_start = coalesce(tape.archive_start, excluded.archive_start)",
        &[&files, &attempts, &epochs, &ats, &states],
    )?;
    Ok(())
}

fn advance(session: &mut Session, tally: &mut Tally, changes: &[&Change]) -> Result<(), StoreError> {
    let (mut files, mut ats, mut states, mut results) = (Vec::new(), Vec::new(), Vec::new(), Results::default());
    for change in changes {
        if let Change::Advance { file, at, next, result } = change {
            files.push(*file as i64);
            ats.push(*at);
            states.push(FileState::waiting(*next).code() as i16);
            if let Some(result) = result {
                results.push(*file, Work::Copy, result);
            }
        }
    }
    if files.is_empty() {
        return Ok(());
    }
    let text = format!(
        "UPDATE files SET {RESULT_SET} FROM unnest({RESULT_ARRAYS}) AS d ({RESULT_COLUMNS})
         WHERE files.file_id = d.file_id AND finished IS NULL"
    );
    results.with(|columns| session.execute(&text, columns).map(|_| ()))?;
    let advanced = session.query(
        "WITH d AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[]) AS d (file_id, at, state)),
         changed AS (UPDATE files SET state = CASE WHEN stopping THEN files.state ELSE d.state END, epoch = NULL, not_before = 0
             FROM d WHERE files.file_id = d.file_id AND finished IS NULL
             RETURNING files.file_id, files.job_no, d.at, d.state),
         noted AS (INSERT INTO tape (file_id, staging_finished, archive_start)
             SELECT file_id, CASE WHEN state <> 8 THEN at END, CASE WHEN state = 8 THEN at END FROM changed
             ON CONFLICT (file_id) DO UPDATE SET staging_finished = coalesce(tape.staging_finished, excluded.staging_finished),
                 archive_start = coalesce(tape.archive_start, excluded.archive_start))
         SELECT job_no, at, state FROM changed",
        &[&files, &ats, &states],
    )?;
    for row in advanced {
        let delta = tally.delta(row.get(0), row.get(1));
        match FileState::from_code(i64::from(row.get::<_, i16>(2))).work() {
            Work::Archive => delta.archiving += 1,
            Work::Copy | Work::Stage => delta.started += 1,
        }
    }
    Ok(())
}

/// The last thing that was asked of tape has come about for these files.
pub(super) fn finished(session: &mut Session, ended: &[(i64, Work, Millis)]) -> Result<(), StoreError> {
    for (of, column) in [(Work::Stage, "staging_finished"), (Work::Archive, "archive_finished")] {
        let ended = ended.iter().filter(|(_, work, _)| *work == of);
        let (files, ats) = ended.map(|(file, _, at)| (*file, *at)).unzip::<_, _, Vec<_>, Vec<_>>();
        if files.is_empty() {
            continue;
        }
        let text = format!(
            "INSERT INTO tape (file_id, {column}) SELECT * FROM unnest($1::bigint[], $2::bigint[])
             ON CONFLICT (file_id) DO UPDATE SET {column} = excluded.{column}"
        );
        session.execute(&text, &[&files, &ats])?;
    }
    Ok(())
}

fn requested(session: &mut Session, changes: &[&Change]) -> Result<(), StoreError> {
    let (mut ids, mut requests) = (Vec::new(), Vec::new());
    for change in changes {
        if let Change::Requested { files, request } = change {
            ids.extend(self::ids(files));
            requests.resize(ids.len(), text(request));
        }
    }
    if ids.is_empty() {
        return Ok(());
    }
    session.execute(
        "INSERT INTO tape (file_id, request, pinned)
             SELECT DISTINCT ON (file_id) file_id, d.request, true FROM files JOIN unnest($1::bigint[], $2::text[]) AS d (id, request) ON file_id = d.id
         ON CONFLICT (file_id) DO UPDATE SET request = excluded.request, pinned = true",
        &[&ids, &requests],
    )?;
    Ok(())
}

fn unpinned(session: &mut Session, changes: &[&Change]) -> Result<(), StoreError> {
    let given_back = |change: &&Change| match change {
        Change::Unpinned { files } => ids(files).collect(),
        _ => Vec::new(),
    };
    let files = changes.iter().flat_map(given_back).collect::<Vec<_>>();
    if !files.is_empty() {
        let text = "UPDATE tape SET pinned = false WHERE file_id = ANY ($1)";
        session.execute(text, &[&files])?;
    }
    Ok(())
}

/// See [`crate::store::Store::pins`].
pub(super) fn pins(session: &mut Session) -> Result<Vec<Pin>, StoreError> {
    let rows = session.query(
        "SELECT t.file_id, f.finished IS NOT NULL, f.source FROM tape t JOIN files f USING (file_id) WHERE t.pinned ORDER BY 1",
        &[],
    )?;
    let mut pins = Vec::new();
    for row in &rows {
        let (file, over) = (get::<i64>(row, 0)? as u64, get(row, 1)?);
        match surl(row, 2) {
            Ok(source) => pins.push(Pin { file, source, over }),
            Err(error) => unreadable_pin(file, &error),
        }
    }
    Ok(pins)
}
