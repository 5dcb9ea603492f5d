//! The configuration of a catalogue: one TOML file.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use weir_events::SubscriptionConfig;
use weir_http::Network;
use weir_service::{
    config::{Configuration, Invalid},
    tls::{TlsFiles, Trust},
};
use weir_store::postgres::PostgresConfig;

use crate::{
    credentials::{TokensConfig, keeps_secrets},
    logins::{OidcConfig, X509Config},
};

/// A catalogue. Unknown keys are refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The URL that clients use, such as `https://catalog.example.org:8447`. Default: from `listen`.
    #[serde(default)]
    pub url: Option<String>,
    /// Certificate and key. Without them the service speaks plain HTTP, and may listen on loopback addresses only.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// The database. Made if it is missing, with `.lock` and `-wal` files beside it. Needed, unless there is `[postgres]`.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// A PostgreSQL server instead of `store`: several catalogues may share its database.
    #[serde(default)]
    pub postgres: Option<PostgresConfig>,
    /// The first login, for the account `root`. Applied once, when the database is made.
    pub root: RootConfig,
    /// Addresses that may read `/.well-known/weir/metrics`. Default: this host. Behind a reverse proxy on this host: `[]`.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
    /// Limits of the door.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Authorities of the transfer services and storages. Default: none is trusted.
    #[serde(default)]
    pub trust: Trust,
    /// The certificate that the catalogue shows to transfer services and storages. Default: none.
    #[serde(default)]
    pub identity: Option<TlsFiles>,
    /// Tokens for transfer services and storages. Default: none.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// Tokens as logins. Default: none are taken.
    #[serde(default)]
    pub oidc: Option<OidcConfig>,
    /// Client certificates as logins, over TLS. Default: none are asked for.
    #[serde(default)]
    pub x509: Option<X509Config>,
    /// The transfer services.
    #[serde(default)]
    pub transfers: TransfersConfig,
    /// Deletion.
    #[serde(default)]
    pub deletion: DeletionConfig,
}

/// The transfer services. Without one nothing is submitted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransfersConfig {
    /// URLs of FTS3 REST doors, such as `https://fts.example.org:8446`. The first one carries out all that goes to RSEs whose attribute `fts`
    /// names no other.
    pub services: Vec<String>,
    /// Most requests that the services have at once; others wait in the catalogue. Requests of one activity into one
    /// RSE leave room to others: alone they get four fifths.
    pub in_flight: usize,
    /// How often jobs are asked for.
    #[serde(with = "weir_units::duration")]
    pub poll: Duration,
    /// Whether the services use tokens as they are, and do not renew them.
    pub unmanaged_tokens: bool,
    /// A file with the token that transfer services show when they tell of transfers by webhook. Default: they are not heard.
    pub webhook_token_file: Option<PathBuf>,
    /// A broker over which they tell of transfers. Default: none.
    pub stomp: Option<SubscriptionConfig>,
    /// For how long attempts that have ended are kept.
    #[serde(with = "weir_units::duration")]
    pub history: Duration,
}

impl Default for TransfersConfig {
    fn default() -> Self {
        Self {
            services: Vec::new(),
            in_flight: 20_000,
            poll: Duration::from_secs(10),
            unmanaged_tokens: false,
            webhook_token_file: None,
            stomp: None,
            history: Duration::from_secs(90 * 86_400),
        }
    }
}

/// Deletion of replicas that no rule holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeletionConfig {
    /// Whether files are deleted even where there is room: `false` keeps them as cached copies. The attribute `greedyDeletion` of an RSE says it
    /// for that RSE.
    pub greedy: bool,
    /// Files that are deleted at one RSE at the same time.
    pub parallel: usize,
}

impl Default for DeletionConfig {
    fn default() -> Self {
        Self {
            greedy: false,
            parallel: 8,
        }
    }
}

/// The login of the account `root`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootConfig {
    /// The user name.
    pub user: String,
    /// A file whose first line is the password; mode 0600.
    pub password_file: PathBuf,
}

/// Limits of the door.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Connections that are open at once.
    pub connections: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { connections: 4096 }
    }
}

impl Configuration for CatalogConfig {
    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let tls = self.tls.iter_mut().flat_map(TlsFiles::paths);
        let identity = self.identity.iter_mut().flat_map(TlsFiles::paths);
        let postgres = self.postgres.iter_mut().flat_map(PostgresConfig::paths);
        tls.chain(&mut self.store)
            .chain([&mut self.root.password_file])
            .chain(postgres)
            .chain(identity)
            .chain(self.x509.iter_mut().map(|x509| &mut x509.authorities))
            .chain(&mut self.transfers.webhook_token_file)
            .chain(
                self.transfers
                    .stomp
                    .iter_mut()
                    .flat_map(|stomp| &mut stomp.password_file),
            )
            .chain(self.trust.paths())
            .chain(self.tokens.paths())
            .collect()
    }

    fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            invalid.push(Invalid::new(
                "listen",
                "without [tls] only a loopback address may be listened on",
                "add [tls] with certificate and key, or listen on 127.0.0.1",
            ));
        }
        if self.root.user.is_empty() || !self.root.user.bytes().all(|byte| byte.is_ascii_graphic()) {
            let remedy = "use letters, digits and marks of ASCII";
            invalid.push(Invalid::new("root.user", "it cannot stand in a header", remedy));
        }
        if self.limits.connections == 0 {
            invalid.push(Invalid::new(
                "limits.connections",
                "0 refuses every client",
                "set at least 1",
            ));
        }
        match (&self.store, &self.postgres) {
            (Some(_), Some(_)) => {
                invalid.push(Invalid::new(
                    "postgres",
                    "store and [postgres] exclude each other",
                    "leave one out",
                ));
            }
            (None, None) => {
                let remedy = "name the file of a database, or a server in [postgres]";
                invalid.push(Invalid::new("store", "is needed", remedy));
            }
            (None, Some(postgres)) if postgres.hosts().next().is_none() => {
                invalid.push(Invalid::new("postgres.host", "names no server", "name one"));
            }
            _ => {}
        }
        if self.x509.is_some() && self.tls.is_none() {
            let problem = "client certificates come over TLS only";
            invalid.push(Invalid::new("x509", problem, "add [tls], or leave [x509] out"));
        }
        invalid.extend(self.tokens.check());
        invalid.extend(self.transfers.check());
        if self.deletion.parallel == 0 {
            invalid.push(Invalid::new("deletion.parallel", "0 deletes nothing", "set at least 1"));
        }
        invalid
    }
}

impl TransfersConfig {
    fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        for url in &self.services {
            if !keeps_secrets(url) {
                let problem = format!("{url} is not encrypted");
                invalid.push(Invalid::new(
                    "transfers.services",
                    problem,
                    "name URLs that begin with https://",
                ));
            }
        }
        if self.stomp.as_ref().is_some_and(SubscriptionConfig::exposes_password) {
            let problem = "the password would go out unencrypted";
            invalid.push(Invalid::new(
                "transfers.stomp.tls",
                problem,
                "leave it out, or use a broker on this machine",
            ));
        }
        if self.in_flight == 0 {
            invalid.push(Invalid::new(
                "transfers.in_flight",
                "0 submits nothing",
                "set at least 1",
            ));
        }
        if self.poll < Duration::from_millis(100) {
            invalid.push(Invalid::new(
                "transfers.poll",
                "it is shorter than 100 ms",
                "set at least 100ms",
            ));
        }
        invalid
    }
}
