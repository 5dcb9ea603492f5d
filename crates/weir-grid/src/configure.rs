//! The configuration of each service of an embedded grid: the same as an operator would write.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_auth::ca::write_identity;
use weir_auth::{Secret, StoragePath};
use weir_catalog::{
    CatalogConfig, DeletionConfig, LimitsConfig, RootConfig, TransfersConfig,
    credentials::TokensConfig,
    logins::{OidcConfig, X509Config},
};
use weir_events::SubscriptionConfig;
use weir_http::Network;
use weir_issuer::{Client, IssuerConfig};
use weir_model::{Broker, Durability, EmbeddedIssuer, Grid, GridIssuer, Place, RedirectHost, Rse, RseKind};
use weir_storage::{AreaConfig, StorageConfig};
use weir_transfer::TransferConfig;
use weir_transfer::config as transfer_config;

use crate::addresses::Door;
use crate::ground::Ground;
use crate::user::User;
use crate::{ClientDescription, GridError};

/// The client of the grid's issuer in whose name challenges and users ask.
pub(crate) const CLIENT_ID: &str = "weir";

/// The client as which the grid's transfer service exchanges the tokens of jobs for fresh ones.
const TRANSFER_CLIENT_ID: &str = "transfer";

/// The scopes of tokens that it may exchange.
const RENEWED_SCOPES: [&str; 6] = [
    "offline_access",
    "storage.read:/",
    "storage.create:/",
    "storage.modify:/",
    "storage.stage:/",
    "storage.poll:/",
];

/// The scopes that the client of challenges and users may request; each request names fewer. `fts` is the scope by which FTS knows its users.
const CLIENT_SCOPES: [&str; 8] = [
    "fts",
    ADMIN_SCOPE,
    // Rucio asks for it with each token of a storage.
    "offline_access",
    "storage.read:/",
    "storage.create:/",
    "storage.modify:/",
    "storage.stage:/",
    "storage.poll:/",
];

/// The scope of an administrator of the transfer service. It is requested by name: the token for users does not have
/// it.
const ADMIN_SCOPE: &str = "fts:admin";

/// The file of the transfer service's database.
const TRANSFER_STORE: &str = "transfer.sqlite";

/// The user name of the catalogue's account `root`.
pub(crate) const CATALOG_USER: &str = "admin";

/// How often the storages say how far a copy has come.
const MARKER_INTERVAL: Duration = Duration::from_secs(1);

/// The issuer: one client with any audience, and the transfer service, which exchanges tokens that were given to it.
pub(crate) fn issuer(own: &EmbeddedIssuer, ground: &Ground, listen: SocketAddr) -> Result<IssuerConfig, GridError> {
    let client = Client::with_secret(CLIENT_ID, &ground.secret, &CLIENT_SCOPES, &["*"]);
    let (_, secret) = renewal_secret(ground)?;
    let mut service = Client::with_secret(TRANSFER_CLIENT_ID, &secret, &RENEWED_SCOPES, &["*"]);
    service.exchange = true;
    let mut config = IssuerConfig::new(listen, ground.folder("issuer")?, vec![client, service]);
    config.token_lifetime = own.token_lifetime;
    config.answer_delay = own.answer_delay;
    Ok(config)
}

/// The secret with which the transfer service exchanges tokens, and its file.
fn renewal_secret(ground: &Ground) -> Result<(PathBuf, Secret), GridError> {
    ground.folder("transfer")?;
    let path = ground.password("transfer/client-secret")?;
    let secret = Secret::read(&path).map_err(|source| GridError::Access {
        path: path.clone(),
        source,
    })?;
    Ok((path, secret))
}

/// How long tokens of the grid's issuer live; that of another one is taken for the usual one.
pub(crate) fn token_lifetime(grid: &Grid) -> Duration {
    match &grid.issuer {
        GridIssuer::Embedded(own) => own.token_lifetime,
        GridIssuer::External(_) => EmbeddedIssuer::default().token_lifetime,
    }
}

/// The value of `iss` in the tokens of a grid in this directory.
pub(crate) fn issuer_url(grid: &Grid, ground: &Ground) -> Result<String, GridError> {
    match &grid.issuer {
        GridIssuer::Embedded(own) => Ok(door_url(own.place.as_ref(), ground.known_address("issuer")?)),
        GridIssuer::External(issuer) => Ok(issuer.url.clone()),
    }
}

/// Where a door with TLS answers.
pub(crate) fn door_url(place: Option<&Place>, listen: SocketAddr) -> String {
    url_of(place, listen).unwrap_or_else(|| format!("https://{listen}"))
}

/// The folder of an embedded RSE's files.
pub(crate) fn area(ground: &Ground, rse: &Rse) -> Result<PathBuf, GridError> {
    ground.folder(&format!("storage/{}", rse.name))
}

/// The storage of an embedded RSE: one area, all of its name space. Third-party copies reach these addresses.
pub(crate) fn storage(
    (ground, user): (&Ground, &User),
    rse: &Rse,
    door: Door,
    issuer_url: &str,
    reach: &[Network],
) -> Result<StorageConfig, GridError> {
    let RseKind::Embedded {
        quota,
        read_only,
        checksums,
        durability,
        bandwidth,
        place,
    } = &rse.kind
    else {
        unreachable!("external endpoints are not configured here")
    };
    let name = rse.name.as_str();
    let files = area(ground, rse)?;
    let area = AreaConfig {
        quota: Some(*quota),
        read_only: *read_only,
        durability: match durability {
            Durability::Full => weir_storage::Durability::Full,
            Durability::Cache => weir_storage::Durability::Cache,
        },
        checksums: checksums.clone(),
        rules: vec![user.rule()],
        ..AreaConfig::new(name, StoragePath::root(), files)
    };
    let mut config = StorageConfig::new(door.listen, vec![area]);
    let host = host_of(place.as_ref(), door.public);
    config.url = url_at(place.as_ref(), door);
    let (certificate, key) = identity_files(ground, name, &host)?;
    config.tls = Some(weir_storage::TlsFiles { certificate, key });
    config.trust.files = vec![ground.trust.file.clone()];
    config.audiences = vec![host];
    config.any_audience = false;
    config.x509 = Some(user.door());
    config.issuers = vec![weir_storage::IssuerConfig::new(issuer_url)];
    config.tpc.allow = reach.to_vec();
    // Files on one machine take seconds: the bytes of an aborted one should be known by then.
    config.tpc.marker_interval = MARKER_INTERVAL;
    config.limits.bandwidth = *bandwidth;
    config.access_log = Some(ground.folder("log")?.join(format!("{name}.jsonl")));
    Ok(config)
}

/// The transfer service, with the limits of the grid file. It reaches storages at these addresses, and tells the catalogue of transfers that have
/// ended, if there is one.
pub(crate) fn transfer(
    (ground, user): (&Ground, &User),
    grid: &Grid,
    (listen, catalog): (SocketAddr, Option<SocketAddr>),
    issuer_url: &str,
    reach: &[Network],
) -> Result<TransferConfig, GridError> {
    let folder = ground.folder("transfer")?;
    let mut config = TransferConfig::new(listen);
    let (certificate, key) = identity_files(ground, "transfer", &host_of(None, listen))?;
    config.tls = Some(transfer_config::TlsFiles { certificate, key });
    config.trust.files = vec![ground.trust.file.clone()];
    config.store = Some(folder.join(TRANSFER_STORE));
    config.key_file = Some(folder.join("seal.key"));
    config.audiences = vec![host_of(None, listen)];
    config.any_audience = false;
    config.x509 = Some(user.door());
    let mut issuer = transfer_config::IssuerConfig::new(issuer_url, grid.vo.to_string());
    if matches!(grid.issuer, GridIssuer::Embedded(_)) {
        issuer.client_id = Some(TRANSFER_CLIENT_ID.to_owned());
        issuer.secret_file = Some(renewal_secret(ground)?.0);
    }
    config.issuers = vec![issuer];
    config.admins = vec![transfer_config::AdminConfig {
        issuer: Some(issuer_url.to_owned()),
        scope: Some(ADMIN_SCOPE.to_owned()),
        ..transfer_config::AdminConfig::default()
    }];
    if catalog.is_some() || grid.broker.is_some() {
        let mut events = transfer_config::EventsConfig::new(folder.join("events"));
        events.stomps.extend(grid.broker.as_ref().map(stomp));
        events
            .webhooks
            .extend(catalog.map(|catalog| webhook(ground, catalog)).transpose()?);
        config.events = Some(events);
    }
    config.limits.link = grid.transfer.max_active_per_link;
    config.limits.inbound = grid.transfer.max_active_per_rse_in;
    config.limits.outbound = grid.transfer.max_active_per_rse_out;
    config.copy.allow = reach.to_vec();
    config.copy.redirect_hosts = redirect_hosts(grid);
    config.retry.retries = u8::try_from(grid.transfer.retries).unwrap_or(u8::MAX);
    config.retry.delay = grid.transfer.retry_delay;
    config.retry.delay_max = config.retry.delay_max.max(config.retry.delay);
    Ok(config)
}

/// The nodes of all external storages.
fn redirect_hosts(grid: &Grid) -> Vec<RedirectHost> {
    let of = |rse: &Rse| match &rse.kind {
        RseKind::External { redirect_hosts, .. } => redirect_hosts.clone(),
        RseKind::Embedded { .. } => Vec::new(),
    };
    grid.rses.iter().flat_map(of).collect()
}

/// The catalogue. It submits to the transfer service at this URL.
pub(crate) fn catalog(
    (ground, user): (&Ground, &User),
    grid: &Grid,
    door: Door,
    (issuer_url, client, transfer_url): (&str, &ClientDescription, &str),
) -> Result<CatalogConfig, GridError> {
    let folder = ground.folder("catalog")?;
    let (certificate, key) = identity_files(ground, "catalog", &host_of(None, door.public))?;
    Ok(CatalogConfig {
        listen: door.listen,
        url: url_at(None, door),
        tls: Some(transfer_config::TlsFiles { certificate, key }),
        store: Some(folder.join("catalog.sqlite")),
        postgres: None,
        root: RootConfig {
            user: CATALOG_USER.to_owned(),
            password_file: ground.password("catalog/password")?,
        },
        metrics_allow: weir_http::this_host(),
        limits: LimitsConfig::default(),
        trust: transfer_config::Trust {
            files: vec![ground.trust.file.clone()],
            directories: Vec::new(),
        },
        identity: None,
        tokens: TokensConfig {
            token_url: client.token_url.clone(),
            client_id: Some(client.id.clone()),
            secret_file: Some(client.secret_file.clone()),
            file: None,
        },
        // The grid's client may log in with its tokens, and its user with the certificate.
        oidc: Some(OidcConfig {
            issuers: vec![issuer_url.to_owned()],
            audiences: vec![host_of(None, door.public)],
        }),
        x509: Some(X509Config {
            authorities: user.door().authorities,
        }),
        transfers: TransfersConfig {
            services: vec![transfer_url.to_owned()],
            poll: grid.catalog.clone().unwrap_or_default().poll,
            // The issuer of the grid gives a new one with each job.
            unmanaged_tokens: true,
            stomp: grid.broker.as_ref().map(subscription),
            webhook_token_file: Some(ground.password(WEBHOOK_TOKEN)?),
            ..TransfersConfig::default()
        },
        deletion: DeletionConfig {
            // A user who tries the grid expects files to be deleted with their rules.
            greedy: true,
            ..DeletionConfig::default()
        },
    })
}

/// FTS3's messages, from a broker.
fn subscription(broker: &Broker) -> SubscriptionConfig {
    SubscriptionConfig {
        tls: broker.tls,
        user: broker.user.clone(),
        password_file: broker.password_file.clone(),
        ..SubscriptionConfig::new(&broker.address)
    }
}

/// FTS3's messages, for a broker.
fn stomp(broker: &Broker) -> transfer_config::StompSinkConfig {
    transfer_config::StompSinkConfig {
        tls: broker.tls,
        user: broker.user.clone(),
        password_file: broker.password_file.clone(),
        ..transfer_config::StompSinkConfig::new("broker", &broker.address)
    }
}

/// The file with the token that the transfer service shows the catalogue.
const WEBHOOK_TOKEN: &str = "catalog/webhook";

/// The same for the catalogue, which then asks for the jobs at once.
fn webhook(ground: &Ground, catalog: SocketAddr) -> Result<transfer_config::WebhookSinkConfig, GridError> {
    ground.folder("catalog")?;
    Ok(transfer_config::WebhookSinkConfig {
        name: "catalog".to_owned(),
        url: format!("https://{catalog}/.well-known/weir/transfers"),
        token_file: Some(ground.password(WEBHOOK_TOKEN)?),
        send: transfer_config::Messages::only(&["complete"]),
    })
}

/// The host without scheme and port: the name in the certificate, and the audience of Rucio's tokens. Each storage on a
/// loopback address has one of its own; the issuer, which shares the transfer service's host, accepts no tokens.
pub(crate) fn host_of(place: Option<&Place>, listen: SocketAddr) -> String {
    place.map_or_else(|| listen.ip().to_string(), |place| place.host.clone())
}

/// The URL of a door for other hosts; `None` for a door that is known by its listening address.
pub(crate) fn url_of(place: Option<&Place>, listen: SocketAddr) -> Option<String> {
    place.map(|place| format!("https://{}:{}", place.url_host(), listen.port()))
}

/// The same of a door that may stand behind a relay: then others know it by the relay's address.
pub(crate) fn url_at(place: Option<&Place>, door: Door) -> Option<String> {
    url_of(place, door.public).or_else(|| door.has_relay().then(|| format!("https://{}", door.public)))
}

/// The database of the transfer service of a grid in this directory.
pub(crate) fn transfer_store(dir: &std::path::Path) -> PathBuf {
    dir.join("transfer").join(TRANSFER_STORE)
}

/// A fresh certificate and key of a door, as files.
fn identity_files(
    ground: &Ground,
    door: &str,
    host: &str,
) -> Result<(std::path::PathBuf, std::path::PathBuf), GridError> {
    let identity = ground.identity(door, host)?;
    write_identity(&identity, &ground.folder("identities")?, door).map_err(|error| GridError::Start {
        door: door.to_owned(),
        source: error.into(),
    })
}
