//! `/ban`: storage elements and users that are kept out.
//!
//! A banned storage element starts nothing, whatever its limits say. `cancel` takes back what is queued or runs there, and
//! refuses what comes; `wait` leaves it in the queue, for `timeout` seconds if that is given, and with `allow_submit` takes more.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, extract::Query, routing::get};
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    State,
    answer::{Answer, ApiError, json_answer, ok},
    body::JsonBody,
    caller::Caller,
    config::change,
    mass::{self, Fits, Seen},
};
use crate::{
    model::{File, SEVERAL_HOPS},
    service::Service,
    settings::{Kind, Object, storage_name, yes_or_no},
    surl::Surl,
    time::{self, Millis},
};

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new()
        .route("/ban/se", get(storages).post(ban_storage).delete(unban_storage))
        .route("/ban/dn", get(users).post(ban_user).delete(unban_user))
}

const STORAGE_BANNED: &str = "Storage banned";
const USER_BANNED: &str = "User banned";

fn rows(service: &Service, kind: Kind) -> Vec<Object> {
    service.settings.all(kind).into_iter().map(|(_, row)| row).collect()
}

/// `GET /ban/se`.
async fn storages(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&rows(&service, Kind::BannedStorage)))
}

/// `GET /ban/dn`.
async fn users(service: State, caller: Caller) -> Answer {
    caller.require_admin()?;
    Ok(ok(&rows(&service, Kind::BannedUser)))
}

fn text<'a>(body: &'a Value, key: &str) -> Option<&'a str> {
    body.get(key)
        .and_then(Value::as_str)
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

/// `{storage, status, timeout, allow_submit, message, vo_name}`.
#[derive(Debug, PartialEq, Eq)]
struct StorageBan {
    se: String,
    vo: Option<String>,
    status: &'static str,
    timeout: i64,
    message: Option<String>,
}

impl StorageBan {
    fn read(body: &Value) -> Answer<Self> {
        let bad = |why: &str| Err(ApiError::bad_request(why));
        let Some(storage) = text(body, "storage") else {
            return bad("Missing storage parameter");
        };
        let allow_submit = match body.get("allow_submit") {
            None | Some(Value::Null) => Some(false),
            Some(value) => yes_or_no(value),
        };
        let Some(allow_submit) = allow_submit else {
            return bad("allow_submit must be a boolean");
        };
        let status = match (
            text(body, "status").unwrap_or("cancel").to_lowercase().as_str(),
            allow_submit,
        ) {
            ("cancel", false) => "CANCEL",
            ("cancel", true) => return bad("allow_submit and status = CANCEL can not be combined"),
            ("wait", false) => "WAIT",
            ("wait", true) => "WAIT_AS",
            _ => return bad("status can only be cancel or wait"),
        };
        let timeout = match body.get("timeout") {
            None | Some(Value::Null) => Some(0),
            Some(value) => value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()),
        };
        let Some(timeout) = timeout.filter(|timeout| (0..=366 * 86_400).contains(timeout)) else {
            return bad("timeout expects an integer equal or greater than zero");
        };
        Ok(Self {
            se: storage_name(storage)?,
            vo: text(body, "vo_name").map(str::to_owned),
            status,
            timeout,
            message: text(body, "message").map(str::to_owned),
        })
    }

    /// Its name among the rows.
    fn name(se: &str, vo: Option<&str>) -> String {
        vo.map_or_else(|| se.to_owned(), |vo| format!("{se} {vo}"))
    }

    fn row(&self, now: Millis, admin: &str) -> Object {
        let waits_until = (self.status != "CANCEL" && self.timeout > 0).then(|| now + self.timeout * 1000);
        let row = json!({
            "se": self.se,
            "vo": self.vo,
            "status": self.status,
            "message": self.message,
            "addition_time": time::format(now),
            "added_ms": now,
            "admin_dn": admin,
            "wait_timeout": self.timeout,
            "waits_until_ms": waits_until,
        });
        row.as_object().cloned().unwrap_or_default()
    }
}

/// Answers the ids of the jobs that are affected.
async fn ban_storage(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let ban = StorageBan::read(&body)?;
    let now = time::now();
    let (key, row) = (
        (Kind::BannedStorage, StorageBan::name(&ban.se, ban.vo.as_deref())),
        ban.row(now, &caller.user_dn),
    );
    change(&service, &caller, "ban-se", body.to_string(), move |_| {
        Ok(vec![(key, Some(row))])
    })
    .await?;
    let cancels = ban.status == "CANCEL";
    let fits = of_storage(ban.se, ban.vo);
    let jobs: Vec<Uuid> = if cancels {
        let cancelled = mass::cancel_matching(&service, fits, false, STORAGE_BANNED).await?;
        cancelled.into_iter().map(|(job, _)| job).collect()
    } else {
        let affected = mass::matching(&service, fits).await?;
        affected.into_iter().map(|(job, _)| job).collect()
    };
    Ok(ok(&jobs))
}

fn of_storage(se: String, vo: Option<String>) -> Fits {
    Box::new(move |seen| vo.as_ref().is_none_or(|vo| seen.job.job.vo == *vo) && seen.touches(&se))
}

fn of_user(dn: String) -> Fits {
    Box::new(move |seen| seen.job.job.user_dn == dn)
}

/// `DELETE /ban/se?storage=`.
async fn unban_storage(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let storage = query.get("storage").filter(|storage| !storage.is_empty());
    let storage = storage.ok_or_else(|| ApiError::bad_request("Missing storage parameter"))?;
    let se = storage_name(storage)?;
    let vo = query.get("vo_name").filter(|vo| !vo.is_empty()).cloned();
    change(&service, &caller, "unban-se", se.clone(), move |settings| {
        // Without a VO, all bans of the storage element go.
        let bans = settings.all(Kind::BannedStorage).into_iter();
        let of_se = bans.filter(|(_, row)| row.get("se").is_some_and(|of| of.as_str() == Some(&se)));
        let gone = of_se.filter(|(name, _)| vo.is_none() || *name == StorageBan::name(&se, vo.as_deref()));
        Ok(gone.map(|(name, _)| ((Kind::BannedStorage, name), None)).collect())
    })
    .await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}

/// `{user_dn, message}`: everything of the user is taken back, and no call of the user is answered any more.
async fn ban_user(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer {
    caller.require_admin()?;
    let Some(dn) = text(&body, "user_dn").map(str::to_owned) else {
        return Err(ApiError::bad_request("Missing dn parameter"));
    };
    if dn == caller.user_dn {
        return Err(ApiError::new(StatusCode::CONFLICT, "The user tried to ban themselves"));
    }
    let row = json!({
        "dn": dn,
        "message": text(&body, "message").unwrap_or_default(),
        "addition_time": time::format(time::now()),
        "added_ms": time::now(),
        "admin_dn": caller.user_dn,
    });
    let (key, row) = ((Kind::BannedUser, dn.clone()), row.as_object().cloned());
    change(&service, &caller, "ban-dn", body.to_string(), move |_| {
        Ok(vec![(key, row)])
    })
    .await?;
    let cancelled = mass::cancel_matching(&service, of_user(dn), false, USER_BANNED).await?;
    Ok(ok(&cancelled.into_iter().map(|(job, _)| job).collect::<Vec<_>>()))
}

/// `DELETE /ban/dn?user_dn=`.
async fn unban_user(service: State, caller: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    caller.require_admin()?;
    let dn = query.get("user_dn").filter(|dn| !dn.is_empty()).cloned();
    let dn = dn.ok_or_else(|| ApiError::bad_request("Missing user_dn parameter"))?;
    let key = (Kind::BannedUser, dn.clone());
    change(&service, &caller, "unban-dn", dn, move |_| Ok(vec![(key, None)])).await?;
    Ok(json_answer(StatusCode::NO_CONTENT, &Value::Null))
}

/// Between two looks for what a ban has let wait for too long: each costs a look at every transfer.
const SWEEP_EVERY: Millis = 600_000;

/// The same after one that failed.
const SWEEP_AGAIN: Millis = 60_000;

/// When it was last looked for what a ban has let wait, by the ban's name and the end of its patience.
#[derive(Debug, Default)]
pub(crate) struct Sweeps(Mutex<HashMap<(String, Millis), Millis>>);

impl Sweeps {
    fn is_due(&self, name: &str, until: Millis, now: Millis) -> bool {
        let mut sweeps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sweeps.retain(|(of, end), _| of != name || *end == until);
        let last = sweeps.get(&(name.to_owned(), until));
        last.is_none_or(|last| now.saturating_sub(*last) >= SWEEP_EVERY)
    }

    fn done(&self, name: String, until: Millis, now: Millis) {
        let mut sweeps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sweeps.insert((name, until), now);
    }
}

/// A ban for which a look is due.
struct Due {
    name: String,
    until: Millis,
    reason: &'static str,
    /// Once nothing is left, never again: nothing comes any more.
    ends: bool,
}

/// Takes back what waited for a banned storage element for longer than its ban allows: at the end of its patience, and later what
/// was running then and came back to the queue. And what a ban that cancels has not reached: the service may have gone while it did,
/// and jobs come in at other nodes until they have heard of it. One look serves all bans.
pub(crate) async fn expire(service: &Arc<Service>, now: Millis) -> Answer<()> {
    let (due, fits): (Vec<Due>, Vec<Fits>) = due(service, now).into_iter().unzip();
    if due.is_empty() {
        return Ok(());
    }
    let found = mass::matching_each(service, fits).await?;
    let mut first = Ok(());
    for (ban, affected) in due.into_iter().zip(found) {
        let clear = affected.is_empty();
        let outcome = mass::cancel(service, affected, false, ban.reason).await;
        let done = match &outcome {
            Err(_) => now - SWEEP_EVERY + SWEEP_AGAIN,
            Ok(()) if ban.ends && clear => Millis::MAX,
            Ok(()) => now,
        };
        service.sweeps.done(ban.name, ban.until, done);
        first = first.and(outcome);
    }
    first
}

fn due(service: &Service, now: Millis) -> Vec<(Due, Fits)> {
    let word = |ban: &Object, key: &str| ban.get(key).and_then(Value::as_str).map(str::to_owned);
    let added = |ban: &Object| ban.get("added_ms").and_then(Value::as_i64).unwrap_or_default();
    let mut due = Vec::new();
    for (name, ban) in service.settings.all(Kind::BannedStorage) {
        let of_it = of_storage(word(&ban, "se").unwrap_or_default(), word(&ban, "vo"));
        let (until, ends, fits): (_, _, Fits) = if word(&ban, "status").as_deref() == Some("CANCEL") {
            (added(&ban), true, of_it)
        } else if let Some(until) = ban.get("waits_until_ms").and_then(Value::as_i64) {
            let banned = word(&ban, "addition_time");
            let waits = move |seen: &Seen| {
                let before = Some(time::format(seen.job.job.submitted)) <= banned;
                before && !seen.file.running && of_it(seen)
            };
            (until, false, Box::new(waits))
        } else {
            continue;
        };
        let reason = STORAGE_BANNED;
        due.push((
            Due {
                name,
                until,
                reason,
                ends,
            },
            fits,
        ));
    }
    for (dn, ban) in service.settings.all(Kind::BannedUser) {
        let ban = Due {
            name: format!("user {dn}"),
            until: added(&ban),
            reason: USER_BANNED,
            ends: true,
        };
        due.push((ban, of_user(dn)));
    }
    due.retain(|(ban, _)| {
        let patience = if ban.ends { HEARD_AFTER } else { 0 };
        now >= ban.until.saturating_add(patience) && service.sweeps.is_due(&ban.name, ban.until, now)
    });
    due
}

/// When every node has heard of a ban, and what was on its way is there.
const HEARD_AFTER: Millis = 60_000;

/// Takes back what of a submission passed the door just before a ban that cancels was recorded: nothing would ever start it.
pub(super) async fn catch_up(service: &Arc<Service>, job: Uuid, caller: &Caller) -> Answer<()> {
    let door = service.settings.door();
    let files = service.read(move |store| store.files(job)).await?;
    let cancels = |url: &str| Surl::parse(url).is_ok_and(|url| door.cancels(&url.se(), &caller.vo));
    let banned_user = door.banned_user(&caller.user_dn).is_some();
    let (reason, files) = if banned_user {
        (USER_BANNED, files)
    } else {
        let mut files = files;
        let hops = service.read(move |store| store.job(job)).await?;
        let hops = hops.is_some_and(|job| job.spec.kind == SEVERAL_HOPS);
        let affected = |file: &File| cancels(&file.spec.source) || cancels(&file.spec.destination);
        if !(hops && files.iter().any(affected)) {
            files.retain(affected);
        }
        (STORAGE_BANNED, files)
    };
    if files.is_empty() {
        return Ok(());
    }
    let files = files.iter().map(|file| file.spec.id).collect();
    mass::cancel(service, vec![(job, files)], false, reason).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    #![allow(clippy::needless_pass_by_value, reason = "json! makes values")]
    use super::*;

    #[test]
    fn what_a_ban_let_wait_is_looked_for_now_and_then() {
        // With ten million transfers, each look takes the store seconds.
        let sweeps = Sweeps::default();
        assert!(sweeps.is_due("https://b", 5, 10));
        sweeps.done("https://b".into(), 5, 10);
        assert!(!sweeps.is_due("https://b", 5, 11));
        assert!(sweeps.is_due("https://b", 5, 10 + SWEEP_EVERY));
        assert!(sweeps.is_due("https://b", 7, 11), "it was banned anew");
        sweeps.done("https://b".into(), 7, Millis::MAX);
        assert!(!sweeps.is_due("https://b", 7, Millis::MAX), "nothing was left");
    }

    fn refuses(body: Value, words: &str) {
        let error = StorageBan::read(&body).unwrap_err();
        assert_eq!((error.status.as_u16(), error.message.as_str()), (400, words));
    }

    #[test]
    fn bans_are_read_as_the_command_line_client_writes_them() {
        let body = json!({ "storage": "https://b:443", "status": "wait", "timeout": "60", "allow_submit": true });
        let ban = StorageBan::read(&body).unwrap();
        assert_eq!((ban.se.as_str(), ban.status, ban.timeout), ("https://b", "WAIT_AS", 60));
        refuses(json!({}), "Missing storage parameter");
        refuses(
            json!({ "storage": "https://b", "status": "burn" }),
            "status can only be cancel or wait",
        );
        refuses(
            json!({ "storage": "https://b", "allow_submit": true }),
            "allow_submit and status = CANCEL can not be combined",
        );
        refuses(
            json!({ "storage": "https://b", "timeout": -1 }),
            "timeout expects an integer equal or greater than zero",
        );
    }
}
