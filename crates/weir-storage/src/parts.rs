//! The shared state of requests, in two halves: the part that follows the configuration, and the part that outlives it.

use std::{sync::Arc, time::SystemTime};

use weir_auth::{
    Verifier,
    x509::{Door, ServerRevocations},
};
use weir_http::{ChainCheck, Client, ServerTls, TlsError};
use weir_network::firefly::Beacon;

use crate::{
    access::{Mintage, Policy},
    access_log::AccessLog,
    admission::Admission,
    area::NameSpace,
    checksums::ChecksumReaders,
    config::StorageConfig,
    data::BlockPool,
    endpoint::{OpenError, StartError},
    memory::Budget,
    metrics::Metrics,
    opening::{copy_client, issuers_client, mintage, verifier_config},
    service::Endpoint,
    standing::Standing,
};

/// The state that follows from a configuration, with all its files read.
pub(crate) struct Parts {
    pub(crate) door: Option<Arc<Door>>,
    pub(crate) tls: ServerTls,
    /// When the server's certificate ends.
    pub(crate) certificate: Option<SystemTime>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) mintage: Option<Mintage>,
    pub(crate) verifier: Verifier,
    pub(crate) revocations: Arc<ServerRevocations>,
    pub(crate) issuers_client: Client,
    pub(crate) client: Client,
    pub(crate) beacon: Beacon,
}

/// The state that outlives every configuration: counts, queues and metrics.
pub(crate) struct Lasting {
    pub(crate) names: NameSpace,
    pub(crate) log: Arc<AccessLog>,
    pub(crate) checksums: ChecksumReaders,
    pub(crate) blocks: Arc<BlockPool>,
    pub(crate) admission: Admission,
    pub(crate) memory: Budget,
    pub(crate) metrics: Arc<Metrics>,
}

impl Parts {
    /// Reads the files of the configuration. `before`: the endpoint that this one succeeds, whose cached issuer keys
    /// are still good.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub(crate) fn make(
        config: &StorageConfig,
        url: &str,
        metrics: &Metrics,
        before: Option<&Endpoint>,
    ) -> Result<Self, StartError> {
        let door = config.x509.as_ref().map(|x509| Door::open(x509, SystemTime::now()));
        let door = door.transpose().map_err(OpenError::Door)?.map(Arc::new);
        let (tls, certificate) = server_tls(config, door.as_deref())?;
        let mintage = mintage(config, url).map_err(OpenError::Tokens)?;
        let revocations = ServerRevocations::open(config.trust.directories.clone(), SystemTime::now());
        let revocations = Arc::new(revocations.map_err(OpenError::Trust)?);
        let issuers_client = issuers_client(config, &revocations)?;
        let own = mintage.as_ref().map(|mintage| mintage.mint.as_issuer());
        let verifier = verifier_config(config, url, own);
        let client = issuers_client.clone();
        Ok(Self {
            door,
            tls,
            certificate,
            policy: Arc::new(Policy::new(config, url)),
            mintage,
            verifier: match before {
                Some(before) => before.verifier.succeeded_by(verifier, client),
                None => Verifier::new(verifier, client),
            },
            issuers_client,
            client: copy_client(config, &revocations, metrics.tcp.copies())?,
            revocations,
            beacon: beacon(config, url, before)?,
        })
    }
}

impl Endpoint {
    pub(crate) fn new(config: StorageConfig, url: String, parts: Parts, lasting: Lasting) -> Self {
        Self {
            config,
            url,
            names: lasting.names,
            verifier: parts.verifier,
            door: parts.door,
            policy: parts.policy,
            mintage: parts.mintage,
            client: parts.client,
            issuers_client: parts.issuers_client,
            revocations: parts.revocations,
            metrics: lasting.metrics,
            log: lasting.log,
            checksums: lasting.checksums,
            blocks: lasting.blocks,
            admission: lasting.admission,
            memory: lasting.memory,
            beacon: parts.beacon,
            standing: Standing::default(),
        }
    }
}

/// How connections are encrypted, and when the certificate ends that they are shown.
pub(crate) fn server_tls(
    config: &StorageConfig,
    door: Option<&Door>,
) -> Result<(ServerTls, Option<SystemTime>), TlsError> {
    let Some(files) = &config.tls else {
        return Ok((ServerTls::default(), None));
    };
    files.serve(door.map(|door| Arc::new(door.clients().clone()) as Arc<dyn ChainCheck>))
}

/// The existing beacon, unless its configuration has changed: the beacon that marked a flow's start also marks its end.
fn beacon(config: &StorageConfig, url: &str, before: Option<&Endpoint>) -> Result<Beacon, OpenError> {
    let started = match before {
        Some(before) if before.config.firefly == config.firefly => return Ok(before.beacon.clone()),
        Some(before) => before.beacon.succeeded_by(config.firefly.clone(), &host_of(url)),
        None => Beacon::start(config.firefly.clone(), &host_of(url)),
    };
    started.map_err(|source| OpenError::Firefly { source })
}

/// The host of a URL, as others know it.
fn host_of(url: &str) -> String {
    let uri: Option<http::Uri> = url.parse().ok();
    uri.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
}
