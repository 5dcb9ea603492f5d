//! The service as a whole: store, core, driver, executor and door, started, and stopped in order.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use weir_auth::x509::X509Error;
use weir_http::{Identity, RunningServer, ServerLimits, TlsError};

use crate::{
    certificates::{Certificates, CertificatesError},
    config::{ConfigError, TransferConfig},
    election,
    events::{Events, SinkError},
    evolution::Evolution,
    executor::{Keeper, Modes, Namespace},
    nodes::{Entry, Hands, Membership, Seat},
    opening::{client, events, for_users, host_of, node, open, verifier},
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

impl TransferService {
    /// Starts a service on the current runtime.
    ///
    /// Returns when the door is open; what the store holds is brought back in the background, and nothing starts before it
    /// is there.
    pub async fn start(config: TransferConfig) -> Result<Running, StartError> {
        weir_service::config::check(&config)?;
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
            watchdog: Arc::default(),
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
            answer_node: rest::answer_node,
            host: host_of(&url),
            body_max: usize::try_from(config.limits.body.0).unwrap_or(usize::MAX),
            ids: FileIds::default(),
            reserved: Mutex::default(),
            reading: ReadPlaces::default(),
            stopping: CancellationToken::new(),
        });
        begin(&service, entry, &tasks, &stop).await?;
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

/// How long a shutdown waits for the last reader of the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Begins to work: as the only node, or as one of several.
async fn begin(
    service: &Arc<Service>,
    entry: Option<Arc<Entry>>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    let (Some(membership), Some(entry)) = (&service.membership, entry) else {
        let epoch = service.read(Store::next_epoch).await?;
        service.take_office(epoch).await?;
        tasks.spawn(crate::upkeep::keep_scheduling(service.clone(), stop.clone()));
        return Ok(());
    };
    membership.start(tasks);
    let postgres = service.config.postgres.as_ref();
    let role = postgres.map(|postgres| postgres.role).unwrap_or_default();
    if role.stands()
        && let Standing::Elected(epoch) = service.read(Store::stand).await?
    {
        service.take_office(epoch).await?;
    }
    if role.copies() {
        let executor = service.executor(Events::courier(), None);
        Hands::start(membership, executor, entry.writer(), tasks, stop);
    }
    tasks.spawn(election::hold(
        service.clone(),
        membership.clone(),
        role.stands(),
        stop.clone(),
    ));
    Ok(())
}
