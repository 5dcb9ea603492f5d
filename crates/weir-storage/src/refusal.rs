//! Refusals: their statuses and reasons.
//!
//! | status | when | the client should | the operator should |
//! |---|---|---|---|
//! | 400 | the request makes no sense; the body has another checksum than announced | correct it, or send again | look at the path between them if checksums differ often |
//! | 401 | no token, or one that is expired, for another audience, of another issuer; a certificate that is no good | get a token, or a new proxy | compare issuer, audience and clock |
//! | 403 | token or certificate does not suffice (the missing scope or right is named); area read-only; symbolic link; reserved name | ask for the scope | look at the area's configuration |
//! | 404 | no such file or directory | - | - |
//! | 405 | the method does not fit the resource | see `Allow` | - |
//! | 408 | the client fell silent in the middle of a body | send again | look at the network |
//! | 409 | the parent is a file or missing; a directory is in the way; another request is writing the file | resolve it, or wait | - |
//! | 413, 414, 415, 416 | as RFC 9110 has it | correct the request | - |
//! | 412 | a condition failed; `Overwrite: F` and the target exists | decide anew | - |
//! | 429 | the share of a VO or of a client is used up; `Retry-After` gives the pause | wait | raise the share (`[[limit]]`) |
//! | 500 | the disk failed | try again later | read the log |
//! | 501 | the body comes in a transfer coding other than chunked | send it as it is | - |
//! | 502 | the destination of a MOVE is another server | use a third-party copy | - |
//! | 503 | too many transfers, the issuer's keys cannot be had, or a certificate's revocation list; `Retry-After` gives the pause | wait | raise the limit, or look at the issuer |
//! | 507 | quota or file system full | delete, or write elsewhere | add space |

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use weir_auth::{AuthError, Denied, RETRY_AFTER, StoragePath, x509::X509Error};
use weir_http::{Body, body};

use crate::{
    backend::{BackendError, Obstacle},
    conditional::{Broken, Unreadable},
};

/// Why a request is not carried out.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// For people: lower case, no full stop, no secret.
    pub(crate) reason: String,
    /// Whether the reason says "it" where the path belongs.
    nameless: bool,
    document: Option<&'static str>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            nameless: false,
            document: None,
            headers: Vec::new(),
        }
    }

    pub(crate) fn bad_request(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    pub(crate) fn not_found(path: &impl std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{path} does not exist"))
    }

    pub(crate) fn precondition(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::PRECONDITION_FAILED, reason)
    }

    pub(crate) fn method_not_allowed(reason: impl Into<String>, allow: &'static str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, reason).with(header::ALLOW, HeaderValue::from_static(allow))
    }

    /// Tells the client when to come again.
    #[must_use]
    pub(crate) fn coming_again(self, after: std::time::Duration) -> Self {
        self.with(header::RETRY_AFTER, HeaderValue::from(after.as_secs()))
    }

    pub(crate) fn no_space(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, reason)
    }

    /// Adds a document of XML for programs (RFC 4918 section 16); people read the reason.
    #[must_use]
    pub(crate) fn with_document(mut self, document: &'static str) -> Self {
        self.document = Some(document);
        self
    }

    /// Puts the path before a reason that does not name it.
    #[must_use]
    pub(crate) fn about(mut self, path: &StoragePath) -> Self {
        if self.nameless {
            self.reason = format!("{path}: {}", self.reason);
            self.nameless = false;
        }
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after this answer, and tells the client: the rest of its request is not read.
    #[must_use]
    pub(crate) fn closing(self) -> Self {
        self.with(header::CONNECTION, HeaderValue::from_static("close"))
    }

    /// The answer, with this body, which must begin with the reason or be it.
    pub(crate) fn respond(self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let kind = match self.document {
            Some(_) => "application/xml; charset=utf-8",
            None => "text/plain; charset=utf-8",
        };
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        response
    }

    pub(crate) fn text(&self) -> String {
        match self.document {
            Some(document) => document.to_owned(),
            None => format!("{}\n", self.reason),
        }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let text = self.text();
        self.respond(body::full(text))
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        let reason = format!("{}; {}", weir_auth::error_chain(&error), error.remedy());
        let mut refusal = Self::new(error.status(), reason);
        if let Some(value) = error
            .www_authenticate()
            .and_then(|text| HeaderValue::from_str(&text).ok())
        {
            refusal = refusal.with(header::WWW_AUTHENTICATE, value);
        }
        if let Some(after) = error.retry_after() {
            refusal = refusal.with(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        refusal
    }
}

impl From<X509Error> for Refusal {
    fn from(error: X509Error) -> Self {
        let refusal = Self::new(
            error.status(),
            format!("{}; {}", weir_auth::error_chain(&error), error.remedy()),
        );
        match error.status() {
            StatusCode::SERVICE_UNAVAILABLE => {
                refusal.with(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()))
            }
            // RFC 9110 section 15.5.2 wants a challenge; a token is the other way in.
            StatusCode::UNAUTHORIZED => refusal.with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => refusal,
        }
    }
}

impl From<Broken> for Refusal {
    fn from(broken: Broken) -> Self {
        let mut refusal = Self::precondition(broken.to_string());
        refusal.nameless = true;
        refusal
    }
}

impl From<Unreadable> for Refusal {
    fn from(error: Unreadable) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        AuthError::from(denied).into()
    }
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        let status = match error.obstacle {
            Obstacle::Missing => StatusCode::NOT_FOUND,
            Obstacle::Exists => StatusCode::PRECONDITION_FAILED,
            Obstacle::Parent | Obstacle::Directory | Obstacle::File | Obstacle::NotEmpty => StatusCode::CONFLICT,
            Obstacle::Unsafe
            | Obstacle::IntoItself
            | Obstacle::ReadOnly
            | Obstacle::Permission
            | Obstacle::NoAttributes => StatusCode::FORBIDDEN,
            Obstacle::NameTooLong => StatusCode::URI_TOO_LONG,
            Obstacle::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            Obstacle::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Obstacle::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Obstacle::Io => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(error = %weir_auth::error_chain(&error), "the file system failed");
        }
        let mut refusal = Self::new(status, weir_auth::error_chain(&error));
        refusal.nameless = true;
        refusal
    }
}
