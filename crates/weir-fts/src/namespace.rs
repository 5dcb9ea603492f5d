//! `/dm`: FTS3's operations on storages' namespaces. Every node serves them; the scheduler has no part in it.
//!
//! The request to the storage carries the token of the call, as for a submission whose files have none, or the
//! delegated proxy; the storage decides about the user's rights. Answers are those of FTS3 with gfal2, numbers of
//! errors included.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use axum::{
    Router,
    extract::Query,
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use weir_fts_api::{ListedFile, Stat};

use crate::state::Door;
use crate::state::State;
use crate::{
    access::{
        caller::{By, Caller},
        delegation,
    },
    messages::{
        answer::{Answer, ApiError, ok},
        body::JsonBody,
    },
};
use weir_executor::{Attributes, Change, Credential, Obstacle, Refused, Visit, surl::Surl};

use crate::jobs::submission;

pub(super) fn routes() -> Router<Arc<Door>> {
    Router::new()
        .route("/dm/list", get(list))
        .route("/dm/stat", get(stat))
        .route("/dm/mkdir", post(mkdir))
        .route("/dm/unlink", post(unlink))
        .route("/dm/rmdir", post(rmdir))
        .route("/dm/rename", post(rename))
}

type Asked = Query<HashMap<String, String>>;

/// `GET /dm/list?surl=`: names; directories end with a slash.
async fn list(service: State, caller: Caller, Query(query): Asked) -> Answer {
    let visit = visit(&service, &caller, asked(&service, &query)?).await?;
    let place = service.namespace.enter_to_list(&caller.user_dn).ok_or_else(too_many)?;
    let listing = visit.list().await.map_err(refusal)?;
    let lines = listing.into_iter().map(|(mut name, told)| {
        if told.collection == Some(true) {
            name.push('/');
        }
        let line = ListedFile {
            size: told.size.unwrap_or_default(),
            mode: mode(&told),
            mtime: told.modified.unwrap_or_default(),
        };
        (name, line)
    });
    let listed = ok(&lines.collect::<BTreeMap<_, _>>());
    // The place goes with the memory: when the client has all of it, or is gone.
    Ok(listed.map(|body| {
        axum::body::Body::new(body.map_frame(move |frame| {
            let _held = &place;
            frame
        }))
    }))
}

/// `GET /dm/stat?surl=`.
async fn stat(service: State, caller: Caller, Query(query): Asked) -> Answer {
    let visit = visit(&service, &caller, asked(&service, &query)?).await?;
    let _place = service.namespace.enter(&caller.user_dn).ok_or_else(too_many)?;
    let told = visit.stat().await.map_err(refusal)?;
    Ok(ok(&Stat {
        mode: mode(&told),
        nlink: 1,
        size: told.size.unwrap_or_default(),
        atime: 0,
        mtime: told.modified.unwrap_or_default(),
        ctime: told.created.unwrap_or_default(),
    }))
}

/// `POST /dm/mkdir`.
async fn mkdir(service: State, caller: Caller, headers: HeaderMap, JsonBody(body): JsonBody) -> Answer {
    let surl = named(&service, &headers, &body, "surl")?;
    change(&service, &caller, surl, Change::MakeDirectory).await
}

/// `POST /dm/unlink`.
async fn unlink(service: State, caller: Caller, headers: HeaderMap, JsonBody(body): JsonBody) -> Answer {
    let surl = named(&service, &headers, &body, "surl")?;
    change(&service, &caller, surl, Change::Unlink).await
}

/// `POST /dm/rmdir`.
async fn rmdir(service: State, caller: Caller, headers: HeaderMap, JsonBody(body): JsonBody) -> Answer {
    let surl = named(&service, &headers, &body, "surl")?;
    change(&service, &caller, surl, Change::RemoveDirectory).await
}

/// `POST /dm/rename`.
async fn rename(service: State, caller: Caller, headers: HeaderMap, JsonBody(body): JsonBody) -> Answer {
    let old = named(&service, &headers, &body, "old")?;
    let new = named(&service, &headers, &body, "new")?;
    if old.endpoint() != new.endpoint() {
        let text = format!("Both names must be at one storage: {old}, {new}");
        return Err(ApiError::bad_request(text));
    }
    change(&service, &caller, old, Change::Rename(new)).await
}

/// Carries out and logs a change, even if the client leaves meanwhile. 0 is gfal2's result.
async fn change(service: &Door, caller: &Caller, surl: Surl, change: Change) -> Answer {
    let shown = surl.to_string();
    let visit = visit(service, caller, surl).await?;
    let place = service.namespace.enter(&caller.user_dn).ok_or_else(too_many)?;
    let (user, vo) = (caller.user_dn.clone(), caller.vo.clone());
    let work = tokio::spawn(async move {
        let _place = place;
        let outcome = visit.change(&change).await;
        let what = change.to_string();
        match &outcome {
            Ok(()) => tracing::info!(user, vo, what, surl = shown, "a storage's namespace was changed"),
            Err(refused) => {
                let error = &refused.text;
                tracing::info!(
                    user,
                    vo,
                    what,
                    surl = shown,
                    error,
                    "a change of a storage's namespace failed"
                );
            }
        }
        outcome
    });
    let outcome = work
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?;
    outcome.map_err(refusal)?;
    Ok(ok(&0))
}

/// The path that a query names.
fn asked(service: &Door, query: &HashMap<String, String>) -> Result<Surl, ApiError> {
    match query.get("surl").map(String::as_str) {
        None | Some("") => Err(ApiError::bad_request("Missing surl parameter")),
        Some(surl) => Ok(submission::place(surl, &service.submission)?),
    }
}

/// The path that a body names. A page in a browser can send a form in its user's name, but no JSON.
fn named(service: &Door, headers: &HeaderMap, body: &Value, key: &str) -> Result<Surl, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(ApiError::bad_request(format!(
            "Expecting application/json, got '{kind}'"
        )));
    }
    let Value::Object(body) = body else {
        return Err(ApiError::bad_request(
            "Malformed request: the body is not a JSON object",
        ));
    };
    match body.get(key) {
        None => Err(ApiError::bad_request(format!("Missing parameter: '{key}'"))),
        Some(Value::String(surl)) if surl.is_empty() => {
            Err(ApiError::bad_request(format!("No parameter \"{key}\" specified")))
        }
        Some(Value::String(surl)) => Ok(submission::place(surl, &service.submission)?),
        Some(_) => Err(ApiError::bad_request(format!(
            "Malformed request: '{key}' is not a string"
        ))),
    }
}

/// A visit by the caller's right, if anybody may go there now.
async fn visit(service: &Door, caller: &Caller, surl: Surl) -> Result<Visit, ApiError> {
    let se = surl.se();
    if service.settings.door().refuses(&se, &caller.vo) {
        return Err(ApiError::forbidden(format!("{se} is banned")));
    }
    let credential = match &caller.by {
        By::Token(token, _) => Credential::Token(token.clone()),
        By::Certificate(_) => Credential::Proxy(delegation::proxy(service, caller).await?),
        // Every node answers itself: the token is where the request came in.
        By::Elsewhere { .. } => return Err(ApiError::unavailable("Ask the node that you see")),
    };
    service.namespace.visit(surl, credential).map_err(refusal)
}

fn too_many() -> ApiError {
    ApiError::unavailable("Too many operations on storages' namespaces are under way; try again later")
}

/// Kind and permissions; where a storage does not tell the latter, all, as davix has it.
fn mode(told: &Attributes) -> u32 {
    const KIND: u32 = 0o170_000;
    let kind = if told.collection == Some(true) {
        0o040_000
    } else {
        0o100_000
    };
    match told.mode {
        Some(mode) if mode & KIND != 0 => mode,
        Some(mode) => kind | mode,
        None => kind | 0o777,
    }
}

/// FTS3's statuses and error numbers. Where FTS3 has only 500 (taken, not empty, not reached, too large, unknown),
/// clients get a more precise status.
fn refusal(refused: Refused) -> ApiError {
    let (status, number) = match refused.obstacle {
        Obstacle::Missing => (StatusCode::NOT_FOUND, 2),
        Obstacle::Forbidden => (StatusCode::FORBIDDEN, 13),
        Obstacle::Proxy => return ApiError::delegate(refused.text),
        Obstacle::NoDirectory => (StatusCode::BAD_REQUEST, 20),
        Obstacle::Directory => (StatusCode::BAD_REQUEST, 21),
        Obstacle::Taken => (StatusCode::CONFLICT, 17),
        Obstacle::Full => (StatusCode::CONFLICT, 39),
        Obstacle::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, 27),
        Obstacle::Busy => (StatusCode::SERVICE_UNAVAILABLE, 16),
        Obstacle::Late => (StatusCode::SERVICE_UNAVAILABLE, 110),
        Obstacle::Unknown => (StatusCode::GATEWAY_TIMEOUT, 110),
        Obstacle::Failed => (StatusCode::BAD_GATEWAY, 70),
    };
    ApiError::new(status, format!("[{number}] {}", refused.text))
}
