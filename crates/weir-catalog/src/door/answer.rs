//! Answers in the forms that Rucio's client reads. It picks its parser by the exact content type.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::refusal::{Class, Refusal};

/// Seconds after which a 503 may be tried again.
const RETRY_AFTER: u16 = 5;

/// Characters of a message in a header, at most (Rucio).
const HEADER_MAX: usize = 125;

/// An error as clients read it: the class and a sentence, in the body and in headers.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    status: StatusCode,
    class: &'static str,
    message: String,
}

pub(crate) type Answer = Result<Response, Failure>;

impl Failure {
    pub(crate) fn not_built(message: &str) -> Self {
        Refusal::new(Class::NotBuilt, message).into()
    }

    /// The service has too much to do: the client comes again.
    pub(crate) fn busy(message: &str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            class: "DatabaseException",
            message: message.to_owned(),
        }
    }

    /// The same with status 409, if it is of this class.
    pub(crate) fn conflicting(self, class: Class) -> Self {
        let is_of_it = self.class == class.name();
        Self {
            status: if is_of_it { StatusCode::CONFLICT } else { self.status },
            ..self
        }
    }

    /// The same about one of several objects of a body, which are counted from 1.
    pub(crate) fn about(self, at: usize, of: usize) -> Self {
        let message = if of > 1 {
            format!("number {}: {}", at + 1, self.message)
        } else {
            self.message
        };
        Self { message, ..self }
    }

    /// Rucio's server raises Python's `ValueError` for values that it cannot read.
    pub(crate) fn value(message: impl Into<String>) -> Self {
        Refusal::new(Class::ValueError, message).into()
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self {
            status: StatusCode::from_u16(refusal.class.status()).unwrap_or(StatusCode::BAD_REQUEST),
            class: refusal.class.name(),
            message: refusal.message,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if let Some(refusal) = error.refusal::<Refusal>() {
            return refusal.clone().into();
        }
        tracing::error!(error = weir_auth::error_chain(&error), "a request failed on the store");
        let (status, message) = if error.is_passing() {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "The database cannot work at the moment",
            )
        } else {
            let message = "The database failed; the service's log says more";
            (StatusCode::INTERNAL_SERVER_ERROR, message)
        };
        Self {
            status,
            class: "DatabaseException",
            message: message.to_owned(),
        }
    }
}

/// The message as a header holds it: one line of ASCII, cut.
fn in_header(message: &str) -> HeaderValue {
    let line = message.replace('\n', "");
    let mut short = line.chars().take(HEADER_MAX).collect::<String>();
    if short.len() < line.len() {
        short.push_str("...");
    }
    let ascii = short.replace(|c: char| !(' '..='~').contains(&c), "?");
    HeaderValue::from_str(&ascii).unwrap_or(HeaderValue::from_static(""))
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "ExceptionClass": self.class, "ExceptionMessage": self.message });
        let mut response = typed(self.status, "application/octet-stream", body.to_string());
        let headers = response.headers_mut();
        headers.insert(
            HeaderName::from_static("exceptionclass"),
            HeaderValue::from_static(self.class),
        );
        headers.insert(HeaderName::from_static("exceptionmessage"), in_header(&self.message));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER.into());
        }
        response
    }
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

/// An object or a list.
pub(crate) fn json_answer(body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(text) => typed(StatusCode::OK, "application/json", text),
        Err(error) => Failure::value(error.to_string()).into_response(),
    }
}

/// Rows, one in a line.
pub(crate) fn lines<T: Serialize>(rows: impl IntoIterator<Item = T>) -> Response {
    let mut text = String::new();
    for row in rows {
        match serde_json::to_string(&row) {
            Ok(line) => text.push_str(&line),
            Err(error) => return Failure::value(error.to_string()).into_response(),
        }
        text.push('\n');
    }
    typed(StatusCode::OK, "application/x-json-stream", text)
}

/// Rows that come page by page, after a first one. An error after that cuts the answer off, which the client notices.
pub(crate) fn streamed<S>(kind: &'static str, first: String, rest: S) -> Response
where
    S: Stream<Item = Result<String, StoreError>> + Send + 'static,
{
    let first = stream::once(async { Ok::<_, StoreError>(first) });
    let pages = first.chain(rest).map_ok(|mut page| {
        // A text that grew has room for as much again, which a reader that stops would keep.
        page.shrink_to_fit();
        page
    });
    let body = Body::from_stream(pages.inspect_err(|error| {
        tracing::error!(error = weir_auth::error_chain(error), "a listing was cut off");
    }));
    (StatusCode::OK, [(header::CONTENT_TYPE, kind)], body).into_response()
}

const HTML: &str = "text/html; charset=utf-8";

/// Something was made.
pub(crate) fn created() -> Response {
    typed(StatusCode::CREATED, HTML, "Created".to_owned())
}

/// Something was made that has an id.
pub(crate) fn created_with(body: &Value) -> Response {
    typed(StatusCode::CREATED, HTML, body.to_string())
}

/// Something was changed or deleted.
pub(crate) fn done() -> Response {
    typed(StatusCode::OK, HTML, String::new())
}

/// An empty body: a login answers in headers.
pub(crate) fn empty() -> Response {
    typed(StatusCode::OK, "application/octet-stream", String::new())
}

/// Another place has the answer.
pub(crate) fn see_other(location: &str) -> Response {
    let location = HeaderValue::from_str(location).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

/// `Sat, 21 Nov 2026 11:01:37 UTC`.
pub(crate) fn date(at: Millis) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(u64::try_from(at).unwrap_or_default());
    httpdate::fmt_http_date(at).replace("GMT", "UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_into_headers() {
        assert_eq!(in_header("a\nb"), "ab");
        assert_eq!(in_header("é"), "?");
        let long = in_header(&"x".repeat(200));
        assert_eq!(long.len(), 128);
        assert_eq!(date(1_795_259_497_000), "Sat, 21 Nov 2026 11:11:37 UTC");
    }
}
