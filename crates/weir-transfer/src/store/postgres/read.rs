//! Reading.

use std::{collections::BTreeMap, pin::pin};

use futures_util::StreamExt as _;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    decode::{self, FILE, JOB, LIVE, get},
    secrets, urls,
};
use weir_executor::{
    job::{File, Job, Retry, TokenHash, job_state_code, kind_of},
    orders::{Order, proxy_name},
};

use crate::store::{
    JobFilter, LiveJob, OVERDUE_MAX, OVERDUE_PAGE, Overdue, Restored, Sealer, StoreError, Unreadable,
    packed::{self, Packed},
};
use weir_store::postgres::{PATIENCE, Session, wait};

/// Less than the patience here.
const LISTING_TIMEOUT: &str = "SET statement_timeout = '25s'";

pub(super) fn job(session: &mut Session, id: Uuid) -> Result<Option<Job>, StoreError> {
    let text =
        format!("SELECT {JOB} FROM jobs WHERE job_id = $1 UNION ALL SELECT {JOB} FROM history WHERE job_id = $1");
    session.row(&text, &[&id])?.as_ref().map(decode::job).transpose()
}

pub(super) fn jobs(session: &mut Session, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<Box<dyn ToSql + Sync>> = Vec::new();
    if filter.live_only() {
        conditions.push("finished IS NULL".to_owned());
    }
    if !filter.states.is_empty() {
        let codes = filter.states.iter().map(|state| job_state_code(*state).to_string());
        conditions.push(format!("state IN ({})", codes.collect::<Vec<_>>().join(",")));
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
            values.push(Box::new(super::text::text(value)));
            conditions.push(format!("{column} = ${}", values.len()));
        }
    }
    if let Some(since) = filter.finished_since
        && !filter.live_only()
    {
        values.push(Box::new(since));
        conditions.push(format!("finished >= ${}", values.len()));
    }
    let order = filter.limit.map_or("ORDER BY job_no".to_owned(), |limit| {
        format!("ORDER BY job_no DESC LIMIT {limit}")
    });
    let conditions = conditions.join(" AND ");
    // Each side contributes its newest rows: neither is read as a whole.
    let side = |table: &str| format!("(SELECT {JOB} FROM {table} WHERE {conditions} {order})");
    let text = if filter.live_only() {
        side("jobs")
    } else {
        format!("{} UNION ALL {} {order}", side("jobs"), side("history"))
    };
    let values = values.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    // A filter without an index may scan everything: the database must stop when the client has gone.
    session.run(LISTING_TIMEOUT)?;
    let rows = wait(session.client()?.query(&text, &values), PATIENCE)??;
    session.run("SET statement_timeout = 0")?;
    let mut jobs = Vec::with_capacity(rows.len());
    for row in &rows {
        match decode::job(row) {
            Ok(job) => jobs.push(job),
            Err(error) => {
                let row = decode::name_of_job(row);
                tracing::error!(row, %error, "a row of the store cannot be read; it is not listed");
            }
        }
    }
    Ok(jobs)
}

pub(super) fn files(session: &mut Session, job: Uuid) -> Result<Vec<File>, StoreError> {
    let range = session.row(
        "SELECT job_no, n_files FROM jobs WHERE job_id = $1 UNION ALL SELECT job_no, n_files FROM history WHERE job_id = $1",
        &[&job],
    )?;
    let Some(range) = range else { return Ok(Vec::new()) };
    let (first, n_files): (i64, i64) = (get(&range, 0)?, get(&range, 1)?);
    let last = first + n_files - 1;
    let present = files_between(session, first, last, i64::MAX)?;
    if present.len() as i64 == n_files {
        return Ok(present);
    }
    let packs = session.query(
        "SELECT files FROM history_files WHERE first_file BETWEEN $1 AND $2",
        &[&first, &last],
    )?;
    let packs = packs.iter().map(|row| get(row, 0)).collect::<Result<Vec<_>, _>>()?;
    packed::merge(present, &packs)
}

/// Files of the present with these ids, in order.
pub(super) fn files_between(session: &mut Session, first: i64, last: i64, limit: i64) -> Result<Vec<File>, StoreError> {
    let text = format!("{FILE} WHERE f.file_id BETWEEN $1 AND $2 ORDER BY f.file_id LIMIT $3");
    session
        .query(&text, &[&first, &last, &limit])?
        .iter()
        .map(decode::file)
        .collect()
}

pub(super) fn file(session: &mut Session, id: u64) -> Result<Option<File>, StoreError> {
    if let Some(file) = present_file(session, id)? {
        return Ok(Some(file));
    }
    Ok(old_file(session, id)?.map(|packed| packed.file))
}

fn present_file(session: &mut Session, id: u64) -> Result<Option<File>, StoreError> {
    let text = format!("{FILE} WHERE f.file_id = $1");
    session
        .row(&text, &[&(id as i64)])?
        .as_ref()
        .map(decode::file)
        .transpose()
}

fn old_file(session: &mut Session, id: u64) -> Result<Option<Packed>, StoreError> {
    let text = "SELECT files FROM history_files WHERE first_file <= $1 ORDER BY first_file DESC LIMIT 1";
    match session.row(text, &[&(id as i64)])? {
        Some(row) => packed::one(get(&row, 0)?, id),
        None => Ok(None),
    }
}

pub(super) fn retries(session: &mut Session, file: u64) -> Result<Vec<Retry>, StoreError> {
    let present = retries_between(session, file as i64, file as i64)?;
    if present.is_empty() && present_file(session, file)?.is_none() {
        return Ok(old_file(session, file)?
            .map(|packed| packed.retries)
            .unwrap_or_default());
    }
    Ok(present)
}

/// Attempts of these files of the present, in the order of files.
pub(super) fn retries_between(session: &mut Session, first: i64, last: i64) -> Result<Vec<Retry>, StoreError> {
    let text = "SELECT file_id, attempt, ended, reason FROM attempts WHERE file_id BETWEEN $1 AND $2 ORDER BY file_id, attempt";
    session
        .query(text, &[&first, &last])?
        .iter()
        .map(decode::retry)
        .collect()
}

/// Jobs first, by the index of expiry; then their files by range. Page by page, as many may have no waiting files.
pub(super) fn overdue(session: &mut Session, now: i64) -> Result<Vec<Overdue>, StoreError> {
    let (mut found, mut n_found, mut last) = (Vec::new(), 0, (i64::MIN, 0_i64));
    loop {
        let jobs = session.query(
            "SELECT expires, job_no, job_id, kind, job_no + n_files - 1 FROM jobs
             WHERE finished IS NULL AND expires <= $1 AND (expires, job_no) > ($2, $3) ORDER BY expires, job_no LIMIT $4",
            &[&now, &last.0, &last.1, &OVERDUE_PAGE],
        )?;
        let Some(newest) = jobs.last() else { return Ok(found) };
        last = (get(newest, 0)?, get(newest, 1)?);
        let (mut firsts, mut lasts, mut of) = (Vec::new(), Vec::new(), BTreeMap::new());
        for row in &jobs {
            let first: i64 = get(row, 1)?;
            firsts.push(first);
            lasts.push(get::<i64>(row, 4)?);
            of.insert(first, (row, Vec::new()));
        }
        // The limit inside keeps each job a look of its own: planned as a join, all files would be read.
        let files = session.query(
            "SELECT d.first, f.file_id FROM unnest($1::bigint[], $2::bigint[]) AS d (first, last) CROSS JOIN LATERAL
                 (SELECT file_id FROM files WHERE file_id BETWEEN d.first AND d.last AND finished IS NULL AND state IN (0, 6, 9)
                  AND NOT stopping ORDER BY file_id LIMIT $3) AS f LIMIT $3",
            &[&firsts, &lasts, &(OVERDUE_MAX as i64)],
        )?;
        for row in &files {
            if let Some((_, files)) = of.get_mut(&get(row, 0)?) {
                files.push(get::<i64>(row, 1)? as u64);
            }
        }
        n_found += files.len();
        for first in &firsts {
            if let Some((row, files)) = of.remove(first).filter(|(_, files)| !files.is_empty()) {
                found.push(Overdue {
                    job: get(row, 2)?,
                    kind: kind_of(get(row, 3)?),
                    files,
                });
            }
        }
        if n_found >= OVERDUE_MAX || (jobs.len() as i64) < OVERDUE_PAGE {
            return Ok(found);
        }
    }
}

pub(super) fn order(session: &mut Session, sealer: &Sealer, id: u64) -> Result<Option<Order>, StoreError> {
    let Some(mut file) = present_file(session, id)? else {
        return Ok(None);
    };
    let Some(job) = job(session, file.job)? else {
        return Ok(None);
    };
    let mut open = |hash: Option<TokenHash>| -> Result<_, StoreError> {
        let Some(hash) = hash else { return Ok(None) };
        let row = session.row("SELECT sealed FROM tokens WHERE hash = $1", &[&hash.0.as_slice()])?;
        let sealed = row.as_ref().map(|row| get::<&[u8]>(row, 0)).transpose()?;
        let token = sealed.and_then(|sealed| sealer.open(hash, sealed));
        token.map(Some).ok_or_else(|| StoreError::Sealed(hash.short()))
    };
    let source_token = open(file.spec.source_token)?;
    let destination_token = match file.spec.destination_token {
        same if same == file.spec.source_token => source_token.clone(),
        other => open(other)?,
    };
    urls::open(session, sealer, &mut file.spec)?;
    let proxy = if job.spec.moves_by_proxy(&file) {
        secrets::kept(session, sealer, &proxy_name(&job.spec.owner()))?
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

pub(super) fn settings(session: &mut Session, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
    let rows = session.query(
        "SELECT key, value FROM settings WHERE starts_with(key, $1) ORDER BY key",
        &[&prefix],
    )?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
}

/// Jobs of one page of a restore. Their files are streamed, so that no size of a job matters here.
const PAGE: i64 = 5000;

/// Page by page in the order of ids: one pass over both tables, one page of jobs and one job's files in memory at a time.
pub(super) fn restore(session: &mut Session, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
    let text = format!(
        "SELECT {JOB} FROM jobs WHERE finished IS NULL AND job_no > $1 AND job_no < $2 ORDER BY job_no LIMIT $3"
    );
    let mut after = -1_i64;
    loop {
        let rows = session.query(&text, &[&after, &(below as i64), &PAGE])?;
        let mut page = BTreeMap::new();
        let mut last = after;
        for row in &rows {
            after = get(row, 20)?;
            match decode::job(row) {
                Ok(job) => {
                    last = last.max(after + job.counts.files - 1);
                    page.insert(after, job.spec);
                }
                Err(error) => each(unreadable(decode::name_of_job(row), &error)),
            }
        }
        if let Some((first, _)) = page.first_key_value() {
            let range = (*first, last);
            stream(session, range, &mut page, each)?;
        }
        if (rows.len() as i64) < PAGE {
            return Ok(());
        }
    }
}

/// As [`restore`], for these jobs, whose numbers are in order.
pub(super) fn restore_these(
    session: &mut Session,
    jobs: &[u64],
    each: &mut dyn FnMut(Restored),
) -> Result<(), StoreError> {
    let text = format!("SELECT {JOB} FROM jobs WHERE finished IS NULL AND job_no = ANY($1) ORDER BY job_no");
    let jobs = jobs.iter().map(|job| *job as i64).collect::<Vec<_>>();
    let mut page = BTreeMap::new();
    // Neighbours are read together: nodes take ids in blocks.
    let mut ranges = Vec::<(i64, i64)>::new();
    for row in &session.query(&text, &[&jobs])? {
        let first = get(row, 20)?;
        match decode::job(row) {
            Ok(job) => {
                let last = first + job.counts.files - 1;
                match ranges.last_mut() {
                    Some(range) if range.1 + 1 == first => range.1 = last,
                    _ => ranges.push((first, last)),
                }
                page.insert(first, job.spec);
            }
            Err(error) => each(unreadable(decode::name_of_job(row), &error)),
        }
    }
    for range in ranges {
        stream(session, range, &mut page, each)?;
    }
    Ok(())
}

fn stream(
    session: &mut Session,
    (first, last): (i64, i64),
    page: &mut BTreeMap<i64, weir_executor::job::NewJob>,
    each: &mut dyn FnMut(Restored),
) -> Result<(), StoreError> {
    let text =
        format!("SELECT {LIVE} FROM files WHERE file_id BETWEEN $1 AND $2 AND finished IS NULL ORDER BY file_id");
    let statement = session.prepare(&text)?;
    let rows = wait(session.client()?.query_raw(&statement, [first, last]), PATIENCE)??;
    let mut rows = pin!(rows);
    let mut current: Option<(i64, LiveJob)> = None;
    while let Some(row) = wait(rows.next(), PATIENCE)? {
        let row = row?;
        let number: i64 = get(&row, 12)?;
        if current.as_ref().is_none_or(|(open, _)| *open != number) {
            if let Some((_, job)) = current.take() {
                each(Restored::Job(Box::new(job)));
            }
            // Of a job that could not be read, or that came later, nothing is told.
            let Some(job) = page.remove(&number) else { continue };
            let (first, files) = (number as u64, Vec::new());
            current = Some((number, LiveJob { job, first, files }));
        }
        match (decode::live(&row), &mut current) {
            (Ok(file), Some((_, job))) => job.files.push(file),
            (Ok(_), None) => {}
            (Err(error), _) => each(unreadable(format!("file {}", get::<i64>(&row, 0)?), &error)),
        }
    }
    if let Some((_, job)) = current {
        each(Restored::Job(Box::new(job)));
    }
    Ok(())
}

fn unreadable(what: String, error: &StoreError) -> Restored {
    Restored::Unreadable(Unreadable {
        what,
        reason: error.to_string(),
    })
}
