//! Shared parts of a running service: store, driver, executor, settings; and the start of scheduling.

use std::{
    collections::HashSet,
    ops::Range,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_executor::{Executor, Modes, Namespace, TokenRefresher};
use weir_sched::Scheduler;
use weir_service::time;

use crate::{
    config::TransferConfig,
    driver::{Beginning, Driver, OtherNodes},
    events::Events,
    evolution::Evolution,
    nodes::{Membership, RemoteNodes, SchedulerHandle, Scheduling},
    opening::{core_config, executor_settings, for_users},
    outbound::Outbound,
    settings::{Plan, Settings, difference},
    store::{Store, StoreError, postgres::Asked},
    watchdog::Watchdog,
};

/// Answers a request that came in at a node that does not schedule: heading and body. The door does so.
pub type AnswerNode = Box<dyn Fn(Asked) -> BoxFuture<'static, (String, Vec<u8>)> + Send + Sync>;

/// The state that all requests share.
pub struct Service {
    /// Where jobs live.
    pub store: Arc<dyn Store>,
    /// The scheduler, if it is at this node.
    pub driver: SchedulerHandle,
    /// With a database that other nodes may use.
    pub membership: Option<Arc<Membership>>,
    /// Of storages, for users.
    pub namespace: Namespace,
    /// As it was read at the start.
    pub config: TransferConfig,
    /// The event writer.
    pub events: Events,
    /// Keeps tokens fresh.
    pub refresher: Arc<TokenRefresher>,
    /// The settings of administrators.
    pub settings: Settings,
    /// The service stops: every waiting request is answered now.
    pub stopping: CancellationToken,
    /// History of the limits of links.
    pub evolution: Evolution,
    /// Tells work that is due and does not move.
    pub watchdog: Arc<Watchdog>,
    /// The copy modes that copies of this node have learned.
    pub modes: Arc<Modes>,
    /// The door's handler for requests of other nodes.
    pub(crate) answer_node: OnceLock<AnswerNode>,
    /// Connections to others.
    pub outbound: Outbound,
    /// This host's name, for `submit_host` and `transfer_host`.
    pub host: String,
    /// File ids that this node may give.
    pub(crate) ids: FileIds,
    /// Deterministic job ids between the look whether they exist and their record.
    pub(crate) reserved: Mutex<HashSet<Uuid>>,
    /// Slots for concurrent reads of the store.
    pub(crate) reading: ReadPlaces,
}

/// File ids that this node may give.
#[derive(Default)]
pub(crate) struct FileIds(tokio::sync::Mutex<Range<u64>>);

/// Limits how many read from the store at once.
pub(crate) struct ReadPlaces(Arc<Semaphore>);

impl Default for ReadPlaces {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READ_PLACES)))
    }
}

impl Service {
    /// The host of the one node that there is. `None`: there are several, and which one did something is known only where that was noted.
    pub fn one_host(&self) -> Option<&str> {
        self.membership.is_none().then_some(self.host.as_str())
    }

    /// Whether this VO's transfers are to be the only ones to their destinations.
    pub fn wants_one_writer(&self, vo: &str) -> bool {
        let listed = &self.config.limits.check_duplicates;
        listed.iter().any(|listed| listed == vo || listed == "*")
    }
}

/// Most concurrent reads of the store, including those that wait for a reader: a part of tokio's 512 blocking threads.
const READ_PLACES: usize = 64;

/// How long others wait for one of these places.
const READ_PATIENCE: Duration = Duration::from_secs(10);

impl Service {
    /// Takes the next `n` file ids, which follow each other: the first.
    pub async fn file_ids(&self, n: usize) -> Result<u64, StoreError> {
        let n = n as u64;
        let mut ids = self.ids.0.lock().await;
        if ids.end - ids.start < n {
            *ids = self.read(move |store| store.take_file_ids(n)).await?;
        }
        let first = ids.start;
        ids.start += n;
        Ok(first)
    }

    /// Begins to schedule in this epoch.
    pub(crate) async fn lead(self: &Arc<Self>, epoch: u64) -> Result<(), StoreError> {
        if let Some(membership) = &self.membership {
            membership.begin_scheduling(epoch).await;
        }
        let following = self.clone();
        let (last_life_ended, beginning) = self
            .read(move |store| {
                following.settings.follow(store)?;
                following.settings.audit.follow(store)?;
                Ok((crate::driver::last_life_ended(store)?, Beginning::read(store)?))
            })
            .await?;
        let executor = self.executor(&self.events, last_life_ended);
        let remote_nodes = self.membership.clone().map(|membership| {
            let slots = membership.node().slots;
            RemoteNodes::new(membership, epoch, executor.clone(), slots)
        });
        let told = difference(&Plan::new(), &self.settings.plan());
        let driver = Driver::start(
            Scheduler::new(core_config(&self.config, epoch)),
            (self.store.clone(), beginning),
            (executor, self.events.clone()),
            &told,
            Some(weir_sched::Command::Begin),
            remote_nodes
                .as_ref()
                .map(|(remote_nodes, _)| Arc::new(remote_nodes.clone()) as Arc<dyn OtherNodes>),
        )?;
        driver.limit(&self.config.limits).await;
        if let Some((remote_nodes, errands)) = remote_nodes {
            let answering = self.clone();
            let scheduling = Scheduling {
                driver: driver.clone(),
                events: self.events.clone(),
                answer: Box::new(move |asked| answering.answer(asked)),
            };
            tokio::spawn(remote_nodes.run(scheduling, errands));
        }
        tracing::info!(epoch, "this node schedules");
        self.driver.take(driver);
        Ok(())
    }

    /// Passes a request of another node to the door.
    fn answer(&self, asked: Asked) -> BoxFuture<'static, (String, Vec<u8>)> {
        match self.answer_node.get() {
            Some(answer) => answer(asked),
            // As if no scheduler ran here.
            None => Box::pin(std::future::ready((String::new(), Vec::new()))),
        }
    }

    /// Applies the settings of other nodes.
    pub(crate) async fn follow_settings(self: &Arc<Self>) {
        if self.driver.is_taken() {
            return;
        }
        let following = self.clone();
        if let Err(error) = self.read(move |store| following.settings.follow(store)).await {
            tracing::debug!(%error, "could not read settings");
        }
    }

    pub(crate) fn executor(&self, events: &Events, last_life_ended: Option<time::Millis>) -> Executor {
        Executor::new(
            for_users(&self.outbound.client, &self.config),
            self.store.clone(),
            (executor_settings(&self.config), self.modes.clone()),
            Arc::new(events.clone()),
            self.refresher.clone(),
            last_life_ended,
        )
    }

    /// Keeps a job id for one submission. `None`: another submission has it.
    pub fn reserve(self: &Arc<Self>, job: Uuid) -> Option<Reservation> {
        let mut reserved = self.reserved.lock();
        reserved.insert(job).then(|| Reservation {
            service: self.clone(),
            job,
        })
    }

    /// Reads from the store on a thread that may block.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, places) = (self.store.clone(), self.reading.0.clone());
        let reading = async {
            // Waiting reads must not take the threads that heartbeats need, and a client that left must not start as
            // many reads again at once.
            let Ok(Ok(place)) = tokio::time::timeout(READ_PATIENCE, places.acquire_owned()).await else {
                let text = "too much is read from the store at once";
                return Err(StoreError::Unavailable(text.into()));
            };
            let read = move || {
                let _place = place;
                read(store.as_ref())
            };
            tokio::task::spawn_blocking(read)
                .await
                .unwrap_or_else(|error| Err(StoreError::Broken(error.into())))
        };
        match &self.membership {
            Some(membership) => membership.unless_away(reading).await,
            None => reading.await,
        }
    }
}

/// A job id that no other submission can take.
pub struct Reservation {
    service: Arc<Service>,
    job: Uuid,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.service.reserved.lock().remove(&self.job);
    }
}
