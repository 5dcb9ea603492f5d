//! Starting and stopping an endpoint.

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::SystemTime};

use tokio::task::JoinSet;
use weir_auth::{
    mint::MintError,
    x509::{self, Door, DoorError},
};
use weir_http::{Identity, RunningServer, TlsError, bind_with, serve, server_config, server_config_asking};
use weir_network::firefly::Beacon;

use crate::{
    access::Policy,
    access_log::AccessLog,
    admission::Admission,
    area::{Area, NameSpace},
    backend::OpenRoot,
    checksums::ChecksumDesk,
    config::{ConfigError, StorageConfig},
    data::{BlockPool, blocking},
    metrics::{Metrics, Traffic},
    opening::{Directories, OpenArea, copy_client, limits, mintage, open_area, url, verifier},
    reaper::Reapers,
    service::{Endpoint, answer},
    standing::Standing,
};

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
    /// The certificates of clients cannot be taken.
    #[error("x509")]
    Door(#[from] DoorError),
    /// The key of the endpoint's own tokens cannot be used.
    #[error("tokens.key")]
    Tokens(#[from] MintError),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
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

/// A storage endpoint.
#[derive(Debug)]
pub struct Storage;

/// A storage endpoint that serves until it is shut down. Dropping it stops it without grace.
pub struct Running {
    endpoint: Arc<Endpoint>,
    server: RunningServer,
    reapers: Reapers,
    /// Ends with it.
    _upkeep: JoinSet<()>,
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
    /// Starts an endpoint on the current runtime: opens, sweeps and counts its areas, then listens. Areas are directories.
    ///
    /// # Errors
    /// What [`StartError`] names.
    pub async fn start(config: StorageConfig) -> Result<Running, StartError> {
        Self::start_on(config, Arc::new(Directories)).await
    }

    /// The same, with areas of another kind.
    ///
    /// # Errors
    /// What [`StartError`] names.
    pub async fn start_on(config: StorageConfig, areas: Arc<dyn OpenArea>) -> Result<Running, StartError> {
        config.check()?;
        weir_http::raise_open_files();
        weir_http::keep_freed_memory();
        let metrics = Arc::new(Metrics::default());
        let mut open = Vec::new();
        for area in &config.areas {
            let (areas, area, metrics) = (areas.clone(), area.clone(), metrics.clone());
            open.push(blocking(move || open_area(&*areas, &area, &metrics)).await?);
        }
        let listener = bind_with(config.listen, &config.sockets.settings()).map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| StartError::Listen {
            address: config.listen,
            source,
        })?;
        let door = config.x509.as_ref().map(|x509| Door::open(x509, SystemTime::now()));
        let door = door.transpose()?.map(Arc::new);
        let identity = config
            .tls
            .as_ref()
            .map(|files| Identity::load(&files.certificate, &files.key));
        let identity = identity.transpose()?;
        let tls = identity.as_ref().map(|identity| match &door {
            Some(door) => server_config_asking(identity, Arc::new(door.clients().clone())),
            None => server_config(identity),
        });
        let tls = tls.transpose()?;
        let certificate = identity.and_then(|identity| x509::ends(&identity.chain_pem));
        let log = AccessLog::open(config.access_log.as_deref(), metrics.clone()).map_err(|source| StartError::Log {
            path: config.access_log.clone().unwrap_or_default(),
            source,
        })?;
        let url = url(&config, address);
        let beacon =
            Beacon::start(config.firefly.clone(), &host_of(&url)).map_err(|source| StartError::Firefly { source })?;
        metrics.watch_fireflies(beacon.clone());
        let mintage = mintage(&config, &url)?;
        let endpoint = Arc::new(Endpoint {
            url: url.clone(),
            names: NameSpace::new(open),
            verifier: verifier(&config, &url, mintage.as_ref().map(|mintage| mintage.mint.as_issuer()))?,
            door: door.clone(),
            policy: Arc::new(Policy::new(&config, &url)),
            mintage,
            client: copy_client(&config)?,
            log: Arc::new(log),
            checksums: ChecksumDesk::new(config.limits.checksum_readers, metrics.clone()),
            blocks: Arc::new(BlockPool::default()),
            beacon,
            admission: Admission::new(&config.limits, &config.shares),
            metrics,
            standing: Standing::new(certificate),
            config,
        });
        let service = {
            let endpoint = endpoint.clone();
            tower::service_fn(move |request| answer(endpoint.clone(), request))
        };
        let server = serve(listener, tls, limits(&endpoint.config), service)
            .map_err(|source| StartError::Listen { address, source })?;
        endpoint.metrics.watch(server.watch_occupancy());
        tracing::info!(
            url = endpoint.url,
            areas = endpoint.names.areas().len(),
            "storage endpoint serves"
        );
        let reapers = Reapers::start(
            endpoint.names.areas(),
            &endpoint.metrics,
            endpoint.config.limits.removal_rate.0,
        );
        let mut upkeep = JoinSet::new();
        if let Some(door) = door {
            upkeep.spawn(door.keep_up());
        }
        // The first request need not wait for an issuer.
        let verifier = endpoint.verifier.clone();
        upkeep.spawn(async move {
            let _said_in_the_log = verifier.warm(SystemTime::now()).await;
        });
        Ok(Running {
            endpoint,
            server,
            reapers,
            _upkeep: upkeep,
        })
    }
}

/// The host of a URL, as others know it.
fn host_of(url: &str) -> String {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
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
