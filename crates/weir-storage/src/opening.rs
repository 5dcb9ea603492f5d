//! What an endpoint needs before it listens, made from its configuration.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use weir_auth::{TrustedIssuer, Verifier, VerifierConfig};
use weir_http::{AddressFilter, Client, ClientConfig, ServerLimits, TlsError};

use crate::{
    area::{Area, AreaSetup, ReadOnly},
    backend::{Backend, OpenRoot, PosixBackend},
    config::{AreaConfig, Durability, StorageConfig},
    endpoint::StartError,
    metrics::Metrics,
    refusal::chain,
};

/// Header lines of a request: third-party copies carry some dozens of `TransferHeader…`.
const HEADERS_LIMIT: usize = 200;

/// How the files of an area are reached.
pub trait OpenArea: Send + Sync + 'static {
    /// Opens what holds them. On the blocking pool.
    ///
    /// # Errors
    /// It cannot be served.
    fn open(&self, area: &AreaConfig) -> Result<Arc<dyn Backend>, OpenRoot>;
}

/// In directories of this host's file systems.
#[derive(Debug, Clone, Copy)]
pub struct Directories;

impl OpenArea for Directories {
    fn open(&self, area: &AreaConfig) -> Result<Arc<dyn Backend>, OpenRoot> {
        Ok(Arc::new(PosixBackend::open(&area.root)?))
    }
}

/// Opens, sweeps and counts an area.
pub(crate) fn open_area(areas: &dyn OpenArea, config: &AreaConfig, metrics: &Metrics) -> Result<Arc<Area>, StartError> {
    let name = config.name.clone();
    let backend = areas.open(config).map_err(|source| StartError::Area {
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
    Ok(Arc::new(Area::new(setup, backend, counted.unwrap_or_default())))
}

pub(crate) fn url(config: &StorageConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let default = || format!("{scheme}://{address}");
    config
        .url
        .clone()
        .map_or_else(default, |url| url.trim_end_matches('/').to_owned())
}

pub(crate) fn verifier(config: &StorageConfig, url: &str) -> Result<Verifier, TlsError> {
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
pub(crate) fn copy_client(config: &StorageConfig) -> Result<Client, TlsError> {
    Client::new(ClientConfig {
        connect_timeout: config.tpc.connect_timeout,
        response_timeout: config.tpc.response_timeout,
        filter: Some(AddressFilter::allowing(&config.tpc.allow)),
        local_address: Some(config.listen.ip()).filter(|address| !address.is_unspecified()),
        ..ClientConfig::new(config.trust.roots())
    })
}

pub(crate) fn limits(config: &StorageConfig) -> ServerLimits {
    ServerLimits {
        connections: config.limits.connections,
        head_timeout: config.limits.head_timeout,
        write_timeout: config.limits.idle_timeout,
        headers: HEADERS_LIMIT,
        grace: config.limits.grace,
        ..ServerLimits::default()
    }
}
