//! The service as a whole: store, core, driver, executor and door, put together and taken apart again.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;
use weir_auth::{Verifier, x509::X509Error};
use weir_http::{Client, Identity, RunningServer, ServerLimits, TlsError};
use weir_sched::Scheduler;

use crate::{
    certificates::{Certificates, CertificatesError},
    config::{AdminConfig, ConfigError, Level, TransferConfig},
    driver::{Beginning, Driver, OtherNodes},
    events::{Events, SinkError},
    evolution::Evolution,
    executor::{Executor, Keeper, Modes, Namespace},
    nodes::{self, Entry, Fleet, Hands, Membership, Seat},
    opening::{client, core_config, events, executor_settings, for_users, host_of, node, open, verifier},
    rest,
    servers::ServersTrust,
    settings::{Plan, Settings, configured, difference},
    store::{Standing, Store, StoreError},
    submission::SubmissionLimits,
    time,
};

/// Starts transfer services.
#[derive(Debug)]
pub struct TransferService;

/// A running service. Dropping it stops the door; [`Running::shutdown`] also waits for the store.
pub struct Running {
    url: String,
    server: RunningServer,
    service: Arc<Service>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration makes no sense.
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    /// Certificates, keys or authorities cannot be used.
    #[error("the certificates cannot be used")]
    Tls(#[from] TlsError),
    /// The directories of authorities cannot be read.
    #[error("trust.directories")]
    Trust(#[source] X509Error),
    /// Certificates of clients cannot be taken.
    #[error("the certificates of clients cannot be taken")]
    Certificates(#[from] CertificatesError),
    /// The store cannot be used.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// The events cannot be sent.
    #[error("the events cannot be sent")]
    Events(#[from] SinkError),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// As configured.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What every request shares.
pub(crate) struct Service {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) driver: Seat,
    /// With a database that other nodes may use.
    pub(crate) membership: Option<Arc<Membership>>,
    client: Client,
    /// Of storages, for users.
    pub(crate) namespace: Namespace,
    pub(crate) config: TransferConfig,
    pub(crate) events: Events,
    pub(crate) verifier: Verifier,
    /// Keeps tokens fresh.
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) settings: Settings,
    /// The service stops: whoever waits for something answers now.
    pub(crate) stopping: CancellationToken,
    pub(crate) evolution: Evolution,
    pub(crate) watchdog: crate::watchdog::Watchdog,
    pub(crate) sweeps: rest::ban::Sweeps,
    pub(crate) submission: SubmissionLimits,
    pub(crate) required_scope: Option<String>,
    /// VO by issuer.
    pub(crate) vos: BTreeMap<String, String>,
    pub(crate) admins: Vec<AdminConfig>,
    pub(crate) user_level: Level,
    /// What the copies of this node have learnt of copy modes.
    pub(crate) modes: Arc<Modes>,
    /// Who may read metrics without a token.
    pub(crate) metrics_allow: Vec<weir_http::Network>,
    /// Whose certificates are taken, if any are.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Whom we connect to.
    servers: Arc<ServersTrust>,
    pub(crate) delegations: rest::Delegations,
    /// This host's name, for `submit_host` and `transfer_host`.
    pub(crate) host: String,
    pub(crate) body_max: usize,
    /// File ids that this node may give.
    ids: tokio::sync::Mutex<Range<u64>>,
    /// Deterministic job ids between the look whether they exist and their record.
    reserved: Mutex<HashSet<Uuid>>,
    /// Places for whoever reads from the store.
    reading: Arc<Semaphore>,
}

impl Service {
    /// The host of the one node that there is. `None`: there are several, and which one did something is known only where that was noted.
    pub(crate) fn one_host(&self) -> Option<&str> {
        self.membership.is_none().then_some(self.host.as_str())
    }

    /// Whether this VO's transfers are to be the only ones to their destinations.
    pub(crate) fn wants_one_writer(&self, vo: &str) -> bool {
        let listed = &self.config.limits.check_duplicates;
        listed.iter().any(|listed| listed == vo || listed == "*")
    }
}

impl TransferService {
    /// Starts a service on the current runtime.
    ///
    /// Returns when the door is open; what the store holds is brought back in the background, and nothing starts before it
    /// is there.
    pub async fn start(config: TransferConfig) -> Result<Running, StartError> {
        config.check()?;
        let trust = ServersTrust::open(&config, SystemTime::now())?;
        let client = trust.judging(&client(&config)?)?;
        let certificates = config.x509.as_ref();
        let certificates = certificates.map(|x509| Certificates::open(x509, config.trust.roots(), SystemTime::now()));
        let certificates = certificates.transpose()?.map(Arc::new);
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
        let verifier = verifier(&config, &url, client.clone());
        let keeper = Keeper::new(&client, verifier.clone(), store.clone(), &config)?;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
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
            verifier,
            settings,
            evolution: Evolution::default(),
            watchdog: crate::watchdog::Watchdog::default(),
            sweeps: rest::ban::Sweeps::default(),
            submission: SubmissionLimits {
                files: config.limits.files_per_job,
                plain_http: config.plain_http,
                links: config.limits.links_per_job,
                ..SubmissionLimits::default()
            },
            required_scope: config.required_scope.clone(),
            vos: config
                .issuers
                .iter()
                .map(|issuer| (issuer.url.clone(), issuer.vo.clone()))
                .collect(),
            admins: config.admins.clone(),
            user_level: config.user_level,
            modes: Arc::new(Modes::new(config.copy.mode_patience)),
            metrics_allow: config.metrics_allow.clone(),
            certificates: certificates.clone(),
            servers: Arc::new(trust),
            delegations: rest::Delegations::default(),
            host: host_of(&url),
            body_max: usize::try_from(config.limits.body.0).unwrap_or(usize::MAX),
            ids: tokio::sync::Mutex::new(0..0),
            reserved: Mutex::default(),
            reading: Arc::new(Semaphore::new(READ_PLACES)),
            stopping: CancellationToken::new(),
        });
        service.begin(entry, &tasks, &stop).await?;
        let tls = match &config.tls {
            Some(files) => {
                let identity = Identity::load(&files.certificate, &files.key)?;
                Some(match &certificates {
                    Some(certificates) => {
                        weir_http::server_config_asking(&identity, Arc::new(certificates.clients.clone()))?
                    }
                    None => weir_http::server_config(&identity)?,
                })
            }
            None => None,
        };
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
        crate::upkeep::start(&service, &stop);
        let seat = service.driver.clone();
        tokio::spawn(crate::upkeep::keep_house(
            service.store.clone(),
            config.history.clone(),
            move || seat.is_taken(),
            stop.clone(),
        ));
        let seat = service.driver.clone();
        tokio::spawn(service.keeper.clone().sweep(move || seat.is_taken(), stop.clone()));
        if let Some(certificates) = certificates {
            tokio::spawn(certificates.keep_up(stop.clone()));
        }
        tokio::spawn(service.servers.clone().keep_up(service.client.clone(), stop.clone()));
        tracing::info!(url, schedules = service.driver.is_taken(), "transfer service started");
        Ok(Running {
            url,
            server,
            service,
            stop,
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

    /// Looks at the directories of authorities now, and not within a minute: whom they have revoked is refused from here on.
    pub async fn look(&self) {
        self.service.servers.look(&self.service.client).await;
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
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.service.driver.shutdown().await;
        if let Some(membership) = &self.service.membership {
            membership.leave().await;
        }
        self.service.events.close().await;
        self.service.keeper.close().await;
        let store = self.service.store.clone();
        drop(self.service);
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

/// How many read from the store, or wait for one of its readers, at once: of tokio's 512 threads for what blocks.
const READ_PLACES: usize = 64;

/// How long others wait for one of these places.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// How long a shutdown waits for the last reader of the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

impl Service {
    /// Takes the next `n` file ids, which follow each other: the first.
    pub(crate) async fn file_ids(&self, n: usize) -> Result<u64, StoreError> {
        let n = n as u64;
        let mut ids = self.ids.lock().await;
        if ids.end - ids.start < n {
            *ids = self.read(move |store| store.take_file_ids(n)).await?;
        }
        let first = ids.start;
        ids.start += n;
        Ok(first)
    }

    /// Begins to work: as the only node, or as one of several.
    async fn begin(
        self: &Arc<Self>,
        entry: Option<Arc<Entry>>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        let (Some(membership), Some(entry)) = (&self.membership, entry) else {
            let epoch = self.read(Store::next_epoch).await?;
            self.take_office(epoch).await?;
            tasks.spawn(crate::upkeep::keep_scheduling(self.clone(), stop.clone()));
            return Ok(());
        };
        membership.start(tasks);
        let postgres = self.config.postgres.as_ref();
        let role = postgres.map(|postgres| postgres.role).unwrap_or_default();
        if role.stands()
            && let Standing::Elected(epoch) = self.read(Store::stand).await?
        {
            self.take_office(epoch).await?;
        }
        if role.copies() {
            let executor = self.executor(Events::courier(), None);
            Hands::start(membership, executor, entry.writer(), tasks, stop);
        }
        tasks.spawn(nodes::hold(
            self.clone(),
            membership.clone(),
            role.stands(),
            stop.clone(),
        ));
        Ok(())
    }

    /// Begins to schedule in this epoch.
    pub(crate) async fn take_office(self: &Arc<Self>, epoch: u64) -> Result<(), StoreError> {
        if let Some(membership) = &self.membership {
            membership.take_office(epoch).await;
        }
        let following = self.clone();
        let (last_life_ended, beginning) = self
            .read(move |store| {
                following.settings.follow(store)?;
                following.settings.audit.follow(store)?;
                Ok((crate::driver::last_life_ended(store)?, Beginning::read(store)?))
            })
            .await?;
        let executor = self.executor(self.events.clone(), last_life_ended);
        let fleet = self.membership.clone().map(|membership| {
            let slots = membership.node().slots;
            Fleet::new(membership, epoch, executor.clone(), slots)
        });
        let told = difference(&Plan::new(), &self.settings.plan());
        let driver = Driver::start(
            Scheduler::new(core_config(&self.config, epoch)),
            (self.store.clone(), beginning),
            executor,
            &told,
            Some(weir_sched::Command::Begin),
            fleet
                .as_ref()
                .map(|(fleet, _)| Arc::new(fleet.clone()) as Arc<dyn OtherNodes>),
        )?;
        driver.limit(&self.config.limits).await;
        if let Some((fleet, errands)) = fleet {
            tokio::spawn(fleet.run(self.clone(), driver.inlet(), errands, driver.stop_token()));
        }
        tracing::info!(epoch, "this node schedules");
        self.driver.take(driver);
        Ok(())
    }

    /// What other nodes have set holds here too, soon.
    pub(crate) async fn follow_settings(self: &Arc<Self>) {
        if self.driver.is_taken() {
            return;
        }
        let following = self.clone();
        if let Err(error) = self.read(move |store| following.settings.follow(store)).await {
            tracing::debug!(%error, "could not read settings");
        }
    }

    fn executor(&self, events: Events, last_life_ended: Option<time::Millis>) -> Executor {
        Executor::new(
            for_users(&self.client, &self.config),
            self.store.clone(),
            (executor_settings(&self.config), self.modes.clone()),
            events,
            self.keeper.clone(),
            last_life_ended,
        )
    }

    /// Keeps a job id for one submission. `None`: another submission has it.
    pub(crate) fn reserve(self: &Arc<Self>, job: Uuid) -> Option<Reservation> {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.insert(job).then(|| Reservation {
            service: self.clone(),
            job,
        })
    }

    /// Reads from the store on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (store, places) = (self.store.clone(), self.reading.clone());
        let reading = async {
            // What waits must not take the threads that signs of life need; and who left may not have as much read again at once.
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
pub(crate) struct Reservation {
    service: Arc<Service>,
    job: Uuid,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.service
            .reserved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.job);
    }
}
