//! Starting and stopping an endpoint.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::Semaphore;
use weir_auth::{TrustedIssuer, Verifier, VerifierConfig};
use weir_http::{
    AddressFilter, Client, ClientConfig, Identity, RunningServer, ServerLimits, TlsError, bind, serve, server_config,
};

use crate::{
    access_log::AccessLog,
    area::{Area, AreaSetup, NameSpace, ReadOnly},
    backend::{Backend, OpenRoot, PosixBackend},
    checksums::ChecksumDesk,
    config::{AreaConfig, ConfigError, Durability, StorageConfig},
    data::{BlockPool, blocking},
    metrics::{Metrics, Traffic},
    reaper::Reapers,
    refusal::chain,
    service::{Endpoint, answer},
};

/// Header lines of a request: third-party copies carry some dozens of `TransferHeader…`.
const HEADERS_LIMIT: usize = 200;

/// Why an endpoint did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration does not hold together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An area's directory cannot be served.
    #[error("area {area}")]
    Area {
        /// Its name.
        area: String,
        /// What is wrong with its directory.
        #[source]
        source: OpenRoot,
    },
    /// Certificate, key or authorities cannot be used.
    #[error("TLS")]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
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

/// A storage endpoint.
#[derive(Debug)]
pub struct Storage;

/// A storage endpoint that serves until it is shut down. Dropping it stops it without grace.
pub struct Running {
    endpoint: Arc<Endpoint>,
    server: RunningServer,
    reapers: Reapers,
}

/// What an endpoint has counted, by area.
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
    /// Starts an endpoint on the current runtime: opens, sweeps and counts its areas, then listens.
    pub async fn start(config: StorageConfig) -> Result<Running, StartError> {
        config.check()?;
        weir_http::raise_open_files();
        let metrics = Arc::new(Metrics::default());
        let mut areas = Vec::new();
        for area in &config.areas {
            let (area, metrics) = (area.clone(), metrics.clone());
            areas.push(blocking(move || open_area(&area, &metrics)).await?);
        }
        let listener = bind(config.listen).map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let tls = match &config.tls {
            Some(files) => Some(server_config(&Identity::load(&files.certificate, &files.key)?)?),
            None => None,
        };
        let log = AccessLog::open(config.access_log.as_deref(), metrics.clone()).map_err(|source| StartError::Log {
            path: config.access_log.clone().unwrap_or_default(),
            source,
        })?;
        let url = url(&config, address);
        let endpoint = Arc::new(Endpoint {
            url: url.clone(),
            names: NameSpace::new(areas),
            verifier: verifier(&config, &url)?,
            client: copy_client(&config)?,
            log: Arc::new(log),
            checksums: ChecksumDesk::new(config.limits.checksum_readers, metrics.clone()),
            blocks: Arc::new(BlockPool::default()),
            transfers: Arc::new(Semaphore::new(config.limits.transfers)),
            copies: Arc::new(Semaphore::new(config.limits.copies)),
            listings: Arc::new(Semaphore::new(config.limits.listings)),
            metrics,
            config,
        });
        let service = {
            let endpoint = endpoint.clone();
            tower::service_fn(move |request| answer(endpoint.clone(), request))
        };
        let server = serve(listener, tls, limits(&endpoint.config), service)
            .map_err(|source| StartError::Listen { address, source })?;
        tracing::info!(
            url = endpoint.url,
            areas = endpoint.names.areas().len(),
            "storage endpoint serves"
        );
        let reapers = Reapers::start(endpoint.names.areas());
        Ok(Running {
            endpoint,
            server,
            reapers,
        })
    }
}

impl Running {
    /// How clients write this endpoint: scheme, host and port, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.endpoint.url
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What it has counted since it started, by area.
    pub fn counters(&self) -> BTreeMap<String, AreaCounters> {
        let count = |area: &Arc<Area>| {
            let usage = area.usage();
            AreaCounters {
                traffic: self.endpoint.metrics.traffic_of(&area.name),
                used: usage.bytes,
                files: usage.files,
            }
        };
        self.endpoint
            .names
            .areas()
            .iter()
            .map(|area| (area.name.clone(), count(area)))
            .collect()
    }

    /// Stops taking connections, lets transfers in hand end within the configured grace, then cuts what is left.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.reapers.stop().await;
        self.endpoint.log.flush().await;
    }
}

fn open_area(config: &AreaConfig, metrics: &Metrics) -> Result<Arc<Area>, StartError> {
    let name = config.name.clone();
    let backend = PosixBackend::open(&config.root).map_err(|source| StartError::Area {
        area: name.clone(),
        source,
    })?;
    // Neither leftovers nor a disk that fails in parts may keep the endpoint from serving what can be served.
    match backend.sweep() {
        Ok(0) => {}
        Ok(swept) => {
            tracing::info!(area = name, swept, "swept what an earlier life left behind");
            metrics.swept.fetch_add(swept, Ordering::Relaxed);
        }
        Err(error) => tracing::error!(area = name, error = %chain(&error), "what an earlier life left behind stays"),
    }
    let counted = backend.usage().inspect_err(|error| {
        tracing::error!(area = name, error = %chain(error), "the area cannot be counted: it takes no changes");
    });
    let read_only = match &counted {
        Err(_) => Some(ReadOnly::Uncounted),
        Ok(_) => config.read_only.then_some(ReadOnly::Configured),
    };
    let setup = AreaSetup {
        name: name.clone(),
        prefix: config.prefix.clone(),
        read_only,
        anonymous_read: config.anonymous_read,
        durable: config.durability == Durability::Full,
        algorithms: config.checksums.clone(),
        quota: config.quota,
    };
    let backend: Arc<dyn Backend> = Arc::new(backend);
    Ok(Arc::new(Area::new(setup, backend, counted.unwrap_or_default())))
}

fn url(config: &StorageConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let default = || format!("{scheme}://{address}");
    config
        .url
        .clone()
        .map_or_else(default, |url| url.trim_end_matches('/').to_owned())
}

fn verifier(config: &StorageConfig, url: &str) -> Result<Verifier, TlsError> {
    let issuers = config.issuers.iter().map(|issuer| TrustedIssuer {
        prefixes: issuer.prefixes.clone(),
        audiences: issuer.audiences.clone(),
        ..TrustedIssuer::new(issuer.url.clone())
    });
    let mut audiences = config.audiences.clone();
    audiences.extend([url.to_owned(), format!("{url}/")]);
    let verifier = VerifierConfig {
        issuers: issuers.collect(),
        audiences,
        any_audience: config.any_audience,
        ..VerifierConfig::default()
    };
    let client = Client::new(ClientConfig::new(config.trust.roots()))?;
    Ok(Verifier::new(verifier, client))
}

/// The client of third-party copies: it connects to no local address but those that are allowed, and from the address that
/// the endpoint listens on, so that the other side's counters tell endpoints apart.
fn copy_client(config: &StorageConfig) -> Result<Client, TlsError> {
    Client::new(ClientConfig {
        connect_timeout: config.tpc.connect_timeout,
        response_timeout: config.tpc.response_timeout,
        filter: Some(AddressFilter::allowing(&config.tpc.allow)),
        local_address: Some(config.listen.ip()).filter(|address| !address.is_unspecified()),
        ..ClientConfig::new(config.trust.roots())
    })
}

fn limits(config: &StorageConfig) -> ServerLimits {
    ServerLimits {
        connections: config.limits.connections,
        head_timeout: config.limits.head_timeout,
        write_timeout: config.limits.idle_timeout,
        headers: HEADERS_LIMIT,
        grace: config.limits.grace,
        ..ServerLimits::default()
    }
}
