//! `/ban`: banned storage elements and users.
//!
//! At a banned storage element nothing starts, whatever its limits. With `cancel`, queued and running transfers there
//! are cancelled, and new ones refused. With `wait`, they stay in the queue, for `timeout` seconds if that is given,
//! and with `allow_submit` new ones are accepted.

use std::{collections::HashMap, sync::Arc};

use axum::{Router, extract::Query, routing::get};
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::state::State;
use crate::{
    access::caller::Caller,
    messages::{
        answer::{Answer, ApiError, json_answer, ok},
        body::JsonBody,
    },
    operation::config::change,
};
use weir_service::time::{self, Millis};
use weir_transfer::{
    cancel::{self, STORAGE_BANNED, USER_BANNED, of_storage, of_user},
    settings::{Kind, Object, storage_name, yes_or_no},
};

use crate::state::Door;

pub(crate) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/ban/se", get(storages).post(ban_storage).delete(unban_storage))
        .route("/ban/dn", get(users).post(ban_user).delete(unban_user))
}

fn rows(service: &Door, kind: Kind) -> Vec<Object> {
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
        let cancelled = cancel::cancel_matching(&service, fits, false, STORAGE_BANNED).await?;
        cancelled.into_iter().map(|(job, _)| job).collect()
    } else {
        let affected = cancel::matching(&service, fits).await?;
        affected.into_iter().map(|(job, _)| job).collect()
    };
    Ok(ok(&jobs))
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
    let cancelled = cancel::cancel_matching(&service, of_user(dn), false, USER_BANNED).await?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    #![allow(clippy::needless_pass_by_value, reason = "json! makes values")]
    use super::*;

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
