//! The standing work of the catalogue, done by one node: the evaluator, the injector of loads, the submitter and the reaper. Of several nodes on one database the elected
//! one works; when it dies or falls silent, another one goes on. A node that was stopped for a while and goes on writes nothing, and begins no
//! call, once its term is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use weir_database::{Database, Leadership};
use weir_events::Subscription;
use weir_http::Client;
use weir_store::{StoreError, Term, postgres::TERM};

use crate::{
    clock::Clock,
    config::CatalogConfig,
    credentials::Credentials,
    evaluator::{self, Wakes},
    injector,
    reaper::Reaper,
    requests::uid::Tag,
    transfers::{ServiceStates, Transfers, events},
};

/// Interval between checks of the leader, and between renewals.
const EVERY: Duration = Duration::from_secs(2);

/// This node lets go so long before another one may begin.
const MARGIN: Duration = Duration::from_secs(2);

/// The end of a term that has none: on SQLite there is one node.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// All that the work needs.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) database: Database,
    pub(crate) client: Client,
    pub(crate) credentials: Credentials,
    pub(crate) config: Arc<CatalogConfig>,
    pub(crate) tag: Tag,
    pub(crate) wakes: Wakes,
    pub(crate) services: ServiceStates,
    /// The broker that tells of transfers, if there is one.
    pub(crate) stomp: Option<Arc<Subscription>>,
    /// Whether this node leads.
    pub(crate) leads: Arc<AtomicBool>,
}

impl Work {
    /// Works whenever this node leads, until it is to stop. Then the next one need not wait for the end of the term.
    pub(crate) async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.database.stand().await {
                Ok(Some(leadership)) => {
                    let lead = Box::pin(self.lead(&leadership));
                    let stopped = stop.run_until_cancelled(lead).await.is_none();
                    if stopped && let Err(error) = leadership.resign().await {
                        tracing::warn!(error = weir_auth::error_chain(&error), "the term is left to its end");
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(error = weir_auth::error_chain(&error), "no leader can be elected"),
            }
            stop.run_until_cancelled(tokio::time::sleep(EVERY)).await;
        }
    }

    async fn listen(&self) {
        if let Some(stomp) = &self.stomp {
            events::listen(stomp, &self.database, &self.wakes.transfers).await;
        }
    }

    async fn lead(&self, leadership: &Leadership) {
        tracing::info!("this node leads: it evaluates rules, submits requests and deletes files");
        let term = Arc::new(Term::new());
        let life = if leadership.ends() {
            TERM.saturating_sub(MARGIN)
        } else {
            FOR_EVER
        };
        term.renew(Instant::now() + life);
        self.leads.store(true, Ordering::Relaxed);
        let _let_go = LetGo(self.leads.clone());
        let database = leadership.database();
        let transfers = Transfers::new(
            database.clone(),
            &self.client,
            &self.credentials,
            &self.config.transfers,
            self.tag,
        );
        let transfers = transfers.shown_as(self.services.clone());
        let reaper = Reaper::new(
            database.clone(),
            self.client.clone(),
            self.credentials.clone(),
            &self.config.deletion,
        );
        let work = async {
            tokio::join!(
                evaluator::run(database.clone(), self.wakes.clone(), Clock::Service),
                injector::run(database.clone(), self.wakes.clone(), Clock::Service),
                transfers.run(self.wakes.transfers.clone()),
                reaper.run(term.clone()),
                self.listen(),
            );
        };
        tokio::select! {
            _ = term.within(work) => {}
            () = keep(leadership, &term) => {}
        }
        tracing::warn!("this node leads no more");
    }
}

struct LetGo(Arc<AtomicBool>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Renews the term, until another node leads.
async fn keep(leadership: &Leadership, term: &Term) {
    loop {
        tokio::time::sleep(EVERY).await;
        // As of before the question: the database counts from when it was asked at the earliest.
        let asked = Instant::now();
        match leadership.renew().await {
            Ok(()) if leadership.ends() => term.renew(asked + TERM.saturating_sub(MARGIN)),
            Ok(()) => {}
            Err(StoreError::LeadershipLost) => return,
            Err(error) => tracing::warn!(error = weir_auth::error_chain(&error), "the term is not renewed"),
        }
    }
}
