//! Bodies as FTS3 reads them.

use axum::extract::{FromRequest, Request, rejection::BytesRejection};
use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde_json::Value;

use super::answer::ApiError;

/// Above this, a body is parsed on a thread that may take its time: 1 MB of JSON is some 5 ms.
const PARSE_INLINE: usize = 1 << 20;

/// Large bodies parsed at once: 100 MB of JSON become some 600 MB in memory.
static LARGE: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// A body that holds JSON: by its content type, or because the method is PUT, or URL-encoded under the odd type that one
/// old client sends.
#[derive(Debug)]
pub(crate) struct JsonBody(pub(crate) Value);

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let kind = kind_of(&request)?;
        let bytes = Bytes::from_request(request, state)
            .await
            .map_err(|rejection| too_large(&rejection))?;
        let value = if bytes.len() > PARSE_INLINE {
            let _place = LARGE.acquire().await;
            tokio::task::spawn_blocking(move || parse(kind, &bytes))
                .await
                .map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "The body could not be read"))?
        } else {
            parse(kind, &bytes)
        };
        value.map(Self)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Json,
    EncodedJson,
    Form,
}

fn kind_of(request: &Request) -> Result<Kind, ApiError> {
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    match kind {
        "application/json, application/x-www-form-urlencoded" => Ok(Kind::EncodedJson),
        kind if kind.starts_with("application/json") => Ok(Kind::Json),
        _ if request.method() == Method::PUT => Ok(Kind::Json),
        kind if kind.starts_with("application/x-www-form-urlencoded") => Ok(Kind::Form),
        kind => Err(ApiError::bad_request(format!(
            "Expecting application/json, got '{kind}'"
        ))),
    }
}

fn too_large(rejection: &BytesRejection) -> ApiError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is larger than this service takes; split the job",
        ),
        _ => ApiError::bad_request("The body broke off"),
    }
}

pub(super) fn parse(kind: Kind, bytes: &[u8]) -> Result<Value, ApiError> {
    let malformed = |why: &dyn std::fmt::Display| ApiError::bad_request(format!("Malformed input: {why}"));
    match kind {
        Kind::Json => serde_json::from_slice(bytes).map_err(|error| malformed(&error)),
        Kind::EncodedJson => {
            let text = percent_encoding::percent_decode(bytes).collect::<Vec<_>>();
            serde_json::from_slice(&text).map_err(|error| malformed(&error))
        }
        Kind::Form => {
            let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
            Ok(Value::Object(form(text)))
        }
    }
}

/// `a=1&b=x`: values that are JSON are read as such.
fn form(text: &str) -> serde_json::Map<String, Value> {
    let decode = |part: &str| {
        percent_encoding::percent_decode_str(&part.replace('+', " "))
            .decode_utf8_lossy()
            .into_owned()
    };
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            (
                decode(key),
                serde_json::from_str(&value).unwrap_or(Value::String(value)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use serde_json::json;

    use super::*;

    fn request(method: Method, kind: Option<&str>) -> Request {
        let mut request = Request::new(axum::body::Body::empty());
        *request.method_mut() = method;
        if let Some(kind) = kind {
            request
                .headers_mut()
                .insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        request
    }

    #[test]
    fn content_types_are_read_as_old_clients_write_them() {
        assert!(matches!(
            kind_of(&request(Method::POST, Some("application/json; charset=utf-8"))),
            Ok(Kind::Json)
        ));
        assert!(matches!(kind_of(&request(Method::PUT, None)), Ok(Kind::Json)));
        let odd = "application/json, application/x-www-form-urlencoded";
        assert!(matches!(
            kind_of(&request(Method::POST, Some(odd))),
            Ok(Kind::EncodedJson)
        ));
        assert_eq!(
            kind_of(&request(Method::POST, None)).unwrap_err().status,
            StatusCode::BAD_REQUEST
        );
        assert_eq!(
            kind_of(&request(Method::POST, Some("text/plain"))).unwrap_err().status,
            StatusCode::BAD_REQUEST
        );
    }

    #[test]
    fn bodies_are_json_or_said_to_be_malformed() {
        assert_eq!(parse(Kind::Json, b"{\"a\":1}").unwrap(), json!({ "a": 1 }));
        assert_eq!(parse(Kind::EncodedJson, b"%7B%22a%22:1%7D").unwrap(), json!({ "a": 1 }));
        assert_eq!(
            parse(Kind::Form, b"a=1&b=x%20y").unwrap(),
            json!({ "a": 1, "b": "x y" })
        );
        assert!(
            parse(Kind::Json, b"{")
                .unwrap_err()
                .message
                .starts_with("Malformed input")
        );
        let deep = "[".repeat(100_000);
        assert!(
            parse(Kind::Json, deep.as_bytes()).is_err(),
            "deep nesting is refused, not followed"
        );
    }
}
