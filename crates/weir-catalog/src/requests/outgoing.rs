//! Requests on their way to a transfer service, and from it.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;
use weir_database::{Row, Session, values};
use weir_model::catalog::{RequestState, RequestWait};
use weir_rules::{ids::RseId, share};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::{Attempt, attempt, uid::Tag};
use crate::places::{At, at, keys};

/// A request that is to be submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its next attempt.
    pub attempt: Attempt,
    /// Attempts that failed.
    pub n_failures: u32,
    /// Its activity.
    pub activity: String,
    /// Its priority, from 1 to 5.
    pub priority: u32,
    /// The account of the rule that made it.
    pub account: String,
    /// The chosen source of a request whose submission has begun.
    pub source: Option<RseId>,
    /// The RSEs in between, of such a request.
    pub hops: Vec<RseId>,
}

const COLUMNS: &str =
    "q.did_id, q.rse_id, q.attempt, q.request_id, q.n_failures, q.activity, q.priority, q.account, q.source, q.hops";

fn due_row(row: &Row) -> Result<Due, StoreError> {
    Ok(Due {
        attempt: attempt(row)?,
        n_failures: row.size(4)? as u32,
        activity: row.text(5)?.to_owned(),
        priority: row.size(6)? as u32,
        account: row.text(7)?.to_owned(),
        source: row.optional(8, crate::rses::rse_id)?,
        hops: row.optional(9, Row::text)?.map_or(Ok(Vec::new()), read_hops)?,
    })
}

pub(super) fn read_hops(text: &str) -> Result<Vec<RseId>, StoreError> {
    let hop = |one: &str| {
        one.parse()
            .map(RseId)
            .map_err(|_| StoreError::Unreadable(format!("{one:?} is no number of an RSE")))
    };
    text.split(',').map(hop).collect()
}

/// A rule that is not over at `$1`, and holds the place of the request `q`.
const IS_WANTED: &str = "EXISTS (SELECT 1 FROM locks l JOIN rules r ON r.rule_id = l.rule_id WHERE l.did_id = q.did_id AND l.rse_id = q.rse_id
    AND (r.expires IS NULL OR r.expires > $1 OR r.is_locked OR r.child IS NOT NULL))";

/// Requests to submit at this time, the most urgent first, at most `limit`. A request whose rules are all over is not among them: one rule that
/// is not is enough.
///
/// # Errors
/// Here and below: the database fails.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<Due>, StoreError> {
    due_beside(session, now, limit, &BTreeSet::new())
}

/// Requests of one activity into one RSE.
pub(super) type Stream = (RseId, String);

/// The same without the requests of these streams.
fn due_beside(
    session: &mut dyn Session,
    now: Millis,
    limit: usize,
    full: &BTreeSet<Stream>,
) -> Result<Vec<Due>, StoreError> {
    let mut values = values![now, limit as u64].to_vec();
    let pair = |(rse, activity): &Stream| {
        let at = values.len() + 1;
        values.extend(values![rse.0, activity.as_str()]);
        format!("(CAST(${at} AS BIGINT), ${})", at + 1)
    };
    // One list: a chain of conditions would be as deep as the streams are many, and SQLite takes 1,000.
    let pairs = full.iter().map(pair).collect::<Vec<_>>().join(", ");
    let beside = if pairs.is_empty() {
        String::new()
    } else {
        format!(" AND (q.rse_id, q.activity) NOT IN (VALUES {pairs})")
    };
    let text = format!(
        "SELECT {COLUMNS} FROM requests q WHERE q.state = 'Q' AND q.not_before <= $1 AND NOT q.cancel{beside} AND {IS_WANTED}
         ORDER BY q.priority DESC, q.request_id LIMIT $2"
    );
    session.query(&text, &values)?.iter().map(due_row).collect()
}

/// Requests to submit while transfer services have at most `most`, at most `limit`; whether there may be more. The most urgent come first, as far as
/// their streams leave room to others ([`share::room`]).
pub fn next(session: &mut dyn Session, now: Millis, limit: usize, most: u64) -> Result<(Vec<Due>, bool), StoreError> {
    let mut out = in_flight(session)?;
    let mut all = out.values().sum::<u64>();
    let limit = usize::try_from(most.saturating_sub(all))
        .unwrap_or(usize::MAX)
        .min(limit);
    if limit == 0 {
        return Ok((Vec::new(), false));
    }
    let is_full = |(stream, own): (&Stream, &u64)| (share::room(*own, all, most) == 0).then(|| stream.clone());
    let mut full = out.iter().filter_map(is_full).collect::<BTreeSet<_>>();
    let (mut taken, mut known) = (Vec::new(), BTreeSet::new());
    loop {
        let due = due_beside(session, now, limit, &full)?;
        let (n_due, n_full) = (due.len(), full.len());
        for one in due {
            let stream = (one.attempt.at.1, one.activity.clone());
            let own = out.entry(stream.clone()).or_default();
            if known.contains(&one.attempt.request) {
                continue;
            }
            if share::room(*own, all, most) == 0 {
                full.insert(stream);
                continue;
            }
            *own += 1;
            all += 1;
            known.insert(one.attempt.request);
            taken.push(one);
        }
        // Due requests may stand behind those of a stream that is full now.
        if full.len() == n_full || n_due < limit {
            taken.truncate(limit);
            return Ok((taken, n_due == limit));
        }
    }
}

/// Requests that transfer services have, or are being handed, by stream.
pub(super) fn in_flight(session: &mut dyn Session) -> Result<BTreeMap<Stream, u64>, StoreError> {
    let text = "SELECT rse_id, activity, count(*) FROM requests WHERE state IN ('G', 'S') GROUP BY rse_id, activity";
    let stream = |row: &Row| Ok(((crate::rses::rse_id(row, 0)?, row.text(1)?.to_owned()), row.size(2)?));
    session.query(text, &[])?.iter().map(stream).collect()
}

/// Requests that become one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The URL of the transfer service.
    pub service: String,
    /// The attempts, with the choices for each.
    pub members: Vec<Member>,
}

/// A request of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The attempt.
    pub attempt: Attempt,
    /// The source.
    pub source: RseId,
    /// The RSEs in between, in order; none of a direct link.
    pub hops: Vec<RseId>,
    /// The path at the destination, where that does not follow from the DID.
    pub path: Option<String>,
}

/// A job that is to be submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The URL of the transfer service.
    pub service: String,
    /// The name from which its id is derived.
    pub sid: String,
    /// Its id.
    pub id: Uuid,
}

/// Marks the attempts of a group: their submission is under way. Attempts that changed meanwhile stay as they are;
/// returns the job and the others, or `None` if there are none. The id of the job is derived from the first of them, in
/// the `namespace` of the transfer service.
pub fn submitting(
    session: &mut dyn Session,
    group: &Group,
    (tag, namespace): (Tag, Uuid),
    now: Millis,
) -> Result<Option<(Job, Vec<Attempt>)>, StoreError> {
    let text = "UPDATE requests SET state = 'G', source = $3, service = $4, updated = $5, hops = $6 WHERE request_id = $1 AND attempt = $2
        AND state = 'Q' AND NOT cancel";
    let sources = available(session, &group.members)?;
    let mut marked = Vec::new();
    for one in &group.members {
        if !sources.contains(&(one.attempt.at.0, one.source)) || !take_path(session, one)? {
            continue;
        }
        let (request, number) = (one.attempt.request.0, one.attempt.number);
        let hops = one
            .hops
            .iter()
            .map(|hop| hop.0.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let hops = Some(hops).filter(|hops| !hops.is_empty());
        let values = values![request, number, one.source.0, group.service.as_str(), now, hops];
        if session.execute(text, &values)? == 1 {
            marked.push(one);
        }
    }
    let Some(first) = marked.first() else { return Ok(None) };
    let sid = tag.uid(first.attempt.request, first.attempt.number);
    let id = Uuid::new_v5(&namespace, sid.as_bytes());
    let text = "UPDATE requests SET sid = $3, job = $4 WHERE request_id = $1 AND attempt = $2";
    let row = |one: &&Member| values![one.attempt.request.0, one.attempt.number, sid.as_str(), id.to_string()].to_vec();
    session.execute_many(text, &marked.iter().map(row).collect::<Vec<_>>())?;
    leave_traces(session, &marked, now)?;
    let service = group.service.clone();
    Ok(Some((
        Job { service, sid, id },
        marked.iter().map(|one| one.attempt).collect(),
    )))
}

/// Gives the file its path at the destination, where that does not follow from the DID. Another file may have come to have that path.
fn take_path(session: &mut dyn Session, one: &Member) -> Result<bool, StoreError> {
    let Some(path) = one.path.as_deref() else {
        return Ok(true);
    };
    let text = "UPDATE replicas SET path = $3 WHERE did_id = $1 AND rse_id = $2
        AND NOT EXISTS (SELECT 1 FROM replicas o WHERE o.rse_id = $2 AND o.path = $3 AND o.did_id <> $1)";
    Ok(session.execute(text, &values![one.attempt.at.0.0, one.attempt.at.1.0, path])? == 1)
}

/// Files that hop over an RSE are known there, without a lock: [`super::ended`] has them deleted.
fn leave_traces(session: &mut dyn Session, members: &[&Member], now: Millis) -> Result<(), StoreError> {
    let text = "INSERT INTO replicas (did_id, rse_id, bytes, state, n_locks, created, updated) SELECT d.did_id, CAST($2 AS BIGINT), d.bytes,
        'C', 0, CAST($3 AS BIGINT), CAST($3 AS BIGINT) FROM dids d WHERE d.did_id = $1 ON CONFLICT (did_id, rse_id) DO NOTHING";
    let of = |one: &&Member| {
        let file = one.attempt.at.0;
        one.hops
            .iter()
            .map(move |hop| values![file.0, hop.0, now].to_vec())
            .collect::<Vec<_>>()
    };
    let rows = members.iter().flat_map(of).collect::<Vec<_>>();
    session.execute_many(text, &rows).map(drop)
}

/// The sources that are still there. None of them is marked for deletion before the end of this transaction.
fn available(session: &mut dyn Session, members: &[Member]) -> Result<BTreeSet<At>, StoreError> {
    let sources = members
        .iter()
        .map(|one| (one.attempt.at.0, one.source))
        .collect::<BTreeSet<_>>();
    let text = "SELECT p.did_id, p.rse_id FROM replicas p WHERE p.did_id = $1 AND p.rse_id = $2 AND p.state = 'A' FOR UPDATE OF p";
    let rows = session.query_many(text, &keys(&sources.into_iter().collect::<Vec<_>>()))?;
    rows.iter().map(at).collect()
}

/// Jobs whose submission began and was not recorded, such as those of a process that died, with their requests: they
/// are submitted again, as the same jobs. At most `limit` requests, and no partial job.
pub fn half_submitted(session: &mut dyn Session, limit: usize) -> Result<Vec<(Job, Vec<Due>)>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS}, q.service, q.sid, q.job FROM requests q WHERE q.state = 'G' AND q.sid IN (SELECT sid FROM requests
         WHERE state = 'G' ORDER BY request_id LIMIT $1) ORDER BY q.sid, q.request_id"
    );
    let mut jobs = Vec::<(Job, Vec<Due>)>::new();
    for row in session.query(&text, &values![limit as u64])? {
        let job = Job {
            service: row.text(10)?.to_owned(),
            sid: row.text(11)?.to_owned(),
            id: row.parsed(12)?,
        };
        let due = due_row(&row)?;
        match jobs.last_mut() {
            Some((last, members)) if *last == job => members.push(due),
            _ => jobs.push((job, vec![due])),
        }
    }
    Ok(jobs)
}

/// Notes that the transfer service has a job. A job that something was told about meanwhile stays due to be asked for.
pub fn submitted(session: &mut dyn Session, job: Uuid, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE requests SET state = 'S', submitted = $2, polled = CASE WHEN polled < 0 THEN polled ELSE $2 END, updated = $2,
        reason = NULL WHERE job = $1 AND state = 'G'";
    session.execute(text, &values![job.to_string(), now]).map(drop)
}

/// Notes why the requests of a job have not gone out yet.
pub fn delayed(session: &mut dyn Session, job: Uuid, reason: &str) -> Result<(), StoreError> {
    let text = "UPDATE requests SET reason = $2 WHERE job = $1 AND state = 'G'";
    session.execute(text, &values![job.to_string(), reason]).map(drop)
}

/// Why a request does not go out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// In a word.
    pub wait: RequestWait,
    /// In a sentence.
    pub reason: String,
}

/// Puts requests off that have not gone out, with the reason for each.
pub fn put_off(session: &mut dyn Session, waits: &[(Attempt, Held)], until: Millis) -> Result<(), StoreError> {
    let text = "UPDATE requests SET not_before = $3, reason = $4, held = $5 WHERE request_id = $1 AND attempt = $2 AND state = 'Q'";
    let row = |(one, held): &(Attempt, Held)| {
        values![
            one.request.0,
            one.number,
            until,
            held.reason.as_str(),
            held.wait.letter()
        ]
        .to_vec()
    };
    session
        .execute_many(text, &waits.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}

/// A job to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToPoll {
    /// The URL of its transfer service.
    pub service: String,
    /// Its id.
    pub job: Uuid,
    /// The column `polled` as it was read: the time of the last look in Unix milliseconds. It is below zero after messages about the job, and
    /// each of these takes one away ([`to_poll_now`]).
    pub mark: i64,
}

/// Jobs to poll: not polled since this time, the longest first.
pub fn to_poll(session: &mut dyn Session, before: Millis, limit: usize) -> Result<Vec<ToPoll>, StoreError> {
    let text =
        "SELECT service, job, min(coalesce(polled, 0)) FROM requests WHERE state = 'S' AND coalesce(polled, 0) < $1
        GROUP BY service, job ORDER BY 3, 2 LIMIT $2";
    let rows = session.query(text, &values![before, limit as u64])?;
    let job = |row: &Row| {
        Ok(ToPoll {
            service: row.text(0)?.to_owned(),
            job: row.parsed(1)?,
            mark: row.int(2)?,
        })
    };
    rows.iter().map(job).collect()
}

/// An attempt that a job carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The attempt.
    pub attempt: Attempt,
    /// Whether the transfer service was told to cancel it.
    pub is_cancelled: bool,
}

/// The attempts that a job carries.
pub fn of_job(session: &mut dyn Session, job: Uuid) -> Result<Vec<Carried>, StoreError> {
    let text = "SELECT did_id, rse_id, attempt, request_id, cancelled IS NOT NULL FROM requests WHERE job = $1 AND state IN ('G', 'S')
        ORDER BY request_id";
    let carried = |row: &Row| {
        Ok(Carried {
            attempt: attempt(row)?,
            is_cancelled: row.bool(4)?,
        })
    };
    let rows = session.query(text, &values![job.to_string()])?;
    rows.iter().map(carried).collect()
}

/// Notes that jobs were asked for. A message after the mark of its job was read may be missing in the answer: the job stays due.
pub fn polled(session: &mut dyn Session, jobs: &[ToPoll], now: Millis) -> Result<(), StoreError> {
    let row = |one: &ToPoll| values![one.job.to_string(), now, one.mark].to_vec();
    let text = "UPDATE requests SET polled = $2 WHERE job = $1 AND coalesce(polled, 0) >= $3";
    session
        .execute_many(text, &jobs.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}

/// Has jobs asked for at once: something was told about them. The service may tell before its answer to the submission is recorded, and while
/// the job is asked for. Each message lowers the mark of the job: [`submitted`] and [`polled`] see that there was one.
pub fn to_poll_now(session: &mut dyn Session, jobs: &[Uuid]) -> Result<(), StoreError> {
    let row = |job: &Uuid| values![job.to_string()].to_vec();
    let text = "UPDATE requests SET polled = CASE WHEN polled < 0 THEN polled - 1 ELSE -1 END WHERE job = $1 AND state IN ('G', 'S')";
    session
        .execute_many(text, &jobs.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}

/// A request that no rule wants any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwanted {
    /// Its attempt.
    pub attempt: Attempt,
    /// Whether it went out.
    pub state: RequestState,
    /// The transfer service and the job that has it.
    pub job: Option<(String, Uuid)>,
}

/// Requests that no rule wants any more, and whose cancellation was not sent since this time. Requests that were not
/// submitted are dropped with [`super::ended`].
pub fn to_cancel(session: &mut dyn Session, before: Millis, limit: usize) -> Result<Vec<Unwanted>, StoreError> {
    let text = "SELECT did_id, rse_id, attempt, request_id, state, service, job FROM requests WHERE cancel AND state IN ('Q', 'S')
        AND coalesce(cancelled, 0) < $1 ORDER BY request_id LIMIT $2";
    let rows = session.query(text, &values![before, limit as u64])?;
    let unwanted = |row: &Row| {
        let state = row.parsed(4)?;
        let job = match state {
            RequestState::Queued => None,
            _ => Some((row.text(5)?.to_owned(), row.parsed(6)?)),
        };
        Ok(Unwanted {
            attempt: attempt(row)?,
            state,
            job,
        })
    };
    rows.iter().map(unwanted).collect()
}

/// Notes that the transfer service was told to cancel these.
pub fn cancelled(session: &mut dyn Session, attempts: &[Attempt], now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE requests SET cancelled = $3, polled = NULL WHERE request_id = $1 AND attempt = $2";
    let row = |one: &Attempt| values![one.request.0, one.number, now].to_vec();
    session
        .execute_many(text, &attempts.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}
