//! Rules and their locks.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use axum::extract::{Path, Query};
use serde_json::{Value, json};
use weir_database::Session;
use weir_model::catalog::{AccountName, Did, Grouping, Notification};
use weir_service::time::{self, Millis};
use weir_store::StoreError;

use super::{
    State,
    answer::{Answer, Failure, created_with, date, done, json_answer, lines},
    body::Object,
    caller::Caller,
    data::{did, did_of},
    keys,
    rses::uid,
};
use crate::{
    accounts,
    dids::{self, Known},
    filters::Filter,
    permissions::Operation,
    refusal::{Class, Refusal},
    rses,
    rules::{self, Lock, Rule, RuleChange, RuleTerms, create},
};

/// The activity of rules that name none (Rucio).
const ACTIVITY: &str = "User Subscriptions";

/// Rules of one answer, at most.
const RULES_MAX: usize = 10_000;

fn parsed<T: std::str::FromStr>(text: Option<&str>, default: T) -> Result<T, Failure>
where
    T::Err: std::fmt::Display,
{
    let read = |text: &str| text.parse().map_err(|error: T::Err| Failure::value(error.to_string()));
    text.map_or(Ok(default), read)
}

/// The end of a rule that lives for so many seconds; `None`: it has none.
fn end(seconds: Option<i64>, now: Millis) -> Option<Millis> {
    seconds.map(|seconds| now.saturating_add(seconds.max(0).saturating_mul(1000)))
}

pub(super) fn priority(number: i64) -> Result<u32, Failure> {
    let fits = |number: &u32| (1..=5).contains(number);
    let number = u32::try_from(number).ok().filter(fits);
    number.ok_or_else(|| Failure::value("a priority is from 1 to 5"))
}

pub(super) fn wish(body: &Object, caller: &Caller, now: Millis) -> Result<RuleTerms, Failure> {
    let account = body
        .text("account")?
        .map_or_else(|| Ok(caller.account().clone()), str::parse::<AccountName>);
    let copies = body.number("copies")?.unwrap_or(1);
    let copies = u32::try_from(copies).ok().filter(|copies| (1..=100).contains(copies));
    let owned = |key: &str| Ok::<_, Failure>(body.text(key)?.map(str::to_owned));
    Ok(RuleTerms {
        account: account.map_err(|error| Failure::value(error.to_string()))?,
        expression: body.needed("rse_expression")?.trim().to_owned(),
        copies: copies.ok_or_else(|| Failure::value("a rule has from 1 to 100 copies"))?,
        grouping: parsed(body.text("grouping")?, Grouping::Dataset)?,
        weight: owned("weight")?,
        source_expression: owned("source_replica_expression")?,
        activity: owned("activity")?.unwrap_or_else(|| ACTIVITY.to_owned()),
        priority: priority(body.number("priority")?.unwrap_or(3))?,
        expires: end(body.number("lifetime")?, now),
        is_locked: body.flag("locked")?.unwrap_or_default(),
        purge: body.flag("purge_replicas")?.unwrap_or_default(),
        notify: parsed(body.text("notify")?, Notification::No)?,
        comments: owned("comment")?,
        meta: body
            .value("meta")
            .map(|meta| meta.as_str().map_or_else(|| meta.to_string(), str::to_owned)),
    })
}

/// `POST /rules/`: a rule for each DID; all or none.
pub(crate) async fn add(door: State, caller: Caller, body: Object) -> Answer {
    for key in ["ask_approval", "delay_injection", "split_container"] {
        if body.value(key).is_some_and(|value| *value != json!(false)) {
            return Err(Failure::not_built(&format!("{key} of a rule is not built here yet")));
        }
    }
    let now = time::now();
    let wish = wish(&body, &caller, now)?;
    let dids = body.list("dids")?.iter().map(did_of).collect::<Result<Vec<_>, _>>()?;
    if dids.is_empty() {
        return Err(Failure::value("a rule is about at least one DID"));
    }
    let ignore_availability = body.flag("ignore_availability")?.unwrap_or_default();
    let write = move |session: &mut dyn Session| {
        let add = |did| adding(session, &caller, (did, &wish), ignore_availability, now);
        dids.iter().map(add).collect::<Result<Vec<_>, _>>()
    };
    let uids = door.database.write(write).await;
    // Rucio answers 409 here, and 400 where RSEs are listed.
    let uids = uids.map_err(|error| Failure::from(error).conflicting(Class::InvalidRseExpression))?;
    door.tasks.evaluator.notify_one();
    Ok(created_with(&json!(uids)))
}

/// Within a transaction: adds a rule on a DID, and gives its id.
pub(super) fn adding(
    session: &mut dyn Session,
    caller: &Caller,
    (did, wish): (&Did, &RuleTerms),
    ignore_availability: bool,
    now: Millis,
) -> Result<String, StoreError> {
    caller.may(session, Operation::ChangeRules, Some(&wish.account))?;
    if wish.is_locked {
        caller.may(session, Operation::LockRules, Some(&wish.account))?;
    }
    let new = create::NewRule {
        uid: uid()?,
        did: dids::get(session, did)?,
        wish: wish.clone(),
        ignore_availability,
    };
    create::add(session, &new, now)?;
    Ok(new.uid)
}

/// A rule with its DID.
type RuleRow = (Rule, Known);

fn shown(session: &mut dyn Session, all: Vec<Rule>) -> Result<Vec<RuleRow>, StoreError> {
    let mut known = BTreeMap::new();
    let mut shown = Vec::new();
    for rule in all {
        let did = match known.entry(rule.did) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(dids::by_id(session, rule.did)?),
        };
        if let Some(did) = did.clone() {
            shown.push((rule, did));
        }
    }
    Ok(shown)
}

fn row((rule, known): &RuleRow) -> Value {
    let wish = &rule.wish;
    json!({
        "id": rule.uid, "account": wish.account, "scope": known.did.scope, "name": known.did.name, "did_type": known.kind,
        "state": rule.state, "rse_expression": wish.expression, "copies": wish.copies, "grouping": wish.grouping, "weight": wish.weight,
        "source_replica_expression": wish.source_expression, "activity": wish.activity, "priority": wish.priority,
        "locked": wish.is_locked, "purge_replicas": wish.purge, "notification": wish.notify, "comments": wish.comments, "meta": wish.meta,
        "locks_ok_cnt": rule.counts.ok, "locks_replicating_cnt": rule.counts.replicating, "locks_stuck_cnt": rule.counts.stuck,
        "error": rule.error, "created_at": date(rule.created), "updated_at": date(rule.updated), "expires_at": wish.expires.map(date),
        "stuck_at": rule.stuck_at.map(date), "child_rule_id": null, "deleted_at": null, "eol_at": null, "ignore_account_limit": false,
        "ignore_availability": false, "split_container": false, "subscription_id": null,
    })
}

/// In lists Rucio has one key more.
fn listed(one: &RuleRow) -> Value {
    let mut row = row(one);
    row["bytes"] = Value::Null;
    row
}

/// `GET /rules/{id}`.
pub(crate) async fn get(door: State, _: Caller, Path(id): Path<String>) -> Answer {
    let read = move |session: &mut dyn Session| {
        let rule = rules::get(session, &id)?;
        shown(session, vec![rule])
    };
    let found = door.database.read(read).await?;
    let first = found.first().map(row);
    first
        .map(|row| json_answer(&row))
        .ok_or_else(|| Failure::value("the DID of the rule is gone"))
}

/// Columns of rules that a list may be filtered by, beside account, scope, name and state.
const COLUMNS: [&str; 8] = [
    "activity",
    "copies",
    "did_type",
    "grouping",
    "id",
    "priority",
    "rse_expression",
    "source_replica_expression",
];

/// `GET /rules/`: by account, or by DID.
pub(crate) async fn list(door: State, _: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let account = query.get("account").map(|text| text.parse::<AccountName>()).transpose();
    let account = account.map_err(|error| Failure::value(error.to_string()))?;
    let about = match (query.get("scope"), query.get("name")) {
        (Some(scope), Some(name)) => Some(did(scope, name)?),
        _ => None,
    };
    let state = query
        .get("state")
        .map(|text| parsed(Some(text), weir_model::catalog::RuleState::Ok))
        .transpose()?;
    let others = query
        .iter()
        .filter(|(key, _)| !["account", "scope", "name", "state"].contains(&key.as_str()));
    let others = others.map(|(key, value)| {
        if COLUMNS.contains(&key.as_str()) {
            Ok((key.clone(), Value::from(value.as_str())))
        } else {
            Err(keys::refused(key))
        }
    });
    let mut filter = Filter::default();
    filter.and(&others.collect::<Result<_, _>>()?).map_err(Failure::value)?;
    if about.is_none() && account.is_none() {
        return Err(Failure::not_built(
            "a list of rules without account, or scope and name, is not built here yet",
        ));
    }
    let read = move |session: &mut dyn Session| {
        let mut found = match (&about, &account) {
            (Some(did), _) => of_did(session, did)?,
            (None, Some(account)) => rules::of_account(session, account, RULES_MAX)?,
            (None, None) => Vec::new(),
        };
        found.retain(|rule| account.as_ref().is_none_or(|account| *account == rule.wish.account));
        found.retain(|rule| state.is_none_or(|state| state == rule.state));
        shown(session, found)
    };
    let found = door.database.read(read).await?;
    let rows = found.iter().map(listed);
    Ok(lines(
        rows.filter(|row| row.as_object().is_some_and(|row| filter.matches(row))),
    ))
}

fn of_did(session: &mut dyn Session, did: &Did) -> Result<Vec<Rule>, StoreError> {
    let id = dids::get(session, did)?.id;
    rules::of_did(session, id)
}

/// `GET /dids/{scope}/{name}/rules`.
pub(crate) async fn of(door: State, _: Caller, Path((scope, name)): Path<(String, String)>) -> Answer {
    let did = did(&scope, &name)?;
    let read = move |session: &mut dyn Session| {
        let found = of_did(session, &did)?;
        shown(session, found)
    };
    let found = door.database.read(read).await?;
    Ok(lines(found.iter().map(listed)))
}

/// `GET /rules/{id}/locks`.
pub(crate) async fn locks(door: State, _: Caller, Path(id): Path<String>) -> Answer {
    let of = id.clone();
    let read = move |session: &mut dyn Session| {
        let rule = rules::get(session, &of)?;
        Ok((rules::locks(session, rule.id)?, rses::list(session)?))
    };
    let (found, rses) = door.database.read(read).await?;
    let names = rses
        .iter()
        .map(|one| (one.rse.id, (&one.rse.name, &one.rse.uid)))
        .collect::<BTreeMap<_, _>>();
    let row = |lock: &Lock| {
        let (rse, uid) = names.get(&lock.rse)?;
        Some(json!({
            "scope": lock.did.scope, "name": lock.did.name, "rse": rse, "rse_id": uid, "state": lock.state, "rule_id": id,
        }))
    };
    Ok(lines(found.iter().filter_map(row)))
}

/// The options of a change, with Rucio's names.
fn changes(options: &Object, now: Millis) -> Result<Vec<RuleChange>, Failure> {
    let mut changes = Vec::new();
    for key in options.keys() {
        let text = || Ok::<_, Failure>(options.text(key)?.map(str::to_owned));
        let flag = || options.flag(key)?.ok_or_else(|| super::body::missing(key));
        changes.push(match key {
            "lifetime" => RuleChange::Expires(end(options.number(key)?, now)),
            "priority" => RuleChange::Priority(priority(options.number(key)?.unwrap_or(3))?),
            "locked" => RuleChange::Locked(flag()?),
            "purge_replicas" => RuleChange::Purge(flag()?),
            "comment" | "comments" => RuleChange::Comments(text()?),
            "source_replica_expression" => RuleChange::SourceExpression(text()?),
            "activity" => RuleChange::Activity(text()?.unwrap_or_else(|| ACTIVITY.to_owned())),
            "state" => match text()?.as_deref() {
                Some("STUCK") => RuleChange::Repair,
                Some("SUSPENDED") => RuleChange::Suspend,
                _ => return Err(Failure::value("the state of a rule is set to STUCK or SUSPENDED")),
            },
            "boost_rule" => RuleChange::Repair,
            "child_rule_id" | "cancel_requests" | "approve" | "account" | "eol_at" | "meta" => {
                return Err(Failure::not_built(&format!(
                    "the option {key} of a rule is not built here yet"
                )));
            }
            _ => {
                let message = format!("{key} is not a valid option to set.");
                return Err(Refusal::new(Class::InvalidOption, message).into());
            }
        });
    }
    Ok(changes)
}

/// `PUT /rules/{id}`.
pub(crate) async fn change(door: State, caller: Caller, Path(id): Path<String>, body: Object) -> Answer {
    let now = time::now();
    let changes = changes(&body.object("options")?, now)?;
    let write = move |session: &mut dyn Session| {
        let rule = rules::get(session, &id)?;
        caller.may(session, Operation::ChangeRules, Some(&rule.wish.account))?;
        if changes.iter().any(|change| matches!(change, RuleChange::Locked(_))) {
            caller.may(session, Operation::LockRules, Some(&rule.wish.account))?;
        }
        let mut changes = changes.iter();
        changes.try_for_each(|change| rules::change(session, rule.id, change, now))
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `DELETE /rules/{id}`: the rule ends within the hour.
pub(crate) async fn delete(door: State, caller: Caller, Path(id): Path<String>, body: Object) -> Answer {
    let (purge, now) = (body.flag("purge_replicas")?, time::now());
    let write = move |session: &mut dyn Session| {
        let rule = rules::get(session, &id)?;
        caller.may(session, Operation::ChangeRules, Some(&rule.wish.account))?;
        accounts::existing(session, &rule.wish.account)?;
        rules::delete(session, &id, purge, now)
    };
    door.database.write(write).await?;
    Ok(done())
}
