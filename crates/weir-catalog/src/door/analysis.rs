//! Why a rule is not OK: for clients of Rucio, and in full for people.

use axum::extract::Path;
use serde_json::{Value, json};
use weir_database::Session;
use weir_model::catalog::{LockState, ReplicaState, RuleState};
use weir_service::time;
use weir_store::StoreError;

use super::{
    State,
    answer::{Answer, date, json_answer},
    caller::Caller,
};
use crate::{
    dids, replicas,
    requests::listing::{self, ListedRequest},
    rses,
    rules::{self, Lock, Rule},
};

/// Locks of one answer, at most.
const LOCKS_MAX: usize = 1_000;

/// Attempts of one file that are shown, at most.
const ATTEMPTS_MAX: usize = 100;

/// A lock that is stuck, with all that was tried.
struct Stuck {
    lock: Lock,
    attempts: Vec<ListedRequest>,
    /// RSEs that have the file, and whether they may be read.
    sources: Vec<(String, bool)>,
}

/// `GET /rules/{id}/analysis`.
pub(crate) async fn analysis(door: State, _: Caller, Path(id): Path<String>) -> Answer {
    let read = move |session: &mut dyn Session| {
        let rule = rules::get(session, &id)?;
        let stuck = if rule.state == RuleState::Stuck {
            stuck(session, &rule)?
        } else {
            Vec::new()
        };
        Ok((rule, stuck, rses::list(session)?))
    };
    let (rule, stuck, rses) = door.database.read(read).await?;
    let error = match rule.state {
        RuleState::Ok => Some("This replication rule is OK".to_owned()),
        RuleState::Replicating => Some("This replication rule is currently REPLICATING".to_owned()),
        RuleState::Suspended => Some("This replication rule is SUSPENDED".to_owned()),
        _ => rule.error,
    };
    let name = |id| rses.iter().find(|one| one.rse.id == id).map(|one| &one.rse);
    let transfer = |one: &Stuck| {
        let (last, rse) = (one.attempts.first(), name(one.lock.rse));
        json!({
            "scope": one.lock.did.scope, "name": one.lock.did.name, "rse_id": rse.map(|rse| &rse.uid), "rse": rse.map(|rse| &rse.name),
            "attempts": one.attempts.len(), "last_error": last.map_or_else(|| "None".to_owned(), |last| last.state.to_string()),
            "last_source": last.and_then(|last| name(last.source?)).map(|rse| &rse.name), "sources": one.sources,
            "last_time": last.map(|last| date(last.created)),
        })
    };
    let transfers = stuck.iter().map(transfer).collect::<Vec<_>>();
    Ok(json_answer(&json!({ "rule_error": error, "transfers": transfers })))
}

fn stuck(session: &mut dyn Session, rule: &Rule) -> Result<Vec<Stuck>, StoreError> {
    let locks = rules::locks(session, rule.id)?;
    let mut all = Vec::new();
    for lock in locks
        .into_iter()
        .filter(|lock| lock.state == LockState::Stuck)
        .take(LOCKS_MAX)
    {
        let file = dids::get(session, &lock.did)?.id;
        let attempts = listing::history_of_place(session, (file, lock.rse), ATTEMPTS_MAX)?;
        let mut sources = Vec::new();
        for replica in replicas::of(session, &[file])? {
            if replica.state == ReplicaState::Available {
                let readable = rses::by_number(session, replica.rse)?.is_some_and(|one| one.rse.traits.can_read);
                sources.push((replica.rse_name.to_string(), readable));
            }
        }
        all.push(Stuck {
            lock,
            attempts,
            sources,
        });
    }
    Ok(all)
}

/// `GET /.well-known/weir/rules/{id}/why`: the rule, and each request that it waits for, with the reason.
pub(crate) async fn why(door: State, _: Caller, Path(id): Path<String>) -> Answer {
    let read = move |session: &mut dyn Session| {
        let rule = rules::get(session, &id)?;
        let did = dids::by_id(session, rule.did)?;
        let requests = listing::of_rule(session, rule.id, LOCKS_MAX)?;
        Ok((rule, did, requests, rses::list(session)?))
    };
    let (rule, did, requests, rses) = door.database.read(read).await?;
    let name = |id| {
        rses.iter()
            .find(|one| one.rse.id == id)
            .map(|one| one.rse.name.as_str())
    };
    let now = time::now();
    let row = |one: &ListedRequest| {
        json!({
            "id": door.tasks.tag.uid(one.request, one.number), "scope": one.did.scope, "name": one.did.name, "rse": name(one.destination),
            "source": one.source.and_then(name), "state": one.state, "attempt": one.number, "reason": one.reason,
            "service": one.job.as_ref().map(|job| &job.0), "job": one.job.as_ref().map(|job| &job.1),
            "submitted_at": one.submitted.map(date), "waits_ms": one.not_before.map(|at| (at - now).max(0)).filter(|wait| *wait > 0),
        })
    };
    let rows = requests.iter().map(row).collect::<Vec<Value>>();
    Ok(json_answer(&json!({
        "id": rule.uid, "did": did.map(|did| did.did.to_string()), "state": rule.state, "rse_expression": rule.wish.expression,
        "copies": rule.wish.copies, "error": rule.error, "expires_at": rule.wish.expires.map(date),
        "locks": { "ok": rule.counts.ok, "replicating": rule.counts.replicating, "stuck": rule.counts.stuck },
        "requests": rows, "requests_max": LOCKS_MAX,
    })))
}
