//! The parts that an endpoint needs before it listens, made from its configuration.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};

use weir_auth::{
    TrustedIssuer, VerifierConfig,
    files::resolved,
    mint::{Mint, MintError},
    x509::ServerRevocations,
};
use weir_http::{AddressFilter, Client, ClientConfig, Pace, ServerLimits, TcpLedger, TlsError};
use weir_service::{check::present, config::Invalid};

use crate::{
    access::Mintage,
    area::{Area, AreaSetup, ReadOnly},
    backend::{Backend, OpenRoot, PosixBackend},
    config::{AreaConfig, ConfigError, Durability, SEPARATE, StorageConfig, TokensConfig, overlap},
    endpoint::OpenError,
    metrics::Metrics,
};

/// Header lines of a request: third-party copies carry some dozens of `TransferHeader…`.
const HEADERS_LIMIT: usize = 200;

/// How the files of an area are reached.
pub trait OpenArea: Send + Sync + 'static {
    /// Opens the back end of an area. On the blocking pool.
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
        present(&area.root, area.create_root, area.mount.as_deref())
            .map_err(|source| OpenRoot::new("find the directory", &area.root, source))?;
        Ok(Arc::new(PosixBackend::open(&area.root)?))
    }
}

/// Refuses areas whose directories lie inside one another, after resolving links. A missing directory is judged by its
/// nearest existing parent.
///
/// # Errors
/// The two areas, and the remedy.
pub fn separate(areas: &[AreaConfig]) -> Result<(), ConfigError> {
    let roots: Vec<_> = areas.iter().map(|area| resolved(&area.root)).collect();
    for (place, ours) in roots.iter().enumerate() {
        for (other, theirs) in areas.iter().zip(&roots).take(place) {
            if let Some(problem) = overlap(&other.name, theirs, ours) {
                let key = format!("area[{place}].root");
                return Err(Invalid::new(key, problem, SEPARATE).into());
            }
        }
    }
    Ok(())
}

/// Opens, sweeps and counts an area.
pub(crate) fn open_area(areas: &dyn OpenArea, config: &AreaConfig, metrics: &Metrics) -> Result<Arc<Area>, OpenError> {
    let name = config.name.clone();
    let backend = areas.open(config).map_err(|source| OpenError::Area {
        area: name.clone(),
        source,
    })?;
    // Neither leftovers nor a partly failing disk may keep the endpoint from serving the rest. Leftovers are removed
    // after the start, like later deletions.
    let leftovers = backend.sweep().unwrap_or_else(|error| {
        tracing::error!(area = name, error = %weir_auth::error_chain(&error), "what an earlier life left behind stays");
        Vec::new()
    });
    if !leftovers.is_empty() {
        let swept = leftovers.len();
        tracing::info!(
            area = name,
            swept,
            "an earlier life left something behind, which is removed now"
        );
        metrics.swept.fetch_add(swept as u64, Ordering::Relaxed);
    }
    let counted = backend.usage().inspect_err(|error| {
        tracing::error!(area = name, error = %weir_auth::error_chain(error), "the area cannot be counted: it takes no changes");
    });
    let mut setup = area_setup(config);
    if counted.is_err() {
        setup.read_only = Some(ReadOnly::Uncounted);
    }
    let area = Area::new(setup, backend, counted.unwrap_or_default());
    leftovers
        .into_iter()
        .for_each(|removal| area.removals.push(removal, Vec::new()));
    Ok(Arc::new(area))
}

/// An area as its table says.
pub(crate) fn area_setup(config: &AreaConfig) -> AreaSetup {
    AreaSetup {
        name: config.name.clone(),
        prefix: config.prefix.clone(),
        read_only: config.read_only.then_some(ReadOnly::Configured),
        anonymous_read: config.anonymous_read,
        durable: config.durability == Durability::Full,
        algorithms: config.checksums.clone(),
        movable_for: config.movable_for,
        dav: config.dav,
        quota: config.quota,
    }
}

pub(crate) fn url(config: &StorageConfig, address: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let default = || format!("{scheme}://{address}");
    config
        .url
        .clone()
        .map_or_else(default, |url| url.trim_end_matches('/').to_owned())
}

/// The issuer of the endpoint's own tokens, if it has one.
pub(crate) fn mintage(config: &StorageConfig, url: &str) -> Result<Option<Mintage>, MintError> {
    let open = |tokens: &TokensConfig| {
        Ok(Mintage {
            mint: Mint::open(&tokens.key, url)?,
            lifetime: tokens.lifetime,
        })
    };
    config.tokens.as_ref().map(open).transpose()
}

pub(crate) fn verifier_config(config: &StorageConfig, url: &str, own: Option<TrustedIssuer>) -> VerifierConfig {
    let issuers = config.issuers.iter().map(|issuer| TrustedIssuer {
        prefixes: issuer.prefixes.clone(),
        audiences: issuer.audiences.clone(),
        dialects: issuer.dialects.clone(),
        ..TrustedIssuer::new(issuer.url.clone())
    });
    let mut audiences = config.audiences.clone();
    audiences.extend([url.to_owned(), format!("{url}/")]);
    VerifierConfig {
        issuers: issuers.chain(own).collect(),
        audiences,
        any_audience: config.any_audience,
        ..VerifierConfig::default()
    }
}

/// The client that asks issuers for their keys.
pub(crate) fn issuers_client(config: &StorageConfig, revocations: &Arc<ServerRevocations>) -> Result<Client, TlsError> {
    Client::new(ClientConfig::new(config.trust.roots()))?.judging(revocations.clone())
}

/// The client of third-party copies. It connects to no local address but the allowed ones. It connects from the address that
/// the endpoint listens on, so that the other side's counters tell endpoints apart.
pub(crate) fn copy_client(
    config: &StorageConfig,
    revocations: &Arc<ServerRevocations>,
    ledger: TcpLedger,
) -> Result<Client, TlsError> {
    let client = Client::new(ClientConfig {
        connect_timeout: config.tpc.connect_timeout,
        response_timeout: config.tpc.response_timeout,
        filter: Some(AddressFilter::allowing(&config.tpc.allow).refusing_own()),
        socket: config.tpc.sockets.settings(),
        ledger,
        local_address: Some(config.listen.ip()).filter(|address| !address.is_unspecified()),
        ..ClientConfig::new(config.trust.roots())
    })?;
    client.judging(revocations.clone())
}

pub(crate) fn limits(config: &StorageConfig) -> ServerLimits {
    ServerLimits {
        connections: config.limits.connections,
        connections_per_client: Some(config.limits.per_client()),
        head_timeout: config.limits.head_timeout,
        write_timeout: config.limits.idle_timeout,
        pace: Some(Pace {
            bytes: config.limits.pace_bytes.0,
            window: config.limits.pace_timeout,
        }),
        headers: HEADERS_LIMIT,
        grace: config.limits.grace,
        ..ServerLimits::default()
    }
}
