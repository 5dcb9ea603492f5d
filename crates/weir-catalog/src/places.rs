//! Files at RSEs, with their replicas, requests and locks. Every change of the state of a lock is made here, together with the counters of
//! the rules that hold it.

use std::collections::{BTreeMap, BTreeSet};

use weir_database::{Row, Session, Value, values};
use weir_model::catalog::LockState;
use weir_rules::{
    ids::{DidId, RseId, RuleId},
    place::{Place, Request},
};
use weir_store::StoreError;
use weir_units::Timestamp;

use weir_service::time::Millis;

use crate::rses::rse_id;

/// A file at an RSE.
pub type At = (DidId, RseId);

/// The terms of new requests.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The activity of the rule.
    pub activity: &'a str,
    /// Its priority, from 1 to 5.
    pub priority: u32,
    /// Its account.
    pub account: &'a str,
}

impl Terms<'static> {
    /// For changes without a new request: a request that waits again keeps its terms.
    pub const NONE: Self = Self {
        activity: "",
        priority: 3,
        account: "",
    };
}

/// Reads places, and keeps them from other transactions until the end of this one. `all` is sorted.
///
/// # Errors
/// The database fails, or a row cannot be read.
pub fn read(session: &mut dyn Session, all: &[At]) -> Result<BTreeMap<At, Place>, StoreError> {
    let text =
        "SELECT p.did_id, p.rse_id, p.state, p.n_locks, p.tombstone, q.state, q.n_failures, q.cancel, q.not_before
        FROM replicas p LEFT JOIN requests q ON q.did_id = p.did_id AND q.rse_id = p.rse_id
        WHERE p.did_id = $1 AND p.rse_id = $2 FOR UPDATE OF p";
    let rows = session.query_many(text, &keys(all))?;
    rows.iter().map(|row| Ok((at(row)?, place(row)?))).collect()
}

/// Places as values of a statement: file and RSE.
pub(crate) fn keys(all: &[At]) -> Vec<Vec<Value>> {
    all.iter().map(|(file, rse)| values![file.0, rse.0].to_vec()).collect()
}

pub(crate) fn at(row: &Row) -> Result<At, StoreError> {
    Ok((DidId(row.size(0)?), rse_id(row, 1)?))
}

fn place(row: &Row) -> Result<Place, StoreError> {
    let request = |row: &Row, column| {
        Ok(Request {
            state: row.parsed(column)?,
            n_failures: row.size(column + 1)? as u32,
            cancel: row.bool(column + 2)?,
            not_before: timestamp(row.int(column + 3)?),
        })
    };
    Ok(Place {
        replica: row.parsed(2)?,
        n_locks: row.size(3)?,
        tombstone: row.optional(4, Row::int)?.map(timestamp),
        request: row.optional(5, request)?,
    })
}

/// A time of the rules, from one of the database.
pub fn timestamp(at: Millis) -> Timestamp {
    Timestamp(u64::try_from(at).unwrap_or_default().saturating_mul(1_000_000))
}

/// The same the other way round.
pub fn millis(at: Timestamp) -> Millis {
    i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX)
}

/// Makes places for files of these sizes, all alike, where there are none yet; returns the new ones. Existing ones are
/// to be read.
///
/// # Errors
/// The database fails.
pub fn make(
    session: &mut dyn Session,
    files: &[(At, u64)],
    place: Place,
    terms: Terms<'_>,
    now: Millis,
) -> Result<BTreeSet<At>, StoreError> {
    let text = "INSERT INTO replicas (did_id, rse_id, bytes, state, n_locks, created, updated) VALUES ($1, $2, $3, $4, $5, $6, $6)
        ON CONFLICT (did_id, rse_id) DO NOTHING RETURNING did_id, rse_id";
    let (state, n_locks) = (place.replica.letter(), place.n_locks);
    let row = |((file, rse), bytes): &(At, u64)| values![file.0, rse.0, *bytes, state, n_locks, now].to_vec();
    let rows = session.query_many(text, &files.iter().map(row).collect::<Vec<_>>())?;
    let made = rows.iter().map(at).collect::<Result<BTreeSet<_>, _>>()?;
    if let Some(request) = place.request {
        let rows = made.iter().map(|at| new_request(*at, request, terms, now));
        session.execute_later(REQUEST, rows.collect())?;
    }
    Ok(made)
}

const REQUEST: &str =
    "INSERT INTO requests (did_id, rse_id, state, n_failures, cancel, not_before, created, updated, attempt, activity,
    priority, account) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 1, $8, $9, $10)";

/// The values of [`REQUEST`].
fn new_request((file, rse): At, request: Request, terms: Terms<'_>, now: Millis) -> Vec<Value> {
    let (n_failures, not_before) = (u64::from(request.n_failures), millis(request.not_before));
    values![
        file.0,
        rse.0,
        request.state.letter(),
        n_failures,
        request.cancel,
        not_before,
        now,
        terms.activity,
        terms.priority,
        terms.account
    ]
    .to_vec()
}

/// A place that changes.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// The file and the RSE.
    pub at: At,
    /// The place before.
    pub before: Place,
    /// The place after; `None`: its row goes.
    pub after: Option<Place>,
}

/// Writes places that [`read`] gave. The counters of rules that hold them change with the states of their locks; the caller counts locks that
/// come and go.
///
/// # Errors
/// The database fails.
pub fn write(session: &mut dyn Session, changes: &[Change], terms: Terms<'_>, now: Millis) -> Result<(), StoreError> {
    replicas(session, changes, now)?;
    requests(session, changes, terms, now)?;
    counters(session, changes, now)
}

fn replicas(session: &mut dyn Session, changes: &[Change], now: Millis) -> Result<(), StoreError> {
    let (mut updated, mut removed) = (Vec::new(), Vec::new());
    for Change {
        at: (file, rse),
        before,
        after,
    } in changes
    {
        let key = values![file.0, rse.0];
        match after {
            None => removed.push(key.to_vec()),
            Some(after) => {
                let parts = |place: &Place| (place.replica, place.n_locks, place.tombstone);
                if parts(after) != parts(before) {
                    let (state, tombstone) = (after.replica.letter(), after.tombstone.map(millis));
                    let rest = values![state, after.n_locks, tombstone, now];
                    updated.push(key.into_iter().chain(rest).collect());
                }
            }
        }
    }
    let text =
        "UPDATE replicas SET state = $3, n_locks = $4, tombstone = $5, updated = $6 WHERE did_id = $1 AND rse_id = $2";
    session.execute_later(text, updated)?;
    session.execute_later("DELETE FROM replicas WHERE did_id = $1 AND rse_id = $2", removed)
}

fn requests(session: &mut dyn Session, changes: &[Change], terms: Terms<'_>, now: Millis) -> Result<(), StoreError> {
    let (mut made, mut updated, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for Change {
        at: (file, rse),
        before,
        after,
    } in changes
    {
        let after = after.and_then(|after| after.request);
        if after == before.request {
            continue;
        }
        let key = values![file.0, rse.0];
        let Some(request) = after else {
            removed.push(key.to_vec());
            continue;
        };
        if before.request.is_none() {
            made.push(new_request((*file, *rse), request, terms, now));
        } else {
            let (state, not_before) = (request.state.letter(), millis(request.not_before));
            let about = values![state, u64::from(request.n_failures), request.cancel, not_before, now];
            let mut row = key.into_iter().chain(about).collect::<Vec<Value>>();
            // Each time that it waits again is another attempt.
            let is_again =
                request.state.letter() == 'Q' && before.request.is_none_or(|before| before.state != request.state);
            row.push(Value::from(i64::from(is_again)));
            updated.push(row);
        }
    }
    session.execute_later(REQUEST, made)?;
    let text = "UPDATE requests SET state = $3, n_failures = $4, cancel = $5, not_before = $6, updated = $7, attempt = attempt + $8,
        job = CASE WHEN $8 = 0 THEN job END, sid = CASE WHEN $8 = 0 THEN sid END, submitted = CASE WHEN $8 = 0 THEN submitted END,
        polled = CASE WHEN $8 = 0 THEN polled END, cancelled = CASE WHEN $8 = 0 THEN cancelled END, hops = CASE WHEN $8 = 0 THEN hops END,
        held = CASE WHEN $8 = 0 THEN held END
        WHERE did_id = $1 AND rse_id = $2";
    session.execute_later(text, updated)?;
    session.execute_later("DELETE FROM requests WHERE did_id = $1 AND rse_id = $2", removed)
}

/// Counts the locks of rules anew whose states changed.
fn counters(session: &mut dyn Session, changes: &[Change], now: Millis) -> Result<(), StoreError> {
    let turned = changes.iter().filter_map(|change| {
        let states = (change.before.lock_state(), change.after?.lock_state());
        (change.before.n_locks > 0 && states.0 != states.1).then_some((change.at, states))
    });
    let turned = turned.collect::<BTreeMap<At, (LockState, LockState)>>();
    let all = turned.keys().copied().collect::<Vec<_>>();
    let mut deltas = BTreeMap::<RuleId, Delta>::new();
    let text = "SELECT l.did_id, l.rse_id, l.rule_id FROM locks l WHERE l.did_id = $1 AND l.rse_id = $2";
    for row in session.query_many(text, &keys(&all))? {
        let Some((before, after)) = turned.get(&at(&row)?) else {
            continue;
        };
        let delta = deltas.entry(rule_id(&row, 2)?).or_default();
        *delta.of(*before) -= 1;
        *delta.of(*after) += 1;
    }
    for (rule, delta) in &deltas {
        count(session, *rule, *delta, now)?;
    }
    Ok(())
}

pub(crate) fn rule_id(row: &Row, column: usize) -> Result<RuleId, StoreError> {
    row.size(column).map(RuleId)
}

/// A change of the counters of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delta {
    ok: i64,
    replicating: i64,
    stuck: i64,
}

impl Delta {
    /// The counter of one state.
    pub fn of(&mut self, state: LockState) -> &mut i64 {
        match state {
            LockState::Ok => &mut self.ok,
            LockState::Replicating => &mut self.replicating,
            LockState::Stuck => &mut self.stuck,
        }
    }
}

/// Changes the counters of a rule, and its state, which follows from them ([`weir_rules::state::of_rule`]).
///
/// # Errors
/// The database fails.
pub fn count(session: &mut dyn Session, rule: RuleId, delta: Delta, now: Millis) -> Result<(), StoreError> {
    let text =
        "UPDATE rules SET n_ok = n_ok + $2, n_replicating = n_replicating + $3, n_stuck = n_stuck + $4, updated = $5
        WHERE rule_id = $1 RETURNING state, n_ok, n_replicating, n_stuck";
    let values = values![rule.0, delta.ok, delta.replicating, delta.stuck, now];
    let Some(row) = session.row(text, &values)? else {
        return Ok(());
    };
    let counts = weir_rules::state::LockCounts {
        ok: row.size(1)?,
        replicating: row.size(2)?,
        stuck: row.size(3)?,
    };
    let before = row.parsed(0)?;
    let after = weir_rules::state::of_rule(before, counts);
    if after != before {
        let text =
            "UPDATE rules SET state = $2, stuck_at = CASE WHEN $2 = 'S' THEN coalesce(stuck_at, $3) WHEN $2 = 'O' THEN NULL ELSE stuck_at END,
            error = CASE WHEN $2 = 'O' THEN NULL ELSE error END WHERE rule_id = $1";
        session.execute_later(text, vec![values![rule.0, after.letter(), now].to_vec()])?;
    }
    Ok(())
}
