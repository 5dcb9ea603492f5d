//! The submitter: hands requests to transfer services as jobs, asks how these go, and has those cancelled that no rule wants any more.
//!
//! Each step is a row before it is a call, and each call may be made twice: jobs have ids that are derived from their requests. One task does
//! all of it, so that nothing is submitted while it is cancelled.

pub mod answer;
mod cancel;
pub mod events;
pub mod fts;
mod job;
pub mod plan;
mod poll;
mod service;
mod submit;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_database::{Database, Session};
use weir_http::Client;
use weir_service::time::Millis;
use weir_store::StoreError;

use service::Service;

use crate::{
    clock::Clock,
    config::TransfersConfig,
    credentials::Credentials,
    replicas,
    requests::{history, uid::Tag},
};

/// Interval of the search for work without a notification.
const EVERY: Duration = Duration::from_secs(1);

/// How often attempts that ended long ago are forgotten.
const FORGET_EVERY: Millis = 600_000;

/// Uploads that are given up together, at most.
const UPLOADS: usize = 1_000;

/// The submitter.
#[derive(Debug)]
pub struct Transfers {
    database: Database,
    clock: Clock,
    credentials: Credentials,
    config: TransfersConfig,
    tag: Tag,
    /// In the order of the configuration.
    services: Vec<Service>,
    forgotten: Millis,
    shown: ServiceStates,
}

/// The states of the services, for observers.
pub type ServiceStates = Arc<Mutex<Vec<ServiceState>>>;

/// How a transfer service stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState {
    /// Its URL.
    pub url: String,
    /// Why it is left alone, and for how long from now on.
    pub pause: Option<(String, Duration)>,
}

impl Transfers {
    /// A submitter for the services of the configuration.
    pub fn new(
        database: Database,
        client: &Client,
        credentials: &Credentials,
        config: &TransfersConfig,
        tag: Tag,
    ) -> Self {
        let service = |url: &String| Service::new(url.trim_end_matches('/'), client, credentials);
        Self {
            database,
            clock: Clock::Service,
            credentials: credentials.clone(),
            tag,
            services: config.services.iter().map(service).collect(),
            config: config.clone(),
            forgotten: 0,
            shown: ServiceStates::default(),
        }
    }

    /// The same, which shows here how the services stand.
    #[must_use]
    pub fn shown_as(mut self, shown: ServiceStates) -> Self {
        self.shown = shown;
        self
    }

    fn show(&self) {
        let now = self.clock.now();
        let state = |service: &Service| ServiceState {
            url: service.url().to_owned(),
            pause: service.closed(now).map(|(reason, left)| (reason.to_owned(), left)),
        };
        let states = self.services.iter().map(state).collect();
        *self.shown.lock() = states;
    }

    /// Works until it is dropped. `wake` tells that there is something to do.
    pub async fn run(mut self, wake: Arc<Notify>) {
        loop {
            if !self.pass().await {
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = wake.notified() => {}
                }
            }
        }
    }

    /// Does a part of all that is to be done; whether there is more to do at once.
    pub async fn pass(&mut self) -> bool {
        let done = async {
            let resumed = self.resume().await?;
            let cancelled = self.cancel().await?;
            let polled = self.poll().await?;
            let submitted = self.submit().await?;
            self.forget().await?;
            Ok::<_, StoreError>(resumed | cancelled | polled | submitted)
        };
        let done = done.await;
        self.show();
        done.unwrap_or_else(|error| {
            let error = weir_auth::error_chain(&error);
            tracing::warn!(error, "requests cannot be worked on; the next pass tries again");
            false
        })
    }

    /// The service at this URL; `None`: the configuration has it no more.
    fn service(&mut self, url: &str) -> Option<&mut Service> {
        self.services.iter_mut().find(|service| service.url() == url)
    }

    async fn forget(&mut self) -> Result<(), StoreError> {
        let now = self.clock.now();
        if now - self.forgotten < FORGET_EVERY {
            return Ok(());
        }
        let keep = i64::try_from(self.config.history.as_millis()).unwrap_or(i64::MAX);
        let before = now.saturating_sub(keep);
        let forget = move |session: &mut dyn Session| {
            replicas::give_up_uploads(session, now, UPLOADS)?;
            history::forget(session, before)
        };
        if !self.database.write(forget).await? {
            self.forgotten = now;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
