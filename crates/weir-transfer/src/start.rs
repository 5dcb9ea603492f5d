//! The service as a whole: store, core, driver, executor and door, started, and stopped in order.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;
use weir_auth::Verifier;
use weir_executor::{Keeper, Modes, Namespace};
use weir_http::{RunningServer, ServerLimits};
use weir_service::{
    reload::{Reloads, keep_up, look},
    tasks::Tasks,
};

use crate::{
    callers::Callers,
    config::TransferConfig,
    election,
    events::Events,
    evolution::Evolution,
    nodes::{Entry, Hands, Membership, Seat},
    opening::{StartError, certificates, client, events, for_users, host_of, node, open, rules},
    reload::{Reloading, server_tls},
    rest,
    servers::ServersTrust,
    service::{FileIds, ReadPlaces, Service},
    settings::{Settings, configured},
    store::{Standing, Store, StoreError},
    submission::SubmissionLimits,
};

/// Starts transfer services.
#[derive(Debug)]
pub struct TransferService;

/// A running service. Dropping it stops the door; [`Running::shutdown`] also waits for the store.
pub struct Running {
    url: String,
    server: RunningServer,
    service: Arc<Service>,
    reloading: Arc<Reloading>,
    tasks: Tasks,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl TransferService {
    /// Starts a service on the current runtime.
    ///
    /// Returns when the door is open; what the store holds is brought back in the background, and nothing starts before it
    /// is there.
    pub async fn start(config: TransferConfig) -> Result<Running, StartError> {
        weir_service::config::check(&config)?;
        let trust = ServersTrust::open(&config, SystemTime::now()).map_err(StartError::Trust)?;
        let client = trust.judging(&client(&config)?)?;
        let certificates = certificates(&config)?;
        let (tls, certificate_end) = server_tls(&config, certificates.as_ref())?;
        let (store, shared) = open(&config).await?;
        let settings = Settings::load(store.as_ref(), configured(&config))?;
        let listener = weir_http::bind(config.listen).map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = config.url.clone().unwrap_or_else(|| format!("{scheme}://{address}"));
        let callers = Callers::new(&config, &url, client.clone(), certificates, None);
        let keeper = Keeper::new(&client, callers.verifier.clone(), store.clone(), rules(&config))?;

        let tasks = Tasks::default();
        let stop = tasks.stop().clone();
        let events = events(&config, &host_of(&url), &store, &client)?;
        let membership = shared.map(|shared| Membership::new(shared, node(&config, &url), stop.clone()));
        let entry = match &membership {
            Some(membership) => {
                // Its time begins before anything does.
                membership.pulse().await?;
                Some(Entry::new(membership.clone())?)
            }
            None => None,
        };

        let service = Arc::new(Service {
            store,
            driver: Seat::new(entry.clone()),
            membership,
            client: client.clone(),
            namespace: Namespace::new(for_users(&client, &config)),
            config: config.clone(),
            events,
            keeper,
            url: url.clone(),
            callers: Arc::new(callers).into(),
            settings,
            evolution: Evolution::default(),
            watchdog: Arc::default(),
            submission: SubmissionLimits {
                files: config.limits.files_per_job,
                plain_http: config.plain_http,
                links: config.limits.links_per_job,
                ..SubmissionLimits::default()
            },
            modes: Arc::new(Modes::new(config.copy.mode_patience)),
            reloads: Reloads::default(),
            answer_node: rest::answer_node,
            host: host_of(&url),
            body_max: usize::try_from(config.limits.body.0).unwrap_or(usize::MAX),
            ids: FileIds::default(),
            reserved: Mutex::default(),
            reading: ReadPlaces::default(),
            stopping: CancellationToken::new(),
        });
        begin(&service, entry, &tasks).await?;
        service.reloads.shows_certificate(certificate_end);
        let reloading = Arc::new(Reloading::new(service.clone(), trust, tls.clone()));
        let server_limits = ServerLimits {
            connections: config.limits.connections,
            connections_per_client: Some(config.limits.per_client()),
            grace: rest::GRACE,
            linger: LINGER,
            ..ServerLimits::default()
        };
        let server = weir_http::serve(listener, tls, server_limits, rest::door(service.clone())).map_err(|source| {
            StartError::Listen {
                address: config.listen,
                source,
            }
        })?;
        crate::upkeep::start(&service, &tasks);
        let seat = service.driver.clone();
        tasks.spawn(crate::upkeep::keep_house(
            service.store.clone(),
            config.history.clone(),
            move || seat.is_taken(),
        ));
        let seat = service.driver.clone();
        tasks.spawn(service.keeper.clone().sweep(move || seat.is_taken()));
        tasks.spawn(keep_up(Arc::downgrade(&reloading)));
        // The first request need not wait for an issuer.
        tasks.spawn(warm(service.callers.get().verifier.clone()));
        tracing::info!(url, schedules = service.driver.is_taken(), "transfer service started");
        Ok(Running {
            url,
            server,
            service,
            reloading,
            tasks,
        })
    }
}

impl Running {
    /// How clients write this service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    pub fn address(&self) -> std::net::SocketAddr {
        self.server.address()
    }

    /// Takes another configuration while it serves. Requests in hand go on as they began; who comes from now on, on open connections
    /// too, meets the new one, and new connections the new certificate.
    ///
    /// It takes who may call (`issuer`, `admin`, `broker`, `x509`, audiences, levels, `metrics_allow`), and the service's certificate. Gives
    /// what of the rest needs a restart, a sentence for each key; that stays as it was.
    ///
    /// # Errors
    /// It cannot be served; then nothing has changed.
    pub async fn reload(&self, config: TransferConfig) -> Result<Vec<String>, StartError> {
        let taken = self.reloading.reload(config).await;
        tokio::spawn(warm(self.service.callers.get().verifier.clone()));
        taken
    }

    /// Puts down that there was a configuration to take which cannot be read. Nothing changes.
    pub fn refuse_reload(&self, why: &str) {
        self.reloading.refuse(why);
    }

    /// Looks at the files of certificates, authorities and users, and takes those that have changed, as it does each minute by itself: whom
    /// authorities have revoked is refused from here on. What cannot be read is left as it was.
    pub async fn look(&self) {
        look(self.reloading.clone()).await;
    }

    #[cfg(test)]
    pub(crate) fn service_for_tests(&self) -> Arc<Service> {
        self.service.clone()
    }

    /// Stops in good order: no new request, open ones are answered within five seconds, then nothing new starts, and what runs is let go and
    /// resumed at the next start, or by another node. Returns when the store holds everything that was promised.
    pub async fn shutdown(self) {
        // What is open is answered first, with all that answers need still at work.
        self.service.stopping.cancel();
        self.server.shutdown().await;
        self.tasks.end().await;
        self.service.driver.shutdown().await;
        if let Some(membership) = &self.service.membership {
            membership.leave().await;
        }
        self.service.events.close().await;
        self.service.keeper.close().await;
        let store = self.service.store.clone();
        drop((self.service, self.reloading));
        let leaving = store.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || leaving.resign()).await {
            tracing::warn!(%error, "could not leave office; the next scheduler waits some seconds");
        }
        // A read that is under way still holds the store, and with it the lock of its file: whoever starts the service
        // again would find it taken.
        let patience = tokio::time::Instant::now() + STORE_PATIENCE;
        while Arc::strong_count(&store) > 1 && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// How long a client's connection is kept at a stop, for a request that is on its way: clients send the next one soon, or not at all.
const LINGER: Duration = Duration::from_millis(500);

/// How long a shutdown waits for the last reader of the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

async fn warm(verifier: Verifier) {
    let _said_in_the_log = verifier.warm(SystemTime::now()).await;
}

/// Begins to work: as the only node, or as one of several.
async fn begin(service: &Arc<Service>, entry: Option<Arc<Entry>>, tasks: &Tasks) -> Result<(), StoreError> {
    let (Some(membership), Some(entry)) = (&service.membership, entry) else {
        let epoch = service.read(Store::next_epoch).await?;
        service.take_office(epoch).await?;
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
        service.take_office(epoch).await?;
    }
    if role.copies() {
        let events = Events::courier();
        let executor = service.executor(&events, None);
        Hands::start(membership, (executor, events), entry.writer(), tasks);
    }
    tasks.tracker().spawn(election::hold(
        service.clone(),
        membership.clone(),
        role.stands(),
        tasks.stop().clone(),
    ));
    Ok(())
}
