//! The service as a whole: store, core, driver and executor, started, and stopped in order. Its door is elsewhere.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weir_auth::Verifier;
use weir_executor::{Modes, Namespace, TokenRefresher};
use weir_service::tasks::Tasks;

use crate::{
    config::TransferConfig,
    election,
    events::Events,
    evolution::Evolution,
    nodes::{Membership, RemoteExecutor, SchedulerHandle, SubmissionEntry},
    opening::{OpenError, StartError, events, for_users, host_of, node, open, rules},
    outbound::Outbound,
    service::{AnswerNode, FileIds, ReadPlaces, Service},
    settings::{Settings, configured},
    store::{Standing, Store, StoreError, postgres::PostgresStore},
};

/// A store that was opened, and its settings.
pub struct Opened {
    config: TransferConfig,
    store: Arc<dyn Store>,
    /// The same, if other nodes may use it.
    shared: Option<Arc<PostgresStore>>,
    settings: Settings,
}

/// A running service. Dropping it stops its work; [`Running::shutdown`] also waits for the store.
pub struct Running {
    service: Arc<Service>,
    entry: Option<Arc<SubmissionEntry>>,
    tasks: Tasks,
}

impl Opened {
    /// Checks the configuration and opens the store.
    ///
    /// # Errors
    /// [`StartError`]
    pub async fn open(config: TransferConfig) -> Result<Self, StartError> {
        weir_service::config::check(&config)?;
        let (store, shared) = open(&config).await.map_err(OpenError::Store)?;
        let settings = Settings::load(store.as_ref(), configured(&config)).map_err(OpenError::Store)?;
        Ok(Self {
            config,
            store,
            shared,
            settings,
        })
    }

    /// A service that clients and other nodes know by this URL. It does nothing before [`Running::begin`].
    ///
    /// # Errors
    /// [`StartError`]
    pub async fn start(self, url: &str, outbound: Outbound, verifier: Verifier) -> Result<Running, StartError> {
        let Self {
            config,
            store,
            shared,
            settings,
        } = self;
        let refresher = TokenRefresher::new(&outbound.client, verifier, store.clone(), rules(&config))?;
        let tasks = Tasks::default();
        let events = events(&config, &host_of(url), &store, &outbound.client).map_err(OpenError::Events)?;
        let membership = shared.map(|shared| Membership::new(shared, node(&config, url), tasks.stop().clone()));
        let entry = match &membership {
            Some(membership) => {
                // Its time begins before anything does.
                membership.pulse().await.map_err(OpenError::Store)?;
                Some(SubmissionEntry::new(membership.clone()).map_err(OpenError::Store)?)
            }
            None => None,
        };
        let service = Arc::new(Service {
            store,
            driver: SchedulerHandle::new(entry.clone()),
            membership,
            namespace: Namespace::new(for_users(&outbound.client, &config)),
            events,
            refresher,
            settings,
            evolution: Evolution::default(),
            watchdog: Arc::default(),
            modes: Arc::new(Modes::new(config.copy.mode_patience)),
            answer_node: OnceLock::new(),
            outbound,
            host: host_of(url),
            config,
            ids: FileIds::default(),
            reserved: Mutex::default(),
            reading: ReadPlaces::default(),
            stopping: CancellationToken::new(),
        });
        Ok(Running { service, entry, tasks })
    }
}

impl Running {
    /// The state that its door shares.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Work in the background that ends with it.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Begins to work. Returns when it schedules, or follows another node that does. The contents of the store are
    /// restored in the background, and nothing starts before they are there. The door `answers` requests of other
    /// nodes.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn begin(&self, answers: AnswerNode) -> Result<(), StartError> {
        // It begins once.
        let _ = self.service.answer_node.set(answers);
        begin(&self.service, self.entry.clone(), &self.tasks)
            .await
            .map_err(OpenError::Store)?;
        let (service, tasks) = (&self.service, &self.tasks);
        crate::upkeep::start(service, tasks);
        let handle = service.driver.clone();
        tasks.spawn(crate::upkeep::keep_house(
            service.store.clone(),
            service.config.history.clone(),
            move || handle.is_taken(),
        ));
        let handle = service.driver.clone();
        tasks.spawn(service.refresher.clone().sweep(move || handle.is_taken()));
        Ok(())
    }

    /// Stops in good order, once the door is closed: nothing new starts; running copies are abandoned, and resumed at
    /// the next start or by another node. Returns when all acknowledged changes are in the store.
    pub async fn shutdown(self) {
        self.tasks.end().await;
        self.service.driver.shutdown().await;
        if let Some(membership) = &self.service.membership {
            membership.leave().await;
        }
        self.service.events.close().await;
        self.service.refresher.close().await;
        let store = self.service.store.clone();
        drop(self.service);
        let leaving = store.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || leaving.resign()).await {
            tracing::warn!(%error, "could not end the term of this scheduler; the next one waits some seconds");
        }
        // A read that is under way still holds the store, and with it the lock of its file: a restarted service would
        // find it locked.
        let patience = tokio::time::Instant::now() + STORE_PATIENCE;
        while Arc::strong_count(&store) > 1 && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// How long a shutdown waits for the last reader of the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Begins to work: as the only node, or as one of several.
async fn begin(service: &Arc<Service>, entry: Option<Arc<SubmissionEntry>>, tasks: &Tasks) -> Result<(), StoreError> {
    let (Some(membership), Some(entry)) = (&service.membership, entry) else {
        let epoch = service.read(Store::next_epoch).await?;
        service.lead(epoch).await?;
        let stop = tasks.stop().clone();
        tasks
            .tracker()
            .spawn(crate::upkeep::keep_scheduling(service.clone(), stop));
        return Ok(());
    };
    membership.start(tasks.tracker());
    let postgres = service.config.postgres.as_ref();
    let role = postgres.map(|postgres| postgres.role).unwrap_or_default();
    if role.stands()
        && let Standing::Elected(epoch) = service.read(Store::stand).await?
    {
        service.lead(epoch).await?;
    }
    if role.copies() {
        let events = Events::for_a_remote_executor();
        let executor = service.executor(&events, None);
        RemoteExecutor::start(membership, (executor, events), entry.writer(), tasks);
    }
    tasks.tracker().spawn(election::hold(
        service.clone(),
        membership.clone(),
        role.stands(),
        tasks.stop().clone(),
    ));
    Ok(())
}
