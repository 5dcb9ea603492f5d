//! Starting and stopping an endpoint.

use std::{collections::BTreeMap, fs::File, io, net::SocketAddr, path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::{
    mint::MintError,
    x509::{DoorError, X509Error},
};
use weir_http::{RunningServer, bind_with, serve};

use weir_service::{
    reload::{self, Part},
    tasks::Tasks,
};

use crate::{
    access_log::AccessLog,
    admission::Admission,
    area::{Area, NameSpace},
    backend::OpenRoot,
    checksums::ChecksumReaders,
    config::StorageConfig,
    data::{BlockPool, blocking},
    memory::Budget,
    metrics::{Metrics, Traffic},
    opening::{Directories, OpenArea, limits, open_area, separate, url},
    parts::{Lasting, Parts},
    reaper::Reapers,
    reload::EndpointState,
    service::{Endpoint, answer},
};

/// The reason why an endpoint does not start.
pub type StartError = weir_service::StartError<OpenError>;

/// A part of an endpoint that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An area's directory cannot be served.
    #[error("area {area}")]
    Area {
        /// Its name.
        area: String,
        /// The problem with its directory.
        #[source]
        source: OpenRoot,
    },
    /// The directories of `trust` cannot be read.
    #[error("trust.directories")]
    Trust(#[source] X509Error),
    /// The certificates of clients cannot be taken.
    #[error("x509")]
    Door(#[from] DoorError),
    /// The key of the endpoint's own tokens cannot be used.
    #[error("tokens.key")]
    Tokens(#[from] MintError),
    /// There is no socket for fireflies.
    #[error("could not open a socket for fireflies")]
    Firefly {
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The access log cannot be opened.
    #[error("could not open access_log {path}")]
    Log {
        /// As configured.
        path: std::path::PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl weir_service::OwnError for OpenError {}

/// A storage endpoint.
#[derive(Debug)]
pub struct Storage;

/// A storage endpoint that serves until it is shut down. Dropping it stops it without grace.
pub struct Running {
    url: String,
    shared: Arc<EndpointState>,
    server: RunningServer,
    reapers: Reapers,
    /// Ends with it.
    tasks: Tasks,
}

/// Counters of an endpoint, by area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaCounters {
    /// Bytes that moved.
    pub traffic: Traffic,
    /// Bytes that its files take now.
    pub used: u64,
    /// Files in it now.
    pub files: u64,
}

impl Storage {
    /// Starts an endpoint on the current runtime: opens, sweeps and counts its areas, then listens. Areas are
    /// directories.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: StorageConfig) -> Result<Running, StartError> {
        Self::start_on(config, Arc::new(Directories)).await
    }

    /// As [`Self::start`], with areas of another kind.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start_on(config: StorageConfig, areas: Arc<dyn OpenArea>) -> Result<Running, StartError> {
        weir_service::config::check(&config)?;
        separate(&config.areas)?;
        weir_http::raise_open_files();
        weir_http::keep_freed_memory();
        let metrics = Arc::new(Metrics::default());
        let mut open = Vec::new();
        for area in &config.areas {
            let (areas, area, metrics) = (areas.clone(), area.clone(), metrics.clone());
            open.push(blocking(move || open_area(&*areas, &area, &metrics)).await?);
        }
        let listener =
            bind_with(config.listen, &config.sockets.settings()).map_err(StartError::listen(config.listen))?;
        let address = listener.local_addr().map_err(StartError::listen(config.listen))?;
        let log_file = open_log(&config)?;
        let url = url(&config, address);
        let parts = Parts::make(&config, &url, &metrics, None)?;
        metrics.watch_fireflies(&parts.beacon);
        metrics.reloads.shows_certificate(parts.certificate);
        let tls = parts.tls.clone();
        let memory = Budget::new(usize::try_from(config.limits.memory.0).unwrap_or(usize::MAX));
        metrics.watch_memory(memory.clone());
        let lasting = Lasting {
            names: NameSpace::new(open),
            log: Arc::new(AccessLog::start(log_file, metrics.clone())),
            checksums: ChecksumReaders::new(config.limits.checksum_readers, metrics.clone(), &memory),
            blocks: BlockPool::new(&memory),
            admission: Admission::new(&config.limits, &config.shares, memory.clone()),
            memory,
            metrics,
        };
        let removal_rate = config.limits.removal_rate.0;
        let limits = limits(&config);
        let endpoint = Arc::new(Endpoint::new(config, url.clone(), parts, lasting));
        let shared = Arc::new(EndpointState::new(endpoint.clone(), tls.clone()));
        let service = {
            let shared = shared.clone();
            tower::service_fn(move |request| answer(shared.current.get(), request))
        };
        let server = serve(listener, tls, limits, service).map_err(StartError::listen(address))?;
        endpoint.metrics.watch(server.watch_occupancy());
        endpoint.metrics.tcp.watch_clients(server.ledger());
        endpoint.metrics.watch_bandwidth(endpoint.admission.bandwidth());
        tracing::info!(url, areas = endpoint.names.areas().len(), "storage endpoint serves");
        let reapers = Reapers::start(endpoint.names.areas(), &endpoint.metrics, removal_rate);
        let tasks = Tasks::default();
        tasks.spawn(reload::keep_up(Arc::downgrade(&shared)));
        // The first request need not wait for an issuer.
        let verifier = endpoint.verifier.clone();
        tasks.spawn(async move {
            let _said_in_the_log = verifier.warm(SystemTime::now()).await;
        });
        Ok(Running {
            url,
            shared,
            server,
            reapers,
            tasks,
        })
    }
}

/// Opens the access log, if there is to be one.
pub(crate) fn open_log(config: &StorageConfig) -> Result<Option<File>, OpenError> {
    let open = |path: &PathBuf| {
        AccessLog::open(path).map_err(|source| OpenError::Log {
            path: path.clone(),
            source,
        })
    };
    config.access_log.as_ref().map(open).transpose()
}

impl Running {
    /// How clients write this endpoint: scheme, host and port, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Counters since the start, by area.
    pub fn counters(&self) -> BTreeMap<String, AreaCounters> {
        let endpoint = self.shared.current.get();
        let count = |area: &Arc<Area>| {
            let usage = area.usage();
            AreaCounters {
                traffic: endpoint.metrics.traffic_of(&area.name),
                used: usage.bytes,
                files: usage.files,
            }
        };
        let areas = endpoint.names.areas().iter();
        areas.map(|area| (area.name.clone(), count(area))).collect()
    }

    /// Applies another configuration while it serves. Requests in hand go on as they began; later requests, on open
    /// connections too, meet the new one, and new connections the new certificate. It reads all files again, and
    /// reopens the access log.
    ///
    /// Returns a sentence for each key that needs a restart; these keep their values.
    ///
    /// # Errors
    /// It cannot be served; then nothing has changed.
    pub async fn reload(&self, config: StorageConfig) -> Result<Vec<String>, StartError> {
        self.shared.reload(config, &self.server, &self.reapers).await
    }

    /// Puts down that there was a configuration to take which cannot be read. Nothing changes.
    pub fn refuse_reload(&self, why: &str) {
        self.shared.reloads.told(Part::Configuration, Err(why));
    }

    /// Checks the files of certificates, authorities and users, and loads the changed ones, as it does each minute by
    /// itself. An unreadable file keeps its former content.
    pub async fn look(&self) {
        reload::look(self.shared.clone()).await;
    }

    /// Stops taking connections, lets transfers in hand end within the configured grace, then cuts the rest.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.tasks.end().await;
        self.reapers.stop().await;
        self.shared.current.get().log.flush().await;
    }
}
