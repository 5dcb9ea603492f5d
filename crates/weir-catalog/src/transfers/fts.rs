//! The client of a transfer service that speaks the FTS3 REST API.

use std::{fmt, time::Duration};

use http::{Method, Request, StatusCode, header};
use serde::Deserialize;
use uuid::Uuid;
use weir_http::{Client, body};

use super::answer::{Answer, FIELDS, JobAnswer};
use crate::credentials::Credentials;

/// Time for one exchange. A cancellation waits up to 10 s for running copies.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest answer that is read: 100 jobs of 200 files with long reasons.
const ANSWER_MAX: usize = 64 << 20;

/// The scope of tokens for a transfer service, as Rucio asks for it.
const SCOPE: &str = "fts";

/// The error of a transfer service.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its meaning.
    pub kind: Kind,
    /// A sentence for people, without secrets.
    pub message: String,
}

/// The meaning of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has too much to do, and may say for how long.
    Busy(Option<Duration>),
    /// It said no, for a reason that lies in the job.
    Refused(StatusCode),
    /// It is out of reach, lets this catalogue in no more, or makes no sense: whether it did anything is not known.
    Unclear,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A transfer service.
#[derive(Debug, Clone)]
pub struct Fts {
    url: String,
    client: Client,
    credentials: Credentials,
}

#[derive(Deserialize)]
struct Whoami {
    /// The namespaces of deterministic job ids, one for each VO.
    vos_id: Vec<Uuid>,
}

impl Fts {
    /// The service at this URL, which has no slash at its end.
    pub fn new(url: &str, client: Client, credentials: Credentials) -> Self {
        Self {
            url: url.to_owned(),
            client,
            credentials,
        }
    }

    /// The namespace in which it derives ids of jobs for this catalogue.
    ///
    /// # Errors
    /// Here and below: [`Failure`].
    pub async fn namespace(&self) -> Result<Uuid, Failure> {
        let answer = self.ask(Method::GET, "/whoami", None).await;
        // No job is at fault here: a refusal says that this is no transfer service, or the wrong path of one.
        let answer = answer.map_err(|failure| match failure.kind {
            Kind::Refused(_) => Failure {
                kind: Kind::Unclear,
                ..failure
            },
            _ => failure,
        })?;
        let whoami = serde_json::from_slice::<Whoami>(&answer).map_err(|error| self.senseless(&error))?;
        let namespace = whoami.vos_id.first().copied();
        namespace.ok_or_else(|| self.senseless(&"whoami names no VO"))
    }

    /// Submits a job. An existing one is no failure: ids are derived from the requests.
    pub async fn submit(&self, job: &serde_json::Value) -> Result<(), Failure> {
        match self.ask(Method::POST, "/jobs", Some(job)).await {
            Err(failure) if failure.kind == Kind::Refused(StatusCode::CONFLICT) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Looks at these jobs.
    pub async fn look(&self, jobs: &[Uuid]) -> Result<Vec<JobAnswer>, Failure> {
        let path = format!("/jobs/{}?files={FIELDS}", joined(jobs));
        let answer = match (self.ask(Method::GET, &path, None).await, jobs) {
            // Of several jobs each has a status of its own.
            (Err(failure), [job]) if failure.kind == Kind::Refused(StatusCode::NOT_FOUND) => {
                return Ok(vec![JobAnswer::unknown(*job)]);
            }
            (answer, _) => answer?,
        };
        let answer = serde_json::from_slice::<Answer>(&answer).map_err(|error| self.senseless(&error))?;
        Ok(answer.jobs())
    }

    /// Cancels files of a job.
    pub async fn cancel(&self, job: Uuid, files: &[String]) -> Result<(), Failure> {
        let path = format!("/jobs/{job}/files/{}", files.join(","));
        match self.ask(Method::DELETE, &path, None).await {
            // It has ended, or is not known: looking at it tells.
            Err(failure) if matches!(failure.kind, Kind::Refused(_)) => Ok(()),
            answer => answer.map(drop),
        }
    }

    async fn ask(&self, method: Method, path: &str, content: Option<&serde_json::Value>) -> Result<Vec<u8>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header(header::ACCEPT, "application/json");
        let token = self.credentials.token(SCOPE, &self.url).await;
        if let Some(token) = token.map_err(|error| self.unclear(&weir_auth::error_chain(&error)))? {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = match content {
            Some(json) => request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body::full(json.to_string())),
            None => request.body(body::empty()),
        };
        let request = request.map_err(|error| self.unclear(&error))?;
        let response = self.client.send_within(request, PATIENCE).await;
        let (head, answer) = response
            .map_err(|error| self.unclear(&weir_auth::error_chain(&error)))?
            .into_parts();
        let answer = body::read_limited(answer, ANSWER_MAX, PATIENCE).await;
        let answer = answer.map_err(|error| self.unclear(&weir_auth::error_chain(&error)))?;
        let kind = match head.status {
            status if status.is_success() => return Ok(answer.to_vec()),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Kind::Busy(retry_after(&head.headers)),
            // The error concerns this catalogue, not a job.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Kind::Unclear
            }
            status if status.is_client_error() => Kind::Refused(status),
            _ => Kind::Unclear,
        };
        if head.status == StatusCode::UNAUTHORIZED {
            self.credentials.discard(SCOPE, &self.url);
        }
        let message = format!("{} answered {}: {}", self.url, head.status.as_u16(), said(&answer));
        Err(Failure { kind, message })
    }

    fn unclear(&self, why: &dyn fmt::Display) -> Failure {
        Failure {
            kind: Kind::Unclear,
            message: format!(
                "could not ask the transfer service {}: {}",
                self.url,
                weir_auth::redact(&why.to_string())
            ),
        }
    }

    fn senseless(&self, why: &dyn fmt::Display) -> Failure {
        Failure {
            kind: Kind::Unclear,
            message: format!("could not understand the transfer service {}: {why}", self.url),
        }
    }
}

fn joined(jobs: &[Uuid]) -> String {
    jobs.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",")
}

fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The message of an error's body, without secrets.
fn said(answer: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        #[serde(alias = "http_message")]
        message: String,
    }
    match serde_json::from_slice::<Body>(answer) {
        Ok(body) => weir_auth::peer_text(body.message),
        Err(_) => weir_auth::peer_line(answer),
    }
}
