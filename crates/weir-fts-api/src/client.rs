//! A client of a transfer service.

mod error;

use std::{fmt::Display, time::Duration};

use http::{HeaderMap, Method, Request, StatusCode, header, response::Parts};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use weir_auth::{Secret, client::TokenSource};
use weir_http::{Client, body};

pub use error::{Cause, FtsError};

use crate::{
    job::{Job, Submitted},
    service::WhoAmI,
    submission::Submission,
    why::{LinkState, LinkWaits},
};

/// Limit for one exchange. A cancellation waits up to 10 s for running copies.
const PATIENCE: Duration = Duration::from_secs(60);

/// Largest answer that is read: 100 jobs of 200 files with long reasons.
const ANSWER_MAX: usize = 64 << 20;

/// A client of a transfer service that speaks the FTS3 REST API.
#[derive(Debug, Clone)]
pub struct FtsClient {
    url: String,
    client: Client,
    credential: FtsCredential,
    patience: Duration,
    answer_max: usize,
}

/// The credential of each request.
#[derive(Debug, Clone)]
pub enum FtsCredential {
    /// A token.
    Bearer(Bearer),
    /// The certificate that the client shows, or none.
    Certificate,
}

/// Where tokens come from, and which are asked for.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// Their source.
    pub source: TokenSource,
    /// Their audience.
    pub audience: String,
    /// Their scope.
    pub scope: String,
}

impl Bearer {
    /// The same token for every request.
    pub fn fixed(token: Secret) -> Self {
        Self {
            source: TokenSource::fixed(token),
            audience: String::new(),
            scope: String::new(),
        }
    }
}

impl FtsClient {
    /// Makes a client of the service at this URL, by connections of `client`.
    pub fn new(url: &str, client: Client, credential: FtsCredential) -> Self {
        Self {
            url: url.trim_end_matches('/').to_owned(),
            client,
            credential,
            patience: PATIENCE,
            answer_max: ANSWER_MAX,
        }
    }

    /// The same with another limit for one exchange. The default is a minute.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same with another limit of the bytes of one answer. The default is 64 MiB.
    #[must_use]
    pub fn reading(self, answer_max: usize) -> Self {
        Self { answer_max, ..self }
    }

    /// URL of the service, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The credential of its requests.
    pub fn credential(&self) -> &FtsCredential {
        &self.credential
    }

    /// Asks who the caller is.
    ///
    /// # Errors
    /// Here and below: [`FtsError`].
    pub async fn whoami(&self) -> Result<WhoAmI<'static>, FtsError> {
        self.get("/whoami").await
    }

    /// The namespace in which the service derives ids of the caller's jobs from `sid`.
    pub async fn namespace(&self) -> Result<Uuid, FtsError> {
        let namespace = self.whoami().await?.vos_id.first().copied();
        namespace.ok_or_else(|| self.senseless("whoami names no VO"))
    }

    /// Submits a job; returns its id. The service answers 409 to a `sid` that it knows.
    pub async fn submit(&self, job: &Submission) -> Result<Uuid, FtsError> {
        let answer = self.ask(Method::POST, "/jobs", Some(self.written(job)?)).await?;
        self.read::<Submitted>(&answer).map(|submitted| submitted.job_id)
    }

    /// Asks for jobs, with these keys of their files. Each of several jobs has a status of its own; a single one that is
    /// unknown is an error.
    pub async fn jobs(&self, ids: &[impl Display], file_keys: &str) -> Result<Vec<Job<'static>>, FtsError> {
        let path = format!("/jobs/{}?files={file_keys}", joined(ids));
        let answer = self.ask(Method::GET, &path, None).await?;
        Job::read_all(&answer).map_err(|error| self.senseless(error))
    }

    /// Cancels jobs.
    pub async fn cancel(&self, ids: &[impl Display]) -> Result<(), FtsError> {
        let path = format!("/jobs/{}", joined(ids));
        self.ask(Method::DELETE, &path, None).await.map(drop)
    }

    /// Cancels files of a job.
    pub async fn cancel_files(&self, job: Uuid, files: &[u64]) -> Result<(), FtsError> {
        let files = files.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let path = format!("/jobs/{job}/files/{files}");
        self.ask(Method::DELETE, &path, None).await.map(drop)
    }

    /// Asks what holds a link back. An FTS3 has no such path.
    pub async fn why_link(&self, source: &str, destination: &str) -> Result<LinkState<'static>, FtsError> {
        let query = weir_http::form::write([("source_se", source), ("dest_se", destination)]);
        self.get(&format!("/why/link?{query}")).await
    }

    /// Asks what the transfers of all links waited for. An FTS3 has no such path.
    pub async fn waits(&self) -> Result<Vec<LinkWaits<'static>>, FtsError> {
        self.get("/why/waits").await
    }

    /// Asks for a request to sign a proxy for, in PEM.
    pub async fn proxy_request(&self, delegation: &str) -> Result<Vec<u8>, FtsError> {
        self.ask(Method::GET, &format!("/delegation/{delegation}/request"), None)
            .await
    }

    /// Delegates a proxy with its chain, in PEM.
    pub async fn delegate(&self, delegation: &str, chain: String) -> Result<(), FtsError> {
        let path = format!("/delegation/{delegation}/credential");
        self.exchange(&Method::PUT, &path, Some(("text/plain", chain)))
            .await
            .map(drop)
    }

    /// Asks for any path, and reads the JSON of the answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, FtsError> {
        let answer = self.ask(Method::GET, path, None).await?;
        self.read(&answer)
    }

    /// Makes any request, with JSON as its content. A token that is refused is asked for anew once: a service may end
    /// one before its time.
    pub async fn ask(&self, method: Method, path: &str, json: Option<String>) -> Result<Vec<u8>, FtsError> {
        let content = json.map(|json| ("application/json", json));
        let first = self.exchange(&method, path, content.clone()).await;
        match (&first, &self.credential) {
            (Err(error), FtsCredential::Bearer(token)) if error.status() == Some(StatusCode::UNAUTHORIZED) => {
                token.source.discard(&token.scope, &token.audience);
                self.exchange(&method, path, content).await
            }
            _ => first,
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        content: Option<(&str, String)>,
    ) -> Result<Vec<u8>, FtsError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(header::ACCEPT, "application/json");
        if let FtsCredential::Bearer(bearer) = &self.credential {
            let token = bearer.source.token(&bearer.scope, &bearer.audience).await;
            let token = token.map_err(|source| FtsError::Token {
                url: self.url.clone(),
                source: source.into(),
            })?;
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = match content {
            Some((kind, text)) => request.header(header::CONTENT_TYPE, kind).body(body::full(text)),
            None => request.body(body::empty()),
        };
        let request = request.map_err(|error| self.unreachable(error))?;
        let response = self.client.send_within(request, self.patience).await;
        let (head, answer) = response.map_err(|error| self.unreachable(error))?.into_parts();
        let answer = body::read_limited(answer, self.answer_max, self.patience).await;
        let answer = answer.map_err(|error| self.unreachable(error))?;
        self.judge(&head, answer.to_vec())
    }

    /// The content of an answer that says success; the error of any other.
    fn judge(&self, head: &Parts, answer: Vec<u8>) -> Result<Vec<u8>, FtsError> {
        match head.status {
            status if status.is_success() => Ok(answer),
            status => Err(FtsError::Refused {
                url: self.url.clone(),
                status,
                message: error::message(&answer),
                retry_after: retry_after(&head.headers),
            }),
        }
    }

    fn written(&self, content: &impl serde::Serialize) -> Result<String, FtsError> {
        serde_json::to_string(content).map_err(|error| self.unreachable(error))
    }

    fn read<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T, FtsError> {
        serde_json::from_slice(answer).map_err(|error| self.senseless(error))
    }

    /// The error of an answer that makes no sense.
    pub fn senseless(&self, source: impl Into<Cause>) -> FtsError {
        FtsError::Senseless {
            url: self.url.clone(),
            source: source.into(),
        }
    }

    fn unreachable(&self, source: impl Into<Cause>) -> FtsError {
        FtsError::Unreachable {
            url: self.url.clone(),
            source: source.into(),
        }
    }
}

fn joined(ids: &[impl Display]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `Retry-After` in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}
