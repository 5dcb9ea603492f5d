//! Requests that only the scheduler can answer, passed to it through the database.
//!
//! The node where a request came in identifies its caller; tokens do not travel. A leader may carry out a request again that
//! its predecessor has carried out and not answered. That ends in the same state: a job stays cancelled, a priority or a setting gets
//! the same value, and the audit names it twice. Not so a forced start: a file that has failed meanwhile is forced once more.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{FromRequestParts as _, Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    access::caller::{Caller, Relayed},
    messages::{answer::ApiError, body::small},
};
use weir_transfer::{config::Level, nodes::Membership};

use crate::state::Door;

/// Requests of clients that this node has passed on and that have no answer yet.
static IN_HAND: Semaphore = Semaphore::const_new(64);

/// How long a request waits for the scheduler's answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A request on its way to the scheduling node.
#[derive(Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) content_type: Option<String>,
    pub(crate) caller: Option<Identity>,
}

/// The caller, as this node knows it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) user_dn: String,
    pub(crate) cred_id: String,
    pub(crate) vo: String,
    pub(crate) level: Level,
    pub(crate) reach: Level,
    pub(crate) certificate: bool,
}

/// Status and headers of an answer.
#[derive(Serialize, Deserialize)]
pub(crate) struct Heading {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

/// Answers itself, or passes on.
pub(crate) async fn relay(State(service): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let here = service.driver.is_taken() || is_for_all(request.method(), request.uri().path());
    match &service.membership {
        Some(membership) if !here => {
            if request.extensions().get::<Relayed>().is_some() {
                return vacant().into_response();
            }
            let membership = membership.clone();
            match pass_on(&service, &membership, request).await {
                Ok(response) => response,
                Err(error) => error.into_response(),
            }
        }
        _ => next.run(request).await,
    }
}

fn vacant() -> ApiError {
    ApiError::unavailable("The scheduler does not answer; another node is becoming it")
}

/// Whether every node can answer: from the database, or about itself.
fn is_for_all(method: &Method, path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    if *method == Method::OPTIONS {
        return true;
    }
    let reads = *method == Method::GET || *method == Method::HEAD;
    match first {
        "jobs" => reads || path.trim_matches('/') == "jobs",
        "" | "whoami" | "api-docs" | "openapi.json" | "archive" | "delegation" | "dm" => true,
        ".well-known" => !path.ends_with("/queue"),
        _ => false,
    }
}

async fn pass_on(service: &Arc<Door>, membership: &Arc<Membership>, request: Request) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    // No request for the scheduler is public: without a credential it ends here.
    let caller = Caller::from_request_parts(&mut parts, service).await?;
    let caller = Identity {
        user_dn: caller.user_dn,
        cred_id: caller.cred_id,
        certificate: caller.by.is_certificate(),
        vo: caller.vo,
        level: caller.level,
        reach: caller.reach,
    };
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let envelope = Envelope {
        method: parts.method.to_string(),
        uri: parts
            .uri
            .path_and_query()
            .map_or_else(|| "/".into(), ToString::to_string),
        content_type: content_type.and_then(|value| value.to_str().ok()).map(str::to_owned),
        caller: Some(caller),
    };
    let body = small(Request::from_parts(parts, body), service).await?;
    // After the body is read: a slow client would keep the slots of all others.
    let _place = IN_HAND
        .try_acquire()
        .map_err(|_| ApiError::unavailable("Too many requests wait for the scheduler's answer; try again later"))?;
    exchange(membership, &envelope, body).await
}

/// Asks the scheduler as a node, not for a client.
pub(crate) async fn ask(membership: &Arc<Membership>, path: &str, body: &impl Serialize) -> Result<Response, ApiError> {
    let envelope = Envelope {
        method: Method::POST.to_string(),
        uri: path.to_owned(),
        content_type: Some("application/json".to_owned()),
        caller: None,
    };
    let body = serde_json::to_vec(body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    exchange(membership, &envelope, body).await
}

async fn exchange(membership: &Arc<Membership>, envelope: &Envelope, body: Vec<u8>) -> Result<Response, ApiError> {
    let envelope = serde_json::to_string(envelope).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let answer = membership.ask_scheduler(envelope, body, PATIENCE).await?;
    let answer = answer.and_then(|(heading, body)| response(&heading, body));
    Ok(answer.unwrap_or_else(|| vacant().into_response()))
}

pub(crate) fn response(heading: &str, body: Vec<u8>) -> Option<Response> {
    let heading: Heading = serde_json::from_str(heading).ok()?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(heading.status).ok()?;
    for (name, value) in heading.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        response.headers_mut().insert(name, HeaderValue::from_str(&value).ok()?);
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_the_scheduler_goes_to_it() {
        // A cancel that a bystander answers stops nothing.
        for (method, path, expected) in [
            (Method::GET, "/jobs/1,2/files", true),
            (Method::POST, "/jobs", true),
            (Method::PUT, "/jobs/", true),
            (Method::POST, "/jobs/5", false),
            (Method::DELETE, "/jobs/5", false),
            (Method::GET, "/.well-known/weir/health", true),
            (Method::GET, "/.well-known/weir/queue", false),
            (Method::GET, "/config/links", false),
            (Method::POST, "/ban/se", false),
            (Method::POST, "/admin/force-start", false),
            (Method::GET, "/optimizer", false),
            (Method::GET, "/dm/list", true),
            // With a token, which does not travel.
            (Method::POST, "/dm/mkdir", true),
        ] {
            assert_eq!(is_for_all(&method, path), expected, "{method} {path}");
        }
    }
}
