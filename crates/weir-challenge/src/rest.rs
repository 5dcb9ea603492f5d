//! One request to a service that speaks REST with bearer tokens, and what its answer means for an injection.

use std::error::Error;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use serde::Deserialize;
use weir_auth::client::TokenSource;
use weir_http::{Client, body};

use crate::injection::InjectionError;

/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(20);

/// Wait when the service says "later" without saying when.
const LATER: Duration = Duration::from_secs(2);

/// Largest answer read: 100 jobs of 200 files with long error texts.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// The header in which a service takes the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// `X-Rucio-Auth-Token: …`.
    Rucio,
}

/// A service, and what opens it.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    /// Without a slash at the end.
    pub(crate) url: String,
    /// The audience of its tokens.
    pub(crate) audience: String,
    /// The scope of its tokens.
    pub(crate) scope: &'static str,
    /// Where its tokens come from.
    pub(crate) tokens: TokenSource,
    /// The header that takes them.
    pub(crate) header: TokenHeader,
    /// A client that trusts it.
    pub(crate) client: Client,
}

impl Service {
    /// Makes a request. The content is sent as JSON.
    ///
    /// # Errors
    /// [`InjectionError`]: every answer but success.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        content: Option<serde_json::Value>,
    ) -> Result<Vec<u8>, InjectionError> {
        let token = self.tokens.token(self.scope, &self.audience).await;
        let token = token.map_err(|error| InjectionError::Token {
            door: self.url.clone(),
            source: error.into(),
        })?;
        let (name, value) = match self.header {
            TokenHeader::Bearer => (header::AUTHORIZATION, format!("Bearer {}", token.expose())),
            TokenHeader::Rucio => (HeaderName::from_static("x-rucio-auth-token"), token.expose().to_owned()),
        };
        let accepted = match self.header {
            TokenHeader::Bearer => "application/json",
            TokenHeader::Rucio => "*/*",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(name, value)
            .header(header::ACCEPT, accepted);
        let request = match content {
            Some(json) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body::full(json.to_string())),
            None => request.body(body::empty()),
        };
        let request = request.map_err(|error| self.unreachable(error))?;
        let response = self
            .client
            .send_within(request, PATIENCE)
            .await
            .map_err(|error| self.unreachable(error))?;
        let (head, answer) = response.into_parts();
        let answer = body::read_limited(answer, ANSWER_MAX, PATIENCE)
            .await
            .map_err(|error| self.unreachable(error))?;
        match head.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::MULTI_STATUS => Ok(answer.to_vec()),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Err(InjectionError::Busy {
                door: self.url.clone(),
                after: retry_after(&head.headers),
            }),
            status => Err(InjectionError::Refused {
                door: self.url.clone(),
                status,
                message: message(&answer),
            }),
        }
    }

    /// The error of an exchange that failed, or of an answer that could not be read.
    pub(crate) fn unreachable(&self, source: impl Into<Box<dyn Error + Send + Sync>>) -> InjectionError {
        InjectionError::Unreachable {
            door: self.url.clone(),
            source: source.into(),
        }
    }
}

/// Reads `Retry-After` in seconds, at most a minute.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(LATER, |seconds: u64| Duration::from_secs(seconds.clamp(1, 60)))
}

/// Takes the message out of an error body, secrets removed.
fn message(answer: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        #[serde(alias = "http_message", alias = "ExceptionMessage")]
        message: String,
    }
    match serde_json::from_slice::<Body>(answer) {
        Ok(body) => weir_auth::peer_text(body.message),
        Err(_) => weir_auth::peer_line(answer),
    }
}
