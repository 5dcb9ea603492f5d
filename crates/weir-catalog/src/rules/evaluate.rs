//! Evaluates rules: makes missing locks, and releases superfluous ones, part by part.

use std::{collections::BTreeMap, time::Duration};

use weir_database::{Row, Session, values};
use weir_model::catalog::ReplicaState;
use weir_rules::{
    ids::{DidId, RseId, RuleId},
    place::{Place, ReleaseTerms},
};
use weir_store::StoreError;

use super::{PART, Rule, RuleTerms, arrivals, content, get_locked, placing, postpone};
use weir_service::time::Millis;

use crate::{
    accounts::limits::add_usage,
    places::{self, At, Change, Delta, Terms, rule_id, timestamp},
    refusal::Refusal,
    rses::rse_id,
};

/// The time for which a replica without locks stays as a cached copy at least.
const DELAY: Duration = Duration::ZERO;

/// Units that cannot be placed are tried again after this time, in milliseconds.
const PAUSE: Millis = 600_000;

/// The result of evaluating a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The locks of the rule are those that it should have.
    Settled,
    /// There is more to do.
    More,
    /// The rule has ended, and its row is gone.
    Gone,
}

/// Rules that are due: those to be evaluated, and those whose end has come. At most `limit`.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<RuleId>, StoreError> {
    let text = "SELECT rule_id FROM rules WHERE evaluate_at <= $1 UNION SELECT rule_id FROM rules WHERE expires <= $1
        AND evaluate_at IS NULL AND NOT is_locked AND child IS NULL ORDER BY rule_id LIMIT $2";
    let rows = session.query(text, &values![now, limit as u64])?;
    rows.iter().map(|row| rule_id(row, 0)).collect()
}

/// Marks the rules of a collection as due, and those of all collections that contain it: its content has changed.
pub fn content_changed(session: &mut dyn Session, did: DidId, now: Millis) -> Result<(), StoreError> {
    let text =
        "UPDATE rules SET evaluate_at = $2 WHERE did_id IN (WITH RECURSIVE above (id) AS (SELECT CAST($1 AS BIGINT)
        UNION SELECT c.parent FROM contents c JOIN above a ON c.child = a.id) SELECT id FROM above)";
    session.execute(text, &values![did.0, now]).map(drop)
}

/// Brings the locks of a rule nearer to their target, by one part.
///
/// Units that cannot be placed, such as datasets that were attached since, do not hold back the others. The rule has
/// the reason as its error, and is evaluated again after a pause.
///
/// # Errors
/// The database fails.
pub fn part(session: &mut dyn Session, id: RuleId, now: Millis) -> Result<Progress, StoreError> {
    let Some(rule) = get_locked(session, id)? else {
        return Ok(Progress::Gone);
    };
    if rule.lifetime(rule.child.is_some()).is_over(timestamp(now)) {
        return ending(session, &rule, now);
    }
    let (placed, shortage) = match placing::place(session, id, (rule.did, &rule.wish), true, now) {
        Ok(placed) => (placed, None),
        // Nothing was written then.
        Err(error) => match error.refusal::<Refusal>() {
            Some(refusal) => (0, Some(refusal.message.clone())),
            None => return Err(error),
        },
    };
    let grouping = rule.wish.grouping;
    if onward(session, &rule, now)? {
        return Ok(Progress::More);
    }
    let surplus = listed(session, &content::surplus(grouping), &values![id.0, rule.did.0, PART])?;
    release(session, &rule, &surplus, now)?;
    let is_full = placed as u64 == PART || surplus.len() as u64 == PART;
    let progress = complete(session, id, (rule.did, &rule.wish), is_full, now)?;
    if let (Progress::Settled, Some(reason)) = (progress, shortage) {
        postpone(session, id, &reason, now + PAUSE)?;
    }
    Ok(progress)
}

/// Makes a part of the locks on files after the last locked one; returns whether there may be more. A rule that has no
/// lock yet begins with [`complete`].
fn onward(session: &mut dyn Session, rule: &Rule, now: Millis) -> Result<bool, StoreError> {
    let last = session.row(content::LAST, &values![rule.id.0])?;
    let Some(last) = last.map_or(Ok(None), |row| row.optional(0, Row::size))? else {
        return Ok(false);
    };
    let keys = values![rule.id.0, rule.did.0, PART, last];
    let rows = session.query(&content::onward(rule.wish.grouping), &keys)?;
    let mut missing = Vec::with_capacity(rows.len());
    for row in &rows {
        if !row.bool(3)? {
            missing.push(lock_of(row)?);
        }
    }
    let delta = lock(session, (rule.id, &rule.wish), &missing, now)?;
    places::count(session, rule.id, delta, now)?;
    Ok(rows.len() as u64 == PART)
}

/// Makes locks that are missing, one part of them. `has_more`: there is more to do even if these are all.
pub(super) fn complete(
    session: &mut dyn Session,
    id: RuleId,
    (did, wish): (DidId, &RuleTerms),
    has_more: bool,
    now: Millis,
) -> Result<Progress, StoreError> {
    let missing = listed(session, &content::missing(wish.grouping), &values![id.0, did.0, PART])?;
    let has_more = has_more || missing.len() as u64 == PART;
    make(session, (id, wish), &missing, has_more, now)
}

/// Makes locks. Unless there is more to do, they are the last ones.
pub(super) fn make(
    session: &mut dyn Session,
    (id, wish): (RuleId, &RuleTerms),
    locks: &[Lock],
    has_more: bool,
    now: Millis,
) -> Result<Progress, StoreError> {
    let delta = lock(session, (id, wish), locks, now)?;
    if !has_more {
        // All locks are made: the rule's state follows from them from here on.
        let text = "UPDATE rules SET evaluate_at = NULL, state = CASE WHEN state = 'I' THEN 'O' ELSE state END WHERE rule_id = $1";
        session.execute_later(text, vec![values![id.0].to_vec()])?;
    }
    places::count(session, id, delta, now)?;
    Ok(if has_more { Progress::More } else { Progress::Settled })
}

/// The rule is over: its locks are released, and then it goes.
fn ending(session: &mut dyn Session, rule: &Rule, now: Millis) -> Result<Progress, StoreError> {
    let held = listed(session, content::HELD, &values![rule.id.0, PART])?;
    let arrived = release(session, rule, &held, now)?;
    if arrived.0 > 0 {
        arrivals::released(session, rule.id, arrived)?;
    }
    if held.len() as u64 == PART {
        return Ok(Progress::More);
    }
    arrivals::close(session, rule.id, now)?;
    session.execute("DELETE FROM rule_units WHERE rule_id = $1", &values![rule.id.0])?;
    session.execute("DELETE FROM rules WHERE rule_id = $1", &values![rule.id.0])?;
    Ok(Progress::Gone)
}

/// A lock, with the size of its file.
pub(super) type Lock = (At, u64);

fn listed(session: &mut dyn Session, text: &str, keys: &[weir_database::Value]) -> Result<Vec<Lock>, StoreError> {
    session.query(text, keys)?.iter().map(lock_of).collect()
}

fn lock_of(row: &Row) -> Result<Lock, StoreError> {
    let bytes = row.optional(2, Row::size)?.unwrap_or_default();
    Ok(((DidId(row.size(0)?), rse_id(row, 1)?), bytes))
}

fn terms(wish: &RuleTerms) -> Terms<'_> {
    Terms {
        activity: &wish.activity,
        priority: wish.priority,
        account: wish.account.as_str(),
    }
}

/// The usage of an account that some locks are, per RSE; `sign` is 1 or -1.
fn usage(locks: &[Lock], sign: i64) -> BTreeMap<RseId, (i64, i64)> {
    let mut usage = BTreeMap::<_, (i64, i64)>::new();
    for ((_, rse), bytes) in locks {
        let of = usage.entry(*rse).or_default();
        *of = (of.0 + sign * *bytes as i64, of.1 + sign);
    }
    usage
}

/// Makes locks: the change of the rule's counters.
fn lock(
    session: &mut dyn Session,
    (rule, wish): (RuleId, &RuleTerms),
    locks: &[Lock],
    now: Millis,
) -> Result<Delta, StoreError> {
    let mut delta = Delta::default();
    if locks.is_empty() {
        return Ok(delta);
    }
    // Two rules that want the same file at the same RSE meet at its place: one makes it, and the other finds it.
    let new = Place::locked(None);
    let made = places::make(session, locks, new, terms(wish), now)?;
    *delta.of(new.lock_state()) += made.len() as i64;
    let all = locks.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let known = all.iter().filter(|at| !made.contains(at)).copied();
    let before = places::read(session, &known.collect::<Vec<_>>())?;
    let change = |(at, before): (&At, &Place)| {
        let after = Place::locked(Some(*before));
        *delta.of(after.lock_state()) += 1;
        Change {
            at: *at,
            before: *before,
            after: Some(after),
        }
    };
    let changes = before.iter().map(change).collect::<Vec<_>>();
    places::write(session, &changes, terms(wish), now)?;
    let text = "INSERT INTO locks (rule_id, did_id, rse_id) VALUES ($1, $2, $3)";
    let rows = all.iter().map(|(file, rse)| values![rule.0, file.0, rse.0].to_vec());
    session.execute_later(text, rows.collect())?;
    add_usage(session, &wish.account, &usage(locks, 1))?;
    Ok(delta)
}

/// Releases locks: how many of their files have arrived, and the bytes of these.
fn release(session: &mut dyn Session, rule: &Rule, locks: &[Lock], now: Millis) -> Result<(u64, u64), StoreError> {
    if locks.is_empty() {
        return Ok((0, 0));
    }
    let all = locks.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let before = places::read(session, &all)?;
    let text = "DELETE FROM locks WHERE rule_id = $1 AND did_id = $2 AND rse_id = $3";
    let rows = all.iter().map(|(file, rse)| values![rule.id.0, file.0, rse.0].to_vec());
    session.execute_later(text, rows.collect())?;
    let on = ReleaseTerms {
        now: timestamp(now),
        purge: rule.wish.purge,
        delay: DELAY,
    };
    let mut delta = Delta::default();
    let change = |(at, before): (&At, &Place)| {
        *delta.of(before.lock_state()) -= 1;
        Change {
            at: *at,
            before: *before,
            after: Some(before.released(on)),
        }
    };
    let changes = before.iter().map(change).collect::<Vec<_>>();
    places::write(session, &changes, terms(&rule.wish), now)?;
    add_usage(session, &rule.wish.account, &usage(locks, -1))?;
    places::count(session, rule.id, delta, now)?;
    let is_there = |at: &At| {
        before
            .get(at)
            .is_some_and(|place| place.replica == ReplicaState::Available)
    };
    let arrived = locks.iter().filter(|(at, _)| is_there(at));
    Ok(arrived.fold((0, 0), |(files, bytes), (_, size)| (files + 1, bytes + size)))
}
