//! Answers: JSON, and errors in the shape that FTS3's clients read.
//!
//! | status | means | client | user | operator |
//! |---|---|---|---|---|
//! | 400 | the request makes no sense | gives up | corrects what the text names | nothing |
//! | 401 | no token or certificate, or an invalid one | gives up | gets a new one | checks issuers, audiences, authorities |
//! | 403 | known, but not allowed | gives up | asks for rights | adds an administrator |
//! | 404 | no such job | forgets it | checks the id | nothing |
//! | 405 | not done here | gives up | nothing | nothing |
//! | 408 | the body took too long | comes again | nothing | nothing |
//! | 409 | that job exists, or the delegation has changed | takes it as submitted | nothing | nothing |
//! | 413 | too large | splits it | nothing | raises `limits.body` |
//! | 419 | no delegated proxy that lasts | delegates, and submits again | delegates | nothing |
//! | 424 | VOMS attributes could not be had | gives up | asks the VO, or delegates a proxy that has them | looks at `x509.vomses` and `vomsdir` |
//! | 429 | too much of this VO, client or link waits already | comes again after `Retry-After` | waits, or submits less | looks at `limits.queues` |
//! | 502 | a storage is not reached, or makes no sense | gives up, or comes again later | asks its people | nothing |
//! | 503 | too busy, or the store cannot write | comes again after `Retry-After` | waits | looks at disk and queue |
//! | 504 | it may have been done | looks | looks for the job | looks at the database |

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use weir_fts_api::ErrorAnswer;
use weir_store::StoreError;
use weir_transfer::{cancel::NotDone, driver::NotTaken};

use crate::jobs::submission::Refusal;

/// Seconds after which a 503 may be tried again.
const RETRY_AFTER: u16 = 5;

/// An error as clients read it: `{"status": "400 Bad Request", "message": "..."}`.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) headers: Vec<(header::HeaderName, HeaderValue)>,
}

pub(crate) type Answer<T = Response> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// FTS3's own status for a user who has to delegate (again).
    pub(crate) fn delegate(message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(419).unwrap_or(StatusCode::UNAUTHORIZED);
        Self::new(status, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// FTS3's words for a job that is not there.
    pub(crate) fn no_job(id: &str) -> Self {
        Self::not_found(format!("No job with the id \"{id}\" has been found"))
    }

    /// `404 Not Found`.
    pub(crate) fn status_text(&self) -> String {
        let reason = match self.status.as_u16() {
            419 => "Authentication Timeout",
            _ => self.status.canonical_reason().unwrap_or("Unknown"),
        };
        format!("{} {reason}", self.status.as_u16())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorAnswer {
            status: self.status_text().into(),
            message: self.message.into(),
        };
        let mut response = json_answer(self.status, &body);
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .entry(header::RETRY_AFTER)
                .or_insert(RETRY_AFTER.into());
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        tracing::error!(error = weir_auth::error_chain(&error), "a request failed on the store");
        if error.is_passing() {
            Self::unavailable("The store cannot be read at the moment")
        } else {
            Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The store failed; the service's log says more",
            )
        }
    }
}

impl From<NotTaken> for ApiError {
    fn from(reason: NotTaken) -> Self {
        match reason {
            NotTaken::Busy(why) => Self::unavailable(format!("The service cannot take this now: {why}")),
            NotTaken::Full(full) => {
                let seconds = full.retry_after.as_secs();
                let status = if full.unknown {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::TOO_MANY_REQUESTS
                };
                let mut answer = Self::new(status, full.reason);
                answer.headers.push((header::RETRY_AFTER, seconds.into()));
                answer
            }
            NotTaken::Duplicate(_) => Self::duplicate_sid(),
            NotTaken::Taken(destination) => Self::new(
                StatusCode::CONFLICT,
                format!("The submission is duplicated: a transfer to {destination} is under way"),
            ),
            // Not 503: clients would submit again.
            NotTaken::Unknown(why) => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                format!(
                    "Whether the service has taken this is not known at the moment; look before asking again: {why}"
                ),
            ),
            NotTaken::Broken(why) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, why),
        }
    }
}

impl From<NotDone> for ApiError {
    fn from(reason: NotDone) -> Self {
        match reason {
            NotDone::Store(error) => error.into(),
            NotDone::NotTaken(reason) => reason.into(),
            NotDone::Stopping => Self::unavailable("The service is stopping"),
        }
    }
}

impl ApiError {
    pub(crate) fn duplicate_sid() -> Self {
        Self::new(StatusCode::CONFLICT, "The sid provided by the user is duplicated")
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::BadRequest(_) => StatusCode::BAD_REQUEST,
            Refusal::Deletion => StatusCode::METHOD_NOT_ALLOWED,
        };
        Self::new(status, refusal.to_string())
    }
}

/// JSON with a status.
pub(crate) fn json_answer(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => {
            let mut response = Response::new(axum::body::Body::from(bytes));
            *response.status_mut() = status;
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A text of this content type.
pub(crate) fn text(kind: &'static str, status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// JSON with 200.
pub(crate) fn ok(body: &impl Serialize) -> Response {
    json_answer(StatusCode::OK, body)
}
