//! Out of the tables of the present, into history; and out of history. On a session of its own, beside the writer's.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    decode::get,
    read::{files_between, retries_between},
};
use weir_service::time::Millis;

use crate::store::{
    StoreError,
    packed::{PACK_MAX, pack},
};
use weir_store::postgres::Session;

/// A commit of history may be lost in a crash of the database: its rows are then moved again. It never waits for the
/// disk.
const BEGIN: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// A job that ended: its number, which is its first file, and its last file.
struct EndedJob {
    number: i64,
    last: i64,
}

/// See [`crate::store::Store::archive`].
pub(super) fn archive(
    session: &mut Session,
    damaged: &mut BTreeSet<i64>,
    before: Millis,
    files_max: usize,
) -> Result<usize, StoreError> {
    session.transaction(BEGIN, |session| {
        let mut moved = Moved::default();
        let limit = (files_max + damaged.len()) as i64;
        for job in due(session, before, limit)? {
            if moved.n >= files_max {
                break;
            }
            if damaged.contains(&job.number) {
                continue;
            }
            match moved.take(session, &job, files_max) {
                Ok(()) => {}
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
        moved.write(session)?;
        Ok(moved.n)
    })
}

fn due(session: &mut Session, before: Millis, limit: i64) -> Result<Vec<EndedJob>, StoreError> {
    let text = "SELECT job_no, n_files FROM jobs WHERE finished <= $1 ORDER BY finished, job_no LIMIT $2";
    let ended = |row: &tokio_postgres::Row| {
        let (number, files): (i64, i64) = (get(row, 0)?, get(row, 1)?);
        Ok(EndedJob {
            number,
            last: number + files - 1,
        })
    };
    session.query(text, &[&before, &limit])?.iter().map(ended).collect()
}

/// The rows of one step: read job by job, written together.
#[derive(Default)]
struct Moved {
    n: usize,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    packs: Vec<String>,
    jobs: Vec<i64>,
}

impl Moved {
    fn take(&mut self, session: &mut Session, job: &EndedJob, files_max: usize) -> Result<(), StoreError> {
        let mut first = job.number;
        while self.n < files_max {
            let limit = PACK_MAX.min(files_max - self.n);
            let files = files_between(session, first, job.last, limit as i64)?;
            let (Some(from), Some(to)) = (files.first(), files.last()) else {
                self.jobs.push(job.number);
                self.n += 1;
                return Ok(());
            };
            let (from, to) = (from.spec.id as i64, to.spec.id as i64);
            let retries = retries_between(session, from, to)?;
            self.n += files.len();
            self.packs.push(pack(files, retries)?);
            self.firsts.push(from);
            self.lasts.push(to);
            first = to + 1;
        }
        Ok(())
    }

    fn write(&self, session: &mut Session) -> Result<(), StoreError> {
        if !self.firsts.is_empty() {
            let ranges = "unnest($1::bigint[], $2::bigint[]) AS d (first, last)";
            session.execute(
                "INSERT INTO history_files SELECT * FROM unnest($1::bigint[], $2::text[])",
                &[&self.firsts, &self.packs],
            )?;
            let text = format!("DELETE FROM attempts USING {ranges} WHERE file_id BETWEEN d.first AND d.last");
            session.execute(&text, &[&self.firsts, &self.lasts])?;
            for table in ["tape", "urls", "destinations"] {
                let text = format!("DELETE FROM {table} USING {ranges} WHERE file_id BETWEEN d.first AND d.last");
                session.execute(&text, &[&self.firsts, &self.lasts])?;
            }
            let text = format!(
                "DELETE FROM files USING {ranges} WHERE file_id BETWEEN d.first AND d.last RETURNING src_token, dst_token"
            );
            let mut tokens = BTreeMap::<i64, i64>::new();
            for row in session.query(&text, &[&self.firsts, &self.lasts])? {
                for column in 0..2 {
                    if let Some(token) = get::<Option<i64>>(&row, column)? {
                        *tokens.entry(token).or_default() += 1;
                    }
                }
            }
            release(session, &tokens)?;
        }
        if !self.jobs.is_empty() {
            session.execute(
                "WITH moved AS (DELETE FROM jobs WHERE job_no = ANY ($1) RETURNING *) INSERT INTO history SELECT * FROM moved",
                &[&self.jobs],
            )?;
        }
        Ok(())
    }
}

/// Last of all: the writer may wait for these rows.
fn release(session: &mut Session, tokens: &BTreeMap<i64, i64>) -> Result<(), StoreError> {
    let numbers = tokens.keys().copied().collect::<Vec<_>>();
    let files = tokens.values().copied().collect::<Vec<_>>();
    session.query(
        "SELECT 1 FROM tokens WHERE token_no = ANY ($1) ORDER BY hash FOR UPDATE",
        &[&numbers],
    )?;
    session.execute(
        "UPDATE tokens SET n_refs = n_refs - d.files FROM unnest($1::bigint[], $2::bigint[]) AS d (token_no, files)
         WHERE tokens.token_no = d.token_no",
        &[&numbers, &files],
    )?;
    session.execute(
        "DELETE FROM tokens WHERE token_no = ANY ($1) AND n_refs <= 0",
        &[&numbers],
    )?;
    // A statement of its own: it sees files that came for a token while the previous statement waited for its row.
    session.execute(
        "DELETE FROM renewals r WHERE token_no = ANY ($1)
         AND NOT EXISTS (SELECT 1 FROM tokens t WHERE t.token_no = r.token_no)",
        &[&numbers],
    )?;
    Ok(())
}

/// See [`crate::store::Store::forget`].
pub(super) fn forget(session: &mut Session, before: Millis, files_max: usize) -> Result<usize, StoreError> {
    session.transaction(BEGIN, |session| {
        let rows = session.query(
            "WITH due AS (SELECT job_no, finished, n_files FROM history WHERE finished <= $1 ORDER BY finished, job_no LIMIT $2),
             summed AS (SELECT job_no, sum(n_files) OVER (ORDER BY finished, job_no) - n_files AS before FROM due)
             DELETE FROM history USING summed WHERE history.job_no = summed.job_no AND summed.before < $2
             RETURNING history.job_no, history.job_no + n_files - 1, n_files",
            &[&before, &(files_max as i64)],
        )?;
        let column = |n: usize| rows.iter().map(|row| get::<i64>(row, n)).collect::<Result<Vec<_>, _>>();
        session.execute(
            "DELETE FROM history_files USING unnest($1::bigint[], $2::bigint[]) AS d (first, last)
             WHERE first_file BETWEEN d.first AND d.last",
            &[&column(0)?, &column(1)?],
        )?;
        Ok(column(2)?.iter().sum::<i64>() as usize)
    })
}
