//! A transfer service as the submitter sees it: left alone for a while after it said no, or nothing.

use std::time::Duration;

use uuid::Uuid;
use weir_http::Client;
use weir_rules::retry;
use weir_service::time::Millis;

use super::fts::{Fts, FtsFailure, Kind};
use crate::credentials::Credentials;

/// A transfer service.
#[derive(Debug)]
pub(super) struct Service {
    url: String,
    fts: Fts,
    namespace: Option<Uuid>,
    /// It is out of reach: nothing is asked.
    away: Backoff,
    /// Its queue is full: nothing is submitted.
    full: Backoff,
}

/// A time in which a service is left alone.
#[derive(Debug, Default)]
struct Backoff {
    until: Option<Millis>,
    reason: String,
    n_failures: u32,
}

impl Backoff {
    /// The reason and the rest of it, if it is not over.
    fn left(&self, now: Millis) -> Option<(&str, Duration)> {
        let left = u64::try_from(self.until? - now).ok()?;
        Some((&self.reason, Duration::from_millis(left)))
    }

    /// Begins, or goes on: several calls that fail together are one failure.
    fn begin(&mut self, url: &str, failure: &FtsFailure, asked: Option<Duration>, now: Millis) {
        if self.left(now).is_some() {
            return;
        }
        self.n_failures += 1;
        let pause = retry::after_refusal(self.n_failures, asked);
        let (reason, seconds) = (failure.message.as_str(), pause.as_secs());
        tracing::warn!(service = url, reason, seconds, "a transfer service is left alone");
        self.until = Some(now.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX)));
        self.reason.clone_from(&failure.message);
    }
}

impl Service {
    pub(super) fn new(url: &str, client: &Client, credentials: &Credentials) -> Self {
        Self {
            url: url.to_owned(),
            fts: Fts::new(url, client.clone(), credentials),
            namespace: None,
            away: Backoff::default(),
            full: Backoff::default(),
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn fts(&self) -> &Fts {
        &self.fts
    }

    /// Whether nothing is asked of it now.
    pub(super) fn is_away(&self, now: Millis) -> bool {
        self.away.left(now).is_some()
    }

    /// The reason why it takes no jobs now, and for how long.
    pub(super) fn closed(&self, now: Millis) -> Option<(&str, Duration)> {
        self.away.left(now).or_else(|| self.full.left(now))
    }

    /// The namespace of its job ids, asked for once. `None`: it takes no jobs now.
    pub(super) async fn namespace(&mut self, now: Millis) -> Option<Uuid> {
        if self.closed(now).is_some() {
            return None;
        }
        if self.namespace.is_none() {
            let namespace = self.fts.namespace().await;
            self.namespace = self.heed(namespace, now).ok();
        }
        self.namespace
    }

    /// Heeds the answer to a look or a cancellation.
    pub(super) fn heed<T>(&mut self, answer: Result<T, FtsFailure>, now: Millis) -> Result<T, FtsFailure> {
        match &answer {
            Err(failure) => match failure.kind {
                Kind::Busy(asked) => self.away.begin(&self.url, failure, asked, now),
                Kind::Unclear => self.away.begin(&self.url, failure, None, now),
                // The job itself is the reason.
                Kind::Refused(_) => self.away = Backoff::default(),
            },
            Ok(_) => self.away = Backoff::default(),
        }
        answer
    }

    /// Processes the answer to a submission. While its queue is full the service is polled all the same: rules whose
    /// files have arrived become OK.
    pub(super) fn heed_submission<T>(&mut self, answer: Result<T, FtsFailure>, now: Millis) -> Result<T, FtsFailure> {
        match &answer {
            Err(failure) => {
                if let Kind::Busy(asked) = failure.kind {
                    self.full.begin(&self.url, failure, asked, now);
                    return answer;
                }
            }
            Ok(_) => self.full = Backoff::default(),
        }
        self.heed(answer, now)
    }
}
