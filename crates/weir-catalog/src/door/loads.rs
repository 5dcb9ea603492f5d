//! Loads. Rucio 41.5 has none; times are RFC 3339 in UTC, rates bits per second, spans seconds.

use std::collections::BTreeMap;

use axum::extract::{Path, Query};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_database::Session;
use weir_model::{
    RseName,
    catalog::{AccountName, Did, DidType, LoadState, Scope},
};
use weir_rules::{ids::RseId, loads::Held};
use weir_service::time::{self, Millis};
use weir_store::StoreError;
use weir_units::{Bytes, Timestamp};

use super::{
    State,
    answer::{Answer, Failure, created_with, json_answer, lines},
    body::Object,
    caller::Caller,
    data::did,
    rses::{name, uid},
    rules::priority,
};
use crate::{
    accounts::scopes,
    dids,
    loads::{self, Entry, Live, Load, LoadPlan, Settings, Which},
    permissions::Operation,
    places::{millis, timestamp},
    refusal::{Class, Refusal},
    rses,
};

/// The activity of loads that name none.
const ACTIVITY: &str = "Data Challenge";

const DAY: u64 = 86_400;

/// The longest load, in seconds.
const LENGTH_MAX: u64 = 60 * DAY;

/// Loads that are added together, and listed, at most.
const LOADS_MAX: usize = 10_000;

/// Characters of a remark, and of the name of an activity, at most.
const TEXT_MAX: usize = 1000;

/// Cycles of one answer.
const CYCLES_MAX: usize = 10_000;

/// A load as it is asked for, before its names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    account: AccountName,
    source: RseName,
    destination: RseName,
    scope: Option<Scope>,
    data: Option<Did>,
    starts: Millis,
    ends: Millis,
    settings: Settings,
}

/// A number of seconds between two bounds, as milliseconds.
fn span(body: &Object, key: &str, default: u64, (least, most): (u64, u64)) -> Result<u64, Failure> {
    let Some(value) = body.value(key) else {
        return Ok(default * 1000);
    };
    let millis = value.as_f64().map(|seconds| seconds * 1000.0);
    let fits = |millis: &f64| (least as f64 * 1000.0..=most as f64 * 1000.0).contains(millis);
    let wrong = || Failure::value(format!("'{key}' is a number of seconds from {least} to {most}"));
    millis.filter(fits).map(|millis| millis as u64).ok_or_else(wrong)
}

/// A share between 0 and a bound, in thousandths.
fn share(body: &Object, key: &str, default: f64, most: f64) -> Result<u32, Failure> {
    let value = body.value(key).map_or(Some(default), Value::as_f64);
    let wrong = || Failure::value(format!("'{key}' is a number from 0 to {most}"));
    let fitting = value.filter(|share| (0.0..=most).contains(share));
    fitting.map(|share| (share * 1000.0).round() as u32).ok_or_else(wrong)
}

fn utc(at: Millis) -> String {
    timestamp(at).rfc3339()
}

fn moment(body: &Object, key: &str) -> Result<Option<Millis>, Failure> {
    let wrong = || Failure::value(format!("'{key}' is a time in UTC such as 2026-11-28T12:00:00Z"));
    let read = |text: &str| Timestamp::parse_rfc3339(text).map(millis).ok_or_else(wrong);
    body.text(key)?.map(read).transpose()
}

/// `rate`, or `curve`: points of seconds from the start and bits per second.
fn curve(body: &Object) -> Result<Vec<(u64, u64)>, Failure> {
    let wrong = || Failure::value("'curve' is a list of [seconds from the start, bits per second]");
    match (body.value("rate"), body.value("curve")) {
        (Some(rate), None) => {
            let whole = || Failure::value("'rate' is a whole number of bits per second");
            Ok(vec![(0, rate.as_u64().ok_or_else(whole)?)])
        }
        (None, Some(Value::Array(points))) => points
            .iter()
            .map(|point| match point.as_array().map(Vec::as_slice) {
                Some([after, rate]) => {
                    let after = after.as_f64().filter(|after| (0.0..=1e9).contains(after));
                    let millis = after.map(|after| (after * 1000.0) as u64);
                    millis.zip(rate.as_u64()).ok_or_else(wrong)
                }
                _ => Err(wrong()),
            })
            .collect(),
        (None, Some(_)) => Err(wrong()),
        _ => Err(Failure::value("a load has either a 'rate' or a 'curve'")),
    }
}

/// The keys of a load. Other keys are refused, since a misspelt key would be ignored.
const KEYS: [&str; 20] = [
    "account",
    "activity",
    "big_first",
    "comment",
    "cooldown",
    "curve",
    "data",
    "destination",
    "dry_run",
    "duration",
    "end",
    "fudge",
    "interval",
    "lifetime",
    "max_injection",
    "priority",
    "rate",
    "scope",
    "source",
    "start",
];

fn asked(body: &Object, own: &AccountName, now: Millis) -> Result<Asked, Failure> {
    if let Some(key) = body.keys().find(|key| !KEYS.contains(key)) {
        return Err(Failure::value(format!("a load has no key {key:?}")));
    }
    let owned = |key: &str| match body.text(key)? {
        Some(text) if text.chars().count() > TEXT_MAX => {
            Err(Failure::value(format!("'{key}' has more than {TEXT_MAX} characters")))
        }
        text => Ok(text.map(str::to_owned)),
    };
    let strange = |error: &dyn std::fmt::Display| Failure::value(error.to_string());
    let account = body
        .text("account")?
        .map_or_else(|| Ok(own.clone()), str::parse::<AccountName>);
    let starts = moment(body, "start")?.unwrap_or(now);
    let ends = match moment(body, "end")? {
        Some(ends) if body.value("duration").is_none() => ends,
        Some(_) => return Err(Failure::value("a load has an 'end' or a 'duration', not both")),
        None => starts.saturating_add(span(body, "duration", 7200, (1, LENGTH_MAX))? as Millis),
    };
    if ends <= starts || ends <= now {
        return Err(Failure::value(
            "the end of the load is before its start, or has gone by",
        ));
    }
    if loads::between(starts, ends).as_secs() > LENGTH_MAX || loads::between(now, starts).as_secs() > 366 * DAY {
        return Err(Failure::value("a load lasts at most 60 days, and starts within a year"));
    }
    let settings = Settings {
        curve: curve(body)?,
        interval: span(body, "interval", 60, (1, DAY))?,
        lifetime: span(body, "lifetime", 3600, (1, 7 * DAY))?,
        cooldown: span(body, "cooldown", 0, (0, 7 * DAY))?,
        fudge: share(body, "fudge", 0.0, 1.0)?,
        overshoot: share(body, "max_injection", 0.2, 10.0)?,
        big_first: body.flag("big_first")?.unwrap_or_default(),
        dry_run: body.flag("dry_run")?.unwrap_or_default(),
        activity: owned("activity")?.unwrap_or_else(|| ACTIVITY.to_owned()),
        priority: priority(body.number("priority")?.unwrap_or(3))?,
        comment: owned("comment")?,
    };
    settings.curve().map_err(|error| strange(&error))?;
    let data = body.text("data")?.map(|text| {
        let no_did = || Failure::value(format!("'data' is a DID (scope:name), not {text:?}"));
        let (scope, name) = text.split_once(':').ok_or_else(no_did)?;
        did(scope, name)
    });
    let scope = body.text("scope")?.map(str::parse::<Scope>).transpose();
    Ok(Asked {
        account: account.map_err(|error| strange(&error))?,
        source: name(body.needed("source")?)?,
        destination: name(body.needed("destination")?)?,
        scope: scope.map_err(|error| strange(&error))?,
        data: data.transpose()?,
        starts,
        ends,
        settings,
    })
}

/// Within a transaction: looks names up, and checks the caller's permissions.
fn plan(session: &mut dyn Session, caller: &Caller, asked: &Asked, now: Millis) -> Result<LoadPlan, StoreError> {
    caller.may(session, Operation::ChangeRules, Some(&asked.account))?;
    let source = rses::get(session, &asked.source)?.id;
    let destination = rses::get(session, &asked.destination)?.id;
    if source == destination {
        let message = format!("{} cannot be source and destination of a load", asked.source);
        return Err(Refusal::new(Class::ValueError, message).into());
    }
    let data = match &asked.data {
        None => None,
        Some(did) => {
            let known = dids::get(session, did)?;
            if known.kind == DidType::File {
                let message = format!("{did} is a file; a load takes the files of a dataset or container");
                return Err(Refusal::new(Class::UnsupportedOperation, message).into());
            }
            Some(known.id)
        }
    };
    Ok(LoadPlan {
        account: asked.account.clone(),
        source,
        destination,
        scope: scope(session, caller, asked, now)?,
        data,
        starts: asked.starts,
        ends: asked.ends,
        settings: asked.settings.clone(),
    })
}

/// The scope of the load's datasets: that which is named, else the account's own one, which is made if it is not there.
fn scope(session: &mut dyn Session, caller: &Caller, asked: &Asked, now: Millis) -> Result<Scope, StoreError> {
    let own = || format!("user.{}", asked.account).parse::<Scope>();
    let strange = |error: &dyn std::fmt::Display| {
        let message = format!("the account has no scope of its own ({error}); name one with 'scope'");
        Refusal::new(Class::ValueError, message)
    };
    let scope = match &asked.scope {
        Some(scope) => scope.clone(),
        None => own().map_err(|error| strange(&error))?,
    };
    match scopes::owner(session, &scope) {
        Ok(owner) => caller.may(session, Operation::ChangeDids, Some(&owner))?,
        Err(error) if asked.scope.is_some() || error.refusal::<Refusal>().is_none() => return Err(error),
        Err(_) => {
            caller.may(session, Operation::AddScope, Some(&asked.account))?;
            scopes::add(session, &scope, &asked.account, now)?;
        }
    }
    Ok(scope)
}

/// `POST /loads`: one load, or `{"loads": […]}`; all or none. Gives their ids.
pub(crate) async fn add(door: State, caller: Caller, body: Object) -> Answer {
    let now = time::now();
    let many = body.list("loads")?;
    if many.len() > LOADS_MAX {
        return Err(Failure::value(format!("at most {LOADS_MAX} loads are added together")));
    }
    let single = [body];
    let all = if single[0].value("loads").is_some() {
        &many[..]
    } else {
        &single
    };
    let mut read = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let asked = asked(one, caller.account(), now).map_err(|failure| failure.about(at, all.len()))?;
        read.push((uid()?, asked));
    }
    let write = move |session: &mut dyn Session| {
        let mut uids = Vec::new();
        for (uid, asked) in &read {
            let plan = plan(session, &caller, asked, now)?;
            loads::add(session, uid, &plan, now)?;
            uids.push(uid.clone());
        }
        Ok(uids)
    };
    let uids = door.database.write(write).await?;
    Ok(created_with(&json!(uids)))
}

/// The names of RSEs.
type Names = BTreeMap<RseId, RseName>;

fn names(session: &mut dyn Session) -> Result<Names, StoreError> {
    let all = rses::list(session)?.into_iter();
    Ok(all.map(|one| (one.rse.id, one.rse.name)).collect())
}

fn row(session: &mut dyn Session, load: &Load, names: &Names, now: Millis) -> Result<Value, StoreError> {
    // Of a load that is due no more all is in its sums.
    let live = match load.due {
        Some(_) => loads::live(session, load)?,
        None => Live::default(),
    };
    let plan = &load.plan;
    let (source, destination) = (names.get(&plan.source), names.get(&plan.destination));
    let data = match plan.data {
        None => None,
        Some(id) => dids::by_id(session, id)?.map(|known| known.did.to_string()),
    };
    let mut row = settings(&plan.settings);
    // A load that was stopped asks for nothing more.
    let until = load.stopped.map_or(now, |stopped| stopped.min(now));
    let due = load.terms()?.asked_by(loads::between(plan.starts, until));
    let about = json!({
        "id": load.uid, "account": plan.account, "source": source, "destination": destination, "state": load.state,
        "start": utc(plan.starts), "end": utc(plan.ends), "created_at": utc(load.created),
        "scope": plan.scope, "data": data, "cycles": load.n_cycles,
        "stopped_at": load.stopped.map(utc),
        "next_cycle": (load.state != LoadState::Ended && load.state != LoadState::Stopped).then(|| load.due.map(utc)),
        "held": load.held.map(Held::as_str), "reason": load.reason,
    });
    for part in [about, sums(load, live, due)] {
        if let (Some(row), Value::Object(part)) = (row.as_object_mut(), part) {
            row.extend(part);
        }
    }
    Ok(row)
}

fn settings(settings: &Settings) -> Value {
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let curve = settings
        .curve
        .iter()
        .map(|(after, rate)| json!([seconds(*after), rate]));
    json!({
        "curve": curve.collect::<Vec<_>>(), "interval": seconds(settings.interval), "lifetime": seconds(settings.lifetime),
        "cooldown": seconds(settings.cooldown), "fudge": f64::from(settings.fudge) / 1000.0,
        "max_injection": f64::from(settings.overshoot) / 1000.0, "big_first": settings.big_first, "dry_run": settings.dry_run,
        "activity": settings.activity, "priority": settings.priority, "comment": settings.comment,
    })
}

/// Volumes. Bytes that were asked for by now are injected, given up, or owed.
fn sums(load: &Load, live: Live, due: Bytes) -> Value {
    let sums = &load.sums;
    json!({
        "asked_bytes": due, "injected_files": sums.injected_files, "injected_bytes": sums.injected,
        "arrived_files": sums.arrived_files + live.arrived_files, "arrived_bytes": sums.arrived.0 + live.arrived.0,
        "waiting_bytes": live.waiting, "lost_bytes": sums.lost.0 + live.lost.0, "given_up_bytes": sums.given_up,
        "rules": live.rules,
    })
}

/// Keys of `GET /loads`.
#[derive(Debug, Deserialize)]
pub(crate) struct LoadFilter {
    account: Option<String>,
}

/// `GET /loads`: the newest first.
pub(crate) async fn list(door: State, _: Caller, Query(filter): Query<LoadFilter>) -> Answer {
    let account = filter.account.map(|text| text.parse::<AccountName>()).transpose();
    let account = account.map_err(|error| Failure::value(error.to_string()))?;
    let now = time::now();
    let read = move |session: &mut dyn Session| {
        let (all, names) = (loads::list(session, account.as_ref(), LOADS_MAX)?, names(session)?);
        all.iter()
            .map(|load| row(session, load, &names, now))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(lines(door.database.read(read).await?))
}

/// `GET /loads/{id}`.
pub(crate) async fn get(door: State, _: Caller, Path(id): Path<String>) -> Answer {
    let now = time::now();
    let read = move |session: &mut dyn Session| {
        let (load, names) = (loads::get(session, &id)?, names(session)?);
        row(session, &load, &names, now)
    };
    Ok(json_answer(&door.database.read(read).await?))
}

/// Keys of `GET /loads/{id}/cycles`.
#[derive(Debug, Deserialize)]
pub(crate) struct After {
    after: Option<u64>,
}

/// `GET /loads/{id}/cycles`: the ledger, at most 10,000 rows after a cycle.
pub(crate) async fn cycles(door: State, _: Caller, Path(id): Path<String>, Query(query): Query<After>) -> Answer {
    let after = query.after.unwrap_or_default();
    let read = move |session: &mut dyn Session| {
        let load = loads::get(session, &id)?;
        loads::entries(session, load.id, after, CYCLES_MAX)
    };
    let row = |entry: &Entry| {
        json!({
            "cycle": entry.cycle, "asked_at": utc(entry.asked), "asked_bytes": entry.due, "files": entry.files,
            "bytes": entry.bytes, "rule": entry.rule, "given_up_bytes": entry.given_up, "waiting_bytes": entry.waiting,
            "held": entry.held.map(Held::as_str), "reason": entry.reason, "ended_at": entry.ended.map(utc),
            "arrived_files": entry.arrived_files, "arrived_bytes": entry.arrived,
        })
    };
    Ok(lines(door.database.read(read).await?.iter().map(row)))
}

/// `POST /loads/{id}/stop`: with `keep_rules` the rules that it made live on.
pub(crate) async fn stop(door: State, caller: Caller, Path(id): Path<String>, body: Object) -> Answer {
    let (ends_rules, now) = (!body.flag("keep_rules")?.unwrap_or_default(), time::now());
    let write = move |session: &mut dyn Session| {
        let load = loads::get(session, &id)?;
        caller.may(session, Operation::ChangeRules, Some(&load.plan.account))?;
        let reason = format!("stopped by {}", caller.account());
        loads::stop(session, &Which::One(id.clone()), (ends_rules, &reason), now)
    };
    let stopped = door.database.write(write).await?;
    Ok(json_answer(&json!({ "stopped": stopped })))
}

/// `POST /loads/stop`: all loads of `account`; without it those of the caller's account, or, for an administrator, of
/// all accounts.
pub(crate) async fn stop_all(door: State, caller: Caller, body: Object) -> Answer {
    let (ends_rules, now) = (!body.flag("keep_rules")?.unwrap_or_default(), time::now());
    let account = body.text("account")?.map(str::parse::<AccountName>).transpose();
    let account = account.map_err(|error| Failure::value(error.to_string()))?;
    let write = move |session: &mut dyn Session| {
        let which = match &account {
            Some(account) => {
                caller.may(session, Operation::ChangeRules, Some(account))?;
                Which::Of(account.clone())
            }
            None if caller.may(session, Operation::ChangeRules, None).is_ok() => Which::All,
            None => Which::Of(caller.account().clone()),
        };
        let reason = format!("stopped by {}", caller.account());
        loads::stop(session, &which, (ends_rules, &reason), now)
    };
    let stopped = door.database.write(write).await?;
    Ok(json_answer(&json!({ "stopped": stopped })))
}

/// Reads a body as [`add`] does. The curve of a load that is accepted rises.
#[cfg(any(test, fuzzing))]
#[expect(clippy::expect_used, reason = "a target panics where it finds something")]
pub(crate) fn fuzz(body: &Object) {
    let own = "root".parse().expect("an account");
    let all = body.list("loads").unwrap_or_default();
    for one in all.iter().chain([body]) {
        let Ok(asked) = asked(one, &own, 1_800_000_000_000) else {
            continue;
        };
        let length = loads::between(asked.starts, asked.ends);
        let curve = asked.settings.curve().expect("it was read as one");
        assert!(curve.bytes_by(length / 2) <= curve.bytes_by(length));
    }
}
