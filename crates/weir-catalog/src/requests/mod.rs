//! Requests: each brings one file to one RSE. The submitter takes due ones, marks them before and after it hands them
//! to a transfer service, and reports their ends.

mod attempt;

pub mod history;
pub mod listing;
pub mod outgoing;
pub mod slice;
pub mod uid;
pub mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use weir_database::{Row, Session, values};
use weir_model::catalog::{ReplicaState, RequestState};
use weir_rules::{
    ids::{DidId, RseId},
    place::{End, Place},
};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::places::{self, At, Change, Terms, timestamp};
use attempt::attempt;
pub use attempt::{Attempt, CopyTimes, Ended};

/// Applies ends of attempts, in any order and as often as they are told: an end of an older attempt changes nothing. Gives how many changed
/// something.
///
/// # Errors
/// The database fails.
pub fn ended(session: &mut dyn Session, ends: &[Ended], now: Millis) -> Result<usize, StoreError> {
    let all = ends.iter().map(|one| one.attempt.at).collect::<BTreeSet<_>>();
    // These places are locked from here on: an end that is reported twice at the same time is applied once.
    let before = places::read(session, &all.into_iter().collect::<Vec<_>>())?;
    let mut open = BTreeMap::new();
    for one in ends {
        if let Some(hops) = is_open(session, one.attempt, one.end)? {
            history::keep(session, one, now)?;
            pass(session, one.attempt.at.0, &hops, now)?;
            open.insert(one.attempt.at, one);
        }
    }
    let mut changes = Vec::new();
    for (at, before) in before {
        let Some(told) = open.get(&at) else { continue };
        explain(session, at, told.reason.as_deref(), now)?;
        let end = with_other_source(session, told)?;
        let after = Some(before.ended(end, timestamp(now)));
        changes.push(Change { at, before, after });
    }
    places::write(session, &changes, Terms::NONE, now)?;
    Ok(changes.len())
}

/// A failure that no repetition with the same source cures is followed by another attempt if another RSE has the file.
fn with_other_source(session: &mut dyn Session, told: &Ended) -> Result<End, StoreError> {
    let End::Failed { recoverable: false, .. } = told.end else {
        return Ok(told.end);
    };
    let text =
        "SELECT 1 FROM replicas p JOIN requests q ON q.did_id = p.did_id WHERE q.request_id = $1 AND p.state = 'A'
        AND (q.source IS NULL OR p.rse_id <> q.source) LIMIT 1";
    let other = session.row(text, &values![told.attempt.request.0])?;
    Ok(End::Failed {
        recoverable: false,
        has_other_source: other.is_some(),
    })
}

/// Deletes the file that hopped over these RSEs there, unless something else has come to want it.
fn pass(session: &mut dyn Session, file: DidId, hops: &[RseId], now: Millis) -> Result<(), StoreError> {
    let mut all = hops.iter().map(|hop| (file, *hop)).collect::<Vec<_>>();
    all.sort_unstable();
    let left = places::read(session, &all)?.into_iter();
    let left = left
        .filter(|(_, place)| place.n_locks == 0 && place.request.is_none() && place.replica == ReplicaState::Copying);
    let change = |(at, before): (At, Place)| Change {
        at,
        before,
        after: Some(before.being_deleted()),
    };
    places::write(session, &left.map(change).collect::<Vec<_>>(), Terms::NONE, now)
}

/// If this end may be the attempt's, the RSEs that the file went over. It may if the attempt is the newest one, and went out, or is dropped
/// before.
fn is_open(session: &mut dyn Session, attempt: Attempt, end: End) -> Result<Option<Vec<RseId>>, StoreError> {
    let text = "SELECT state, hops FROM requests WHERE request_id = $1 AND attempt = $2";
    let Some(row) = session.row(text, &values![attempt.request.0, attempt.number])? else {
        return Ok(None);
    };
    let state = row.parsed::<RequestState>(0)?;
    let hops = row
        .optional(1, Row::text)?
        .map_or(Ok(Vec::new()), outgoing::read_hops)?;
    let went_out = matches!(state, RequestState::Submitting | RequestState::Submitted);
    let never_goes_out = matches!(end, End::Cancelled | End::NoSource(_)) && state == RequestState::Queued;
    Ok((went_out || never_goes_out).then_some(hops))
}

/// Keeps the reason of a failure: at the request, and at the rules that wait for it.
fn explain(session: &mut dyn Session, (file, rse): At, reason: Option<&str>, now: Millis) -> Result<(), StoreError> {
    let Some(reason) = reason else { return Ok(()) };
    let text = "UPDATE requests SET reason = $3 WHERE did_id = $1 AND rse_id = $2";
    session.execute(text, &values![file.0, rse.0, reason])?;
    let text = "UPDATE rules SET error = $3, updated = $4 WHERE rule_id IN (SELECT rule_id FROM locks WHERE did_id = $1 AND rse_id = $2)";
    session.execute(text, &values![file.0, rse.0, reason, now]).map(drop)
}
