//! Requests to a transfer service, and the meaning of their errors for the submitter.

use std::{fmt, time::Duration};

use http::StatusCode;
use uuid::Uuid;
use weir_fts_api::{FtsClient, FtsCredential, FtsError, Submission};
use weir_http::Client;

use super::answer::{FIELDS, JobAnswer};
use crate::credentials::Credentials;

/// Time for one exchange. A cancellation waits up to 10 s for running copies.
const PATIENCE: Duration = Duration::from_secs(30);

/// The error of a transfer service.
#[derive(Debug, Clone)]
pub struct FtsFailure {
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

impl fmt::Display for FtsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FtsError> for FtsFailure {
    fn from(error: FtsError) -> Self {
        let kind = match &error {
            FtsError::Refused { retry_after, .. } if error.is_busy() => Kind::Busy(*retry_after),
            FtsError::Refused { status, .. } => match *status {
                // The error concerns this catalogue, not a job.
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    Kind::Unclear
                }
                status if status.is_client_error() => Kind::Refused(status),
                _ => Kind::Unclear,
            },
            _ => Kind::Unclear,
        };
        Self {
            kind,
            message: weir_auth::redact(&weir_auth::error_chain(&error)),
        }
    }
}

/// A transfer service.
#[derive(Debug, Clone)]
pub struct Fts(FtsClient);

impl Fts {
    /// The service at this URL.
    pub fn new(url: &str, client: Client, credentials: &Credentials) -> Self {
        let credential = credentials
            .of_fts(url)
            .map_or(FtsCredential::Certificate, FtsCredential::Bearer);
        Self(FtsClient::new(url, client, credential).patient(PATIENCE))
    }

    /// The namespace in which it derives ids of jobs for this catalogue.
    ///
    /// # Errors
    /// Here and below: [`FtsFailure`].
    pub async fn namespace(&self) -> Result<Uuid, FtsFailure> {
        let namespace = self.0.namespace().await.map_err(FtsFailure::from);
        // No job is at fault here: a refusal says that this is no transfer service, or the wrong path of one.
        namespace.map_err(|failure| match failure.kind {
            Kind::Refused(_) => FtsFailure {
                kind: Kind::Unclear,
                ..failure
            },
            _ => failure,
        })
    }

    /// Submits a job. An existing one is no failure: ids are derived from the requests.
    pub async fn submit(&self, job: &Submission) -> Result<(), FtsFailure> {
        match self.0.submit(job).await {
            Err(error) if error.status() == Some(StatusCode::CONFLICT) => Ok(()),
            answer => answer.map(drop).map_err(FtsFailure::from),
        }
    }

    /// Looks at these jobs.
    pub async fn look(&self, jobs: &[Uuid]) -> Result<Vec<JobAnswer>, FtsFailure> {
        match (self.0.jobs(jobs, FIELDS).await, jobs) {
            // Of several jobs each has a status of its own.
            (Err(error), [job]) if error.status() == Some(StatusCode::NOT_FOUND) => Ok(vec![JobAnswer::unknown(*job)]),
            (answer, _) => Ok(answer?.into_iter().filter_map(JobAnswer::of).collect()),
        }
    }

    /// Cancels files of a job.
    pub async fn cancel(&self, job: Uuid, files: &[u64]) -> Result<(), FtsFailure> {
        match self.0.cancel_files(job, files).await.map_err(FtsFailure::from) {
            // It has ended, or is not known: looking at it tells.
            Err(failure) if matches!(failure.kind, Kind::Refused(_)) => Ok(()),
            answer => answer,
        }
    }
}
