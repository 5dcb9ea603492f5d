//! Requests to a catalogue that speaks the Rucio REST API, and the classification of its answers for an injection.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, Method, Request, StatusCode, header};
use serde::Deserialize;
use weir_auth::Secret;
use weir_fts_api::Bearer;
use weir_http::{Client, body};

use crate::inject::injection::InjectionError;

/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(20);

/// Wait when the service says "later" without saying when.
const LATER: Duration = Duration::from_secs(2);

/// Largest answer read: 100 jobs of 200 files with long error texts.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// A catalogue and the credential for it.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    /// Without a slash at the end.
    pub(crate) url: String,
    /// The token of each request.
    pub(crate) token: Bearer,
    /// The account of each request.
    pub(crate) account: String,
    /// A client that trusts it.
    pub(crate) client: Client,
}

impl Service {
    /// Makes a request. The content is sent as JSON. A token that is refused is asked for anew once: a service may end one before its time.
    ///
    /// # Errors
    /// [`InjectionError`]: every answer but success.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        content: Option<serde_json::Value>,
    ) -> Result<Vec<u8>, InjectionError> {
        let content = content.map(|json| Bytes::from(json.to_string()));
        let first = self.ask_once(method.clone(), path, content.clone()).await;
        match &first {
            Err(InjectionError::Refused { status, .. }) if *status == StatusCode::UNAUTHORIZED => {
                self.token.source.discard(&self.token.scope, &self.token.audience);
                self.ask_once(method, path, content).await
            }
            _ => first,
        }
    }

    async fn token(&self) -> Result<Secret, InjectionError> {
        let answer = self.token.source.token(&self.token.scope, &self.token.audience).await;
        answer.map_err(|error| InjectionError::Token {
            door: self.url.clone(),
            source: error.into(),
        })
    }

    /// The last part of the URL to which a request is redirected.
    ///
    /// # Errors
    /// [`InjectionError`]: every other answer.
    pub(crate) async fn redirected(&self, path: &str) -> Result<String, InjectionError> {
        let (head, answer) = self.exchange(Method::GET, path, None).await?;
        if head.status != StatusCode::SEE_OTHER {
            return self
                .judge(&head, answer)
                .and_then(|_| Err(self.unreachable("it does not redirect the request")));
        }
        let location = head.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
        let last = location.and_then(|location| location.trim_end_matches('/').rsplit('/').next());
        let last = last.map(weir_auth::peer_text);
        last.ok_or_else(|| self.unreachable("it redirects the request nowhere"))
    }

    async fn ask_once(&self, method: Method, path: &str, content: Option<Bytes>) -> Result<Vec<u8>, InjectionError> {
        let (head, answer) = self.exchange(method, path, content).await?;
        self.judge(&head, answer)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content: Option<Bytes>,
    ) -> Result<(Parts, Vec<u8>), InjectionError> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request
            .header("x-rucio-auth-token", self.token().await?.expose())
            .header("x-rucio-account", &self.account)
            .header(header::ACCEPT, "*/*");
        let request = match content {
            Some(text) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body::full(text)),
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
        Ok((head, answer.to_vec()))
    }

    /// The content of an answer that says success; the error of any other.
    fn judge(&self, head: &Parts, answer: Vec<u8>) -> Result<Vec<u8>, InjectionError> {
        match head.status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::MULTI_STATUS => Ok(answer),
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
        #[serde(alias = "ExceptionMessage")]
        message: String,
    }
    match serde_json::from_slice::<Body>(answer) {
        Ok(body) => weir_auth::peer_text(body.message),
        Err(_) => weir_auth::peer_line(answer),
    }
}
