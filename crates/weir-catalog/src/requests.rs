//! Requests: each brings one file to one RSE. The submitter takes those that are due, marks them before and after it hands them to a transfer
//! service, and tells how they ended.

use std::collections::{BTreeMap, BTreeSet};

use weir_model::catalog::{ReplicaState, RequestState};
use weir_rules::{
    deletion::{Goal, Replica, choose},
    ids::{DidId, RequestId, RseId},
    place::{End, Place},
};
use weir_store::StoreError;
use weir_units::Bytes;

use weir_service::time::Millis;

use crate::{
    database::{Row, Session, values},
    places::{self, At, Change, Terms, timestamp},
    rses::rse_id,
};

/// An attempt of a request. The id of its job is derived from request and number, so that a repeated submission is the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The request. A file that goes to the same RSE once more has another one.
    pub request: RequestId,
    /// The file and the RSE that it goes to.
    pub at: At,
    /// The number of the attempt, from 1.
    pub number: u64,
}

/// A request that is to be submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its next attempt.
    pub attempt: Attempt,
    /// Its activity.
    pub activity: String,
    /// Its priority, from 1 to 5.
    pub priority: u32,
    /// The account of the rule that made it.
    pub account: String,
}

/// A rule that is not over at `$1`, and holds the place of the request `q`.
const IS_WANTED: &str = "EXISTS (SELECT 1 FROM locks l JOIN rules r ON r.rule_id = l.rule_id WHERE l.did_id = q.did_id AND l.rse_id = q.rse_id
    AND (r.expires IS NULL OR r.expires > $1 OR r.is_locked OR r.child IS NOT NULL))";

/// Requests to submit at this time, the most urgent first, at most `limit`. A request whose rules are all over is not among them: one rule that
/// is not is enough.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<Due>, StoreError> {
    let text = format!(
        "SELECT q.did_id, q.rse_id, q.attempt, q.request_id, q.activity, q.priority, q.account FROM requests q
         WHERE q.state = 'Q' AND q.not_before <= $1 AND NOT q.cancel AND {IS_WANTED}
         ORDER BY q.priority DESC, q.request_id LIMIT $2"
    );
    let due = |row: &Row| {
        Ok(Due {
            attempt: attempt(row)?,
            activity: row.text(4)?.to_owned(),
            priority: row.size(5)? as u32,
            account: row.text(6)?.to_owned(),
        })
    };
    session
        .query(&text, &values![now, limit as u64])?
        .iter()
        .map(due)
        .collect()
}

fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        at: (DidId(row.size(0)?), rse_id(row, 1)?),
        number: row.size(2)?,
        request: RequestId(row.size(3)?),
    })
}

/// Marks attempts: their submission is under way. Those that changed meanwhile stay as they are; gives the others, which are to be submitted.
pub fn submitting(session: &mut dyn Session, attempts: &[Attempt], now: Millis) -> Result<Vec<Attempt>, StoreError> {
    let text = "UPDATE requests SET state = 'G', updated = $3 WHERE request_id = $1 AND attempt = $2 AND state = 'Q' AND NOT cancel";
    let mut marked = Vec::new();
    for one in attempts {
        if session.execute(text, &values![one.request.0, one.number, now])? == 1 {
            marked.push(*one);
        }
    }
    Ok(marked)
}

/// Attempts whose submission began and was not noted, such as those of a process that died: they are submitted again, as the same jobs.
pub fn half_submitted(session: &mut dyn Session, before: Millis, limit: usize) -> Result<Vec<Attempt>, StoreError> {
    let text = "SELECT did_id, rse_id, attempt, request_id FROM requests WHERE state = 'G' AND updated < $1 ORDER BY request_id LIMIT $2";
    let rows = session.query(text, &values![before, limit as u64])?;
    rows.iter().map(attempt).collect()
}

/// Notes that a transfer service has these attempts, in these jobs.
pub fn submitted(session: &mut dyn Session, attempts: &[(Attempt, String)], now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE requests SET state = 'S', job = $3, updated = $4 WHERE request_id = $1 AND attempt = $2 AND state = 'G'";
    let row = |(one, job): &(Attempt, String)| values![one.request.0, one.number, job.as_str(), now].to_vec();
    session
        .execute_many(text, &attempts.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}

/// Attempts that no rule wants any more, with their jobs if they have one: those that have not gone out are dropped with [`ended`].
pub fn to_cancel(
    session: &mut dyn Session,
    limit: usize,
) -> Result<Vec<(Attempt, RequestState, Option<String>)>, StoreError> {
    let text = "SELECT did_id, rse_id, attempt, request_id, state, job FROM requests WHERE cancel ORDER BY request_id LIMIT $1";
    let rows = session.query(text, &values![limit as u64])?;
    let cancelled = |row: &Row| {
        let job = row.optional(5, Row::text)?.map(str::to_owned);
        Ok((attempt(row)?, row.parsed(4)?, job))
    };
    rows.iter().map(cancelled).collect()
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The attempt.
    pub attempt: Attempt,
    /// Its end.
    pub end: End,
    /// The reason of a failure, for people.
    pub reason: Option<String>,
}

/// Applies ends of attempts, in any order and as often as they are told: an end of an older attempt changes nothing. Gives how many changed
/// something.
///
/// # Errors
/// The database fails.
pub fn ended(session: &mut dyn Session, ends: &[Ended], now: Millis) -> Result<usize, StoreError> {
    let all = ends.iter().map(|one| one.attempt.at).collect::<BTreeSet<_>>();
    // From here on nobody else changes these places: an end that is told twice at the same time is applied once.
    let before = places::read(session, &all.into_iter().collect::<Vec<_>>())?;
    let mut open = BTreeMap::new();
    for one in ends {
        if is_open(session, one.attempt, one.end)? {
            open.insert(one.attempt.at, one);
        }
    }
    let mut changes = Vec::new();
    for (at, before) in before {
        let Some(told) = open.get(&at) else { continue };
        explain(session, at, told.reason.as_deref(), now)?;
        let after = Some(before.ended(told.end, timestamp(now)));
        changes.push(Change { at, before, after });
    }
    places::write(session, &changes, NO_TERMS, now)?;
    Ok(changes.len())
}

/// An end makes no request: one that waits again keeps its terms.
const NO_TERMS: Terms<'static> = Terms {
    activity: "",
    priority: 3,
    account: "",
};

/// Whether this end may be the attempt's: it is the newest one, and went out, or is dropped before.
fn is_open(session: &mut dyn Session, attempt: Attempt, end: End) -> Result<bool, StoreError> {
    let text = "SELECT state FROM requests WHERE request_id = $1 AND attempt = $2";
    let Some(row) = session.row(text, &values![attempt.request.0, attempt.number])? else {
        return Ok(false);
    };
    let state = row.parsed::<RequestState>(0)?;
    let went_out = matches!(state, RequestState::Submitting | RequestState::Submitted);
    let never_goes_out = matches!(end, End::Cancelled | End::NoSource(_)) && state == RequestState::Queued;
    Ok(went_out || never_goes_out)
}

/// Keeps the reason of a failure: at the request, and at the rules that wait for it.
fn explain(session: &mut dyn Session, (file, rse): At, reason: Option<&str>, now: Millis) -> Result<(), StoreError> {
    let Some(reason) = reason else { return Ok(()) };
    let text = "UPDATE requests SET reason = $3 WHERE did_id = $1 AND rse_id = $2";
    session.execute(text, &values![file.0, rse.0, reason])?;
    let text = "UPDATE rules SET error = $3, updated = $4 WHERE rule_id IN (SELECT rule_id FROM locks WHERE did_id = $1 AND rse_id = $2)";
    session.execute(text, &values![file.0, rse.0, reason, now]).map(drop)
}

/// Marks the replicas of an RSE that are deleted next ([`weir_rules::deletion::choose`]), at most `limit`, so that no rule takes them for
/// available; [`deleted`] is called once their files are gone. Replicas with a request are not among them.
///
/// # Errors
/// The database fails.
pub fn mark_deleted(
    session: &mut dyn Session,
    rse: RseId,
    goal: Goal,
    now: Millis,
    limit: usize,
) -> Result<Vec<DidId>, StoreError> {
    let text = "SELECT p.did_id, p.bytes, p.n_locks, p.tombstone, EXISTS (SELECT 1 FROM requests q WHERE q.did_id = p.did_id
        AND q.source = p.rse_id) FROM replicas p WHERE p.rse_id = $1 AND p.tombstone <= $2 AND p.n_locks = 0 AND p.state <> 'B'
        AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.did_id = p.did_id AND q.rse_id = p.rse_id)
        ORDER BY p.tombstone, p.did_id LIMIT $3 FOR UPDATE OF p SKIP LOCKED";
    let candidate = |row: &Row| {
        Ok(Replica {
            file: DidId(row.size(0)?),
            bytes: Bytes(row.size(1)?),
            n_locks: row.size(2)?,
            tombstone: row.optional(3, Row::int)?.map(timestamp),
            is_source: row.bool(4)?,
        })
    };
    // Some of them may be sources of transfers, which stay.
    let rows = session.query(text, &values![rse.0, now, 2 * limit as u64])?;
    let candidates = rows.iter().map(candidate).collect::<Result<Vec<_>, StoreError>>()?;
    let chosen = choose(&candidates, goal, timestamp(now), limit);
    let marked = chosen.iter().map(|at| candidates[*at].file).collect::<Vec<_>>();
    let text = "UPDATE replicas SET state = $3, updated = $4 WHERE did_id = $1 AND rse_id = $2";
    let state = ReplicaState::BeingDeleted.letter();
    let rows = marked.iter().map(|file| values![file.0, rse.0, state, now].to_vec());
    session.execute_many(text, &rows.collect::<Vec<_>>())?;
    Ok(marked)
}

/// Notes that the files of replicas that were marked are gone. Those that a rule has locked meanwhile are brought anew.
///
/// # Errors
/// The database fails.
pub fn deleted(session: &mut dyn Session, rse: RseId, files: &[DidId], now: Millis) -> Result<(), StoreError> {
    let mut all = files.iter().map(|file| (*file, rse)).collect::<Vec<_>>();
    all.sort_unstable();
    let before = places::read(session, &all)?;
    let marked = before
        .into_iter()
        .filter(|(_, place)| place.replica == ReplicaState::BeingDeleted);
    let change = |(at, before): (At, Place)| Change {
        at,
        before,
        after: before.deleted(),
    };
    places::write(session, &marked.map(change).collect::<Vec<_>>(), NO_TERMS, now)
}
