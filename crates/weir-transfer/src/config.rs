//! What an operator says about the service: one TOML file.

mod admin;
mod copy;
mod events;
mod history;
mod postgres;
mod redirect;
mod tokens;

pub use admin::{AdminConfig, Level};
pub use copy::CopyConfig;
pub use events::{EventsConfig, FileSinkConfig, Messages, StompSinkConfig, WebhookSinkConfig};
pub use history::HistoryConfig;
pub use postgres::{PostgresConfig, Role, SessionAttrs};
pub use redirect::{NoHost, RedirectHost};
pub use tokens::{BrokerConfig, IssuerConfig, TokensConfig};
pub use weir_auth::x509::DoorConfig as X509Config;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_http::{Network, TrustRoots};
use weir_units::Bytes;

/// A transfer service. Unknown keys are refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How clients write this service, such as `https://fts.example.org:8446`. Default: from `listen`.
    #[serde(default)]
    pub url: Option<String>,
    /// Certificate and key. Without them the service speaks plain HTTP, and may listen on loopback addresses only.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Certificate authorities believed when we connect: to storages, and to issuers.
    #[serde(default)]
    pub trust: Trust,
    /// The database. Made if it is missing, with `.lock` and `-wal` files beside it. Needed, unless there is `[postgres]`.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// A PostgreSQL server instead of `store`.
    #[serde(default)]
    pub postgres: Option<PostgresConfig>,
    /// The key that seals tokens in the database. Made if it is missing. Default: the database's name with `.key`.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Names of this service in the `aud` of tokens, beside its URL.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Whether tokens for every service (`https://wlcg.cern.ch/jwt/v1/any`) are taken. Default: no: each storage that a
    /// client shows such a token to could submit and cancel jobs with it.
    #[serde(default)]
    pub any_audience: bool,
    /// A scope without path that a token must carry to be let in, such as `fts`. Default: none.
    #[serde(default)]
    pub required_scope: Option<String>,
    /// Whose tokens are taken.
    #[serde(default, rename = "issuer")]
    pub issuers: Vec<IssuerConfig>,
    /// How tokens are renewed.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// Who submits jobs with tokens of others: Rucio, DIRAC. Without an entry, only tokens of a job's submitter are renewed.
    #[serde(default, rename = "broker")]
    pub brokers: Vec<BrokerConfig>,
    /// Certificates of clients. Default: nobody is asked for one.
    #[serde(default)]
    pub x509: Option<X509Config>,
    /// Whose jobs a user sees, changes and cancels. Default: those of the user's VO, as FTS3's role table has it. `"all"` is for users
    /// with certificates; users with tokens have `"vo"` then.
    #[serde(default = "of_vo")]
    pub user_level: Level,
    /// Who may see and cancel everybody's jobs, and change the configuration.
    #[serde(default, rename = "admin")]
    pub admins: Vec<AdminConfig>,
    /// Who may read `/.well-known/weir/metrics` without an administrator's token. Default: this host. Behind a reverse proxy on this host: `[]`.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
    /// Whether storages may be spoken to without TLS. Tokens then travel in the clear: for tests.
    #[serde(default)]
    pub plain_http: bool,
    /// What the service puts up with.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// When a failed transfer is tried again.
    #[serde(default)]
    pub retry: RetryConfig,
    /// How copies are made.
    #[serde(default)]
    pub copy: CopyConfig,
    /// Who is told of transfers. Default: nobody.
    #[serde(default)]
    pub events: Option<EventsConfig>,
    /// What becomes of jobs that have ended.
    #[serde(default)]
    pub history: HistoryConfig,
}

fn of_vo() -> Level {
    Level::Vo
}

/// PEM files of the service's identity.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Certificate authorities.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// PEM files.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Hashed directories, such as `/etc/grid-security/certificates`.
    #[serde(default)]
    pub directories: Vec<PathBuf>,
}

impl Trust {
    /// The same for the wire.
    pub fn roots(&self) -> TrustRoots {
        TrustRoots {
            files: self.files.clone(),
            directories: self.directories.clone(),
        }
    }
}

/// What the service puts up with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Active transfers per link.
    pub link: u32,
    /// Active transfers per storage element as destination.
    pub inbound: u32,
    /// Active transfers per storage element as source.
    pub outbound: u32,
    /// Files brought online at once per storage element.
    pub staging: u32,
    /// Active transfers in all. Default: what the process may open in files, three for each.
    pub active: Option<usize>,
    /// Links with a limit of their own: `"https://a > https://b" = 40`.
    pub links: BTreeMap<String, u32>,
    /// Destinations with a limit of their own: `"https://b" = 200`.
    pub inbounds: BTreeMap<String, u32>,
    /// Sources with a limit of their own.
    pub outbounds: BTreeMap<String, u32>,
    /// Transfers that have not ended, in all; beyond them submissions are answered 503 with `Retry-After`.
    pub queue: u64,
    /// The same for each VO, each client and each link, answered 429.
    pub queues: QueueLimits,
    /// VOs whose submissions are refused (409) while another transfer writes to one of their destinations; `*`: all.
    pub check_duplicates: Vec<String>,
    /// Storage elements that are remembered, for as long as the service runs; beyond them submissions are answered 429.
    pub known_storages: u64,
    /// The same for links between them.
    pub known_links: u64,
    /// Files in one job.
    pub files_per_job: usize,
    /// Links that the files of one job may use.
    pub links_per_job: usize,
    /// Size of a request's body.
    pub body: Bytes,
    /// Open connections of clients; more wait in the kernel's backlog.
    pub connections: usize,
    /// Of one address (IPv4, or an IPv6 network of 64 bits); more are refused, unless one of its own is idle. Default: half of all.
    pub connections_per_client: Option<usize>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            link: 20,
            inbound: 100,
            outbound: 100,
            staging: 50_000,
            active: None,
            links: BTreeMap::new(),
            inbounds: BTreeMap::new(),
            outbounds: BTreeMap::new(),
            queue: 10_000_000,
            queues: QueueLimits::default(),
            check_duplicates: Vec::new(),
            known_storages: 20_000,
            known_links: 200_000,
            files_per_job: 50_000,
            links_per_job: 2_000,
            body: Bytes(100_000_000),
            connections: 4096,
            connections_per_client: None,
        }
    }
}

impl LimitsConfig {
    /// Connections that one address may have.
    pub(crate) fn per_client(&self) -> usize {
        self.connections_per_client.unwrap_or(self.connections / 2).max(1)
    }
}

/// How much may wait, beyond which submissions are answered 429 with `Retry-After`. Default: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueLimits {
    /// Of each VO.
    pub vo: QueueLimit,
    /// Of each client: issuer and subject of its tokens.
    pub client: QueueLimit,
    /// Of each link.
    pub link: QueueLimit,
}

impl QueueLimits {
    /// Whether there are any.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How much may wait of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueLimit {
    /// Transfers that have not ended. An empty queue takes a job of any size.
    pub depth: Option<u64>,
    /// How long the oldest transfer that never started may have waited, to the minute.
    #[serde(with = "weir_units::duration::option")]
    pub age: Option<Duration>,
}

/// When a failed transfer is tried again, unless its job says otherwise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Retries of a job that leaves it to the service.
    pub retries: u8,
    /// Pause before the first retry; it doubles with each further failure.
    #[serde(with = "weir_units::duration")]
    pub delay: Duration,
    /// The pause grows no further.
    #[serde(with = "weir_units::duration")]
    pub delay_max: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        let policy = weir_sched::RetryPolicy::default();
        Self {
            retries: policy.retries,
            delay: policy.delay,
            delay_max: policy.delay_max,
        }
    }
}

impl RetryConfig {
    /// For the core. Pauses are drawn from this seed.
    pub(crate) fn policy(&self, issuer_pause: Duration, seed: u64) -> weir_sched::RetryPolicy {
        weir_sched::RetryPolicy {
            retries: self.retries,
            delay: self.delay,
            delay_max: self.delay_max,
            issuer_pause,
            seed,
            ..weir_sched::RetryPolicy::default()
        }
    }
}

impl TransferConfig {
    /// A service on this address, with the defaults: no TLS. Issuer and store are to be set.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            url: None,
            tls: None,
            trust: Trust::default(),
            store: None,
            postgres: None,
            key_file: None,
            audiences: Vec::new(),
            any_audience: false,
            required_scope: None,
            issuers: Vec::new(),
            tokens: TokensConfig::default(),
            brokers: Vec::new(),
            x509: None,
            user_level: of_vo(),
            admins: Vec::new(),
            metrics_allow: weir_http::this_host(),
            plain_http: false,
            limits: LimitsConfig::default(),
            retry: RetryConfig::default(),
            copy: CopyConfig::default(),
            events: None,
            history: HistoryConfig::default(),
        }
    }

    /// Reads a file. Relative paths in it are relative to it.
    ///
    /// # Errors
    /// Names file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text).map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source,
        })?;
        config.resolve(path.parent().unwrap_or(Path::new(".")));
        config.check()?;
        Ok(config)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Names line and key.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    fn resolve(&mut self, base: &Path) {
        let paths = self
            .tls
            .iter_mut()
            .flat_map(|tls| [&mut tls.certificate, &mut tls.key])
            .chain(&mut self.trust.files)
            .chain(&mut self.trust.directories)
            .chain(&mut self.store)
            .chain(&mut self.key_file)
            .chain(self.issuers.iter_mut().filter_map(|issuer| issuer.secret_file.as_mut()))
            .chain(self.events.iter_mut().flat_map(EventsConfig::paths))
            .chain(self.x509.iter_mut().flat_map(X509Config::paths))
            .chain(
                self.postgres
                    .iter_mut()
                    .flat_map(|postgres| postgres.authorities.iter_mut().chain(&mut postgres.password_file)),
            );
        for path in paths {
            *path = base.join(&*path);
        }
    }

    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: &'static str, why: &str| {
            Err(ConfigError::Value {
                key,
                why: why.to_owned(),
            })
        };
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            return wrong("listen", "without [tls] only a loopback address may be listened on");
        }
        if self.postgres.is_some() && self.store.is_some() {
            return wrong("postgres", "store and [postgres] exclude each other");
        }
        if self.postgres.is_some() && self.key_file.is_none() {
            return wrong("key_file", "is needed with [postgres]: every node needs the same one");
        }
        if self
            .postgres
            .as_ref()
            .is_some_and(|postgres| postgres.hosts().next().is_none())
        {
            return wrong("postgres.host", "names no server");
        }
        if self.history.keep != Duration::ZERO && self.history.keep < self.history.archive_after {
            return wrong(
                "history.keep",
                "must not be shorter than archive_after; 0s keeps for ever",
            );
        }
        if self.issuers.is_empty() && self.x509.is_none() {
            return wrong(
                "issuer",
                "at least one [[issuer]] is needed, or [x509]: nobody else is let in",
            );
        }
        if self.x509.is_some() && self.tls.is_none() {
            return wrong("x509", "certificates of clients need [tls]");
        }
        if self
            .x509
            .iter()
            .any(|x509| x509.vomses.is_some() && x509.vomsdir.is_none())
        {
            return wrong("x509.vomses", "needs vomsdir: without it no attributes are taken");
        }
        if let Some(why) = self.issuers.iter().find_map(IssuerConfig::problem) {
            return wrong("issuer", why);
        }
        if let Some(why) = self.tokens.problem() {
            return wrong("tokens", why);
        }
        if let Some(why) = self.brokers.iter().find_map(|broker| broker.problem(&self.issuers)) {
            return wrong("broker", why);
        }
        if let Some(why) = self.admins.iter().find_map(|admin| admin.problem(self.issuers.len())) {
            return wrong("admin", why);
        }
        for link in self.limits.links.keys() {
            if link.split_once('>').is_none() {
                return wrong(
                    "limits.links",
                    &format!("'{link}' is not of the form 'https://a > https://b'"),
                );
            }
        }
        if self.postgres.is_none() && self.store.is_none() {
            return wrong(
                "store",
                "is missing: name the file of a database, or a server in [postgres]; without one, jobs would be lost at the next stop",
            );
        }
        self.events.as_ref().map_or(Ok(()), EventsConfig::check)
    }
}

fn yes() -> bool {
    true
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or holds an unknown key, or a value of the wrong kind.
    #[error("could not understand {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: toml::de::Error,
    },
    /// A value that makes no sense.
    #[error("{key}: {why}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_small_file_is_enough() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("transfer.toml");
        let text =
            "listen = '127.0.0.1:0'\nstore = 'db'\n[[issuer]]\nurl = 'https://i'\nvo = 'x'\n[retry]\ndelay = '5s'";
        std::fs::write(&path, text).unwrap();
        let config = TransferConfig::load(&path).unwrap();
        assert_eq!(config.store, Some(directory.path().join("db")));
        assert_eq!((config.retry.delay, config.retry.retries), (Duration::from_secs(5), 3));
    }

    #[test]
    fn the_deployed_file_shows_the_defaults() {
        // An operator reads there what holds if nothing is said.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/transfer.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let shown = text.lines().map(|line| match line.strip_prefix('#') {
            Some(shown) if shown.starts_with(|c: char| c.is_ascii_lowercase()) && shown.contains(" = ") => shown,
            _ => line,
        });
        let config = TransferConfig::parse(&shown.collect::<Vec<_>>().join("\n")).unwrap();
        assert!(text.contains("\n#delay"), "the pause before a retry is shown");
        let default = TransferConfig::new(config.listen);
        let settings = |config: &TransferConfig| {
            let TransferConfig {
                limits,
                retry,
                copy,
                history,
                tokens,
                ..
            } = config;
            let flags = (
                config.any_audience,
                config.plain_http,
                config.user_level,
                &config.audiences,
            );
            format!("{limits:?} {retry:?} {copy:?} {history:?} {tokens:?} {flags:?}")
        };
        assert_eq!(settings(&config), settings(&default));
        let beside = config.store.unwrap().with_extension("key");
        assert_eq!(config.key_file.unwrap(), beside);
    }

    fn refused(text: &str, word: &str) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("transfer.toml");
        std::fs::write(&path, text).unwrap();
        let error = TransferConfig::load(&path).unwrap_err();
        let text = weir_auth::error_chain(&error);
        assert!(text.contains(word), "{text}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_key() {
        refused("listen = '127.0.0.1:0'\nlisten_port = 3", "listen_port");
        refused("listen = '127.0.0.1:0'", "issuer");
        let postgres = "[postgres]\nhost = 'h'\ndatabase = 'd'\nuser = 'u'\n";
        refused(&format!("listen = '127.0.0.1:0'\nstore = 'x'\n{postgres}"), "exclude");
        refused(&format!("listen = '127.0.0.1:0'\n{postgres}"), "key_file");
        refused(&format!("listen = '127.0.0.1:0'\n{postgres}password = 'p'"), "password");
        refused("listen = '0.0.0.0:0'\n[[issuer]]\nurl = 'u'\nvo = 'x'", "loopback");
        refused(
            "listen = '127.0.0.1:0'\n[[issuer]]\nurl = 'u'\nvo = 'x'\n[[admin]]\nissuer = 'u'",
            "admin",
        );
        let issuer = "listen = '127.0.0.1:0'\n[[issuer]]\nurl = 'u'\nvo = 'x'\n";
        refused(&format!("{issuer}client_id = 'c'"), "secret_file");
        refused(&format!("{issuer}secret_file = 's'"), "client_id");
        refused(&format!("{issuer}[tokens]\nrequests = 0"), "requests");
        refused("listen = '127.0.0.1:0'\n[retry]\ndelay = '5'", "delay");
        refused("listen = '127.0.0.1:0'\n[x509]\nauthorities = 'a'", "tls");
        refused("listen = '127.0.0.1:0'\n[x509]\nvomsdir = 'a'", "authorities");
        let tls = "[tls]\ncertificate = 'c'\nkey = 'k'\n";
        refused(
            &format!("listen = '127.0.0.1:0'\n{tls}[x509]\nauthorities = 'a'\nvomses = 'v'"),
            "vomsdir",
        );
        refused(
            "listen = '127.0.0.1:0'\n[[issuer]]\nurl = 'u'\nvo = 'x'\n[[admin]]\ndn = '/CN=a'\nscope = 'b'",
            "make two",
        );
        // It kept jobs in memory, acknowledged them, and forgot them.
        refused(issuer, "store: is missing");
        refused(
            &format!("{issuer}[[broker]]\nsubject = 'rucio'"),
            "either issuer and subject",
        );
        refused(
            &format!("{issuer}[[broker]]\nissuer = 'v'\nsubject = 'rucio'"),
            "none of the [[issuer]]s",
        );
        refused(
            &format!("{issuer}[[broker]]\ndn = '/CN=a'\nsubject = 'b'"),
            "either issuer and subject",
        );
    }
}
