//! A transfer service as the submitter sees it: left alone for a while after it said no, or nothing.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;
use weir_http::Client;
use weir_rules::retry;

use super::fts::{Failure, Fts, Kind};
use crate::credentials::Credentials;

/// A transfer service.
#[derive(Debug)]
pub(super) struct Service {
    url: String,
    fts: Fts,
    namespace: Option<Uuid>,
    pause: Option<Pause>,
    n_failures: u32,
}

#[derive(Debug, Clone)]
struct Pause {
    until: Instant,
    reason: String,
}

impl Service {
    pub(super) fn new(url: &str, client: &Client, credentials: &Credentials) -> Self {
        Self {
            url: url.to_owned(),
            fts: Fts::new(url, client.clone(), credentials.clone()),
            namespace: None,
            pause: None,
            n_failures: 0,
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn fts(&self) -> &Fts {
        &self.fts
    }

    /// The reason and the rest of a pause that is not over.
    pub(super) fn pause(&self) -> Option<(&str, Duration)> {
        let pause = self.pause.as_ref()?;
        let left = pause.until.checked_duration_since(Instant::now())?;
        Some((&pause.reason, left))
    }

    /// The namespace of its job ids, asked for once. `None`: it is paused.
    pub(super) async fn namespace(&mut self) -> Option<Uuid> {
        if self.pause().is_some() {
            return None;
        }
        if self.namespace.is_none() {
            let namespace = self.fts.namespace().await;
            self.namespace = self.heed(namespace).ok();
        }
        self.namespace
    }

    /// Begins or ends a pause, as an answer asks for. A refusal that lies in a job is none of the service's.
    pub(super) fn heed<T>(&mut self, answer: Result<T, Failure>) -> Result<T, Failure> {
        let asked = match &answer {
            Ok(_) => None,
            Err(failure) => match failure.kind {
                Kind::Busy(asked) => Some(asked),
                Kind::Unclear => Some(None),
                Kind::Refused(_) => None,
            },
        };
        let (Some(asked), Err(failure)) = (asked, &answer) else {
            self.n_failures = 0;
            self.pause = None;
            return answer;
        };
        // Several calls of one pass that fail together are one failure.
        if self.pause().is_none() {
            self.n_failures += 1;
            let pause = retry::after_refusal(self.n_failures, asked);
            tracing::warn!(
                reason = failure.message,
                seconds = pause.as_secs(),
                "a transfer service is left alone"
            );
            self.pause = Some(Pause {
                until: Instant::now() + pause,
                reason: failure.message.clone(),
            });
        }
        answer
    }
}
