//! The configuration of the service: one TOML file.

mod admin;
mod history;
mod role;

pub use admin::{AdminConfig, Level};
pub use history::HistoryConfig;
pub use role::{PostgresConfig, Role};
pub use weir_auth::x509::DoorConfig as X509Config;
pub use weir_events::{EventsConfig, FileSinkConfig, Messages, StompSinkConfig, WebhookSinkConfig};
pub use weir_executor::config::{BrokerConfig, CopyConfig, IssuerConfig, NoHost, RedirectHost, TokensConfig};

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_http::Network;
use weir_service::config::{Configuration, Invalid};
pub use weir_service::{
    config::ConfigError,
    tls::{TlsFiles, Trust},
};
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
    /// Accepted token issuers.
    #[serde(default, rename = "issuer")]
    pub issuers: Vec<IssuerConfig>,
    /// How tokens are renewed.
    #[serde(default)]
    pub tokens: TokensConfig,
    /// Brokers, which submit jobs with tokens of other users: Rucio, DIRAC. Without an entry, only tokens of a job's
    /// submitter are renewed.
    #[serde(default, rename = "broker")]
    pub brokers: Vec<BrokerConfig>,
    /// Certificates of clients. Default: no client certificate is requested.
    #[serde(default)]
    pub x509: Option<X509Config>,
    /// The jobs that a user sees, changes and cancels. Default: those of the user's VO, as FTS3's role table has it.
    /// `"all"` applies to users with certificates; users with tokens have `"vo"` then.
    #[serde(default = "of_vo")]
    pub user_level: Level,
    /// Administrators: they see and cancel every job, and change the configuration.
    #[serde(default, rename = "admin")]
    pub admins: Vec<AdminConfig>,
    /// Networks that may read `/.well-known/weir/metrics` without an administrator's token. Default: this host. Behind
    /// a reverse proxy on this host: `[]`.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
    /// Whether storages may be spoken to without TLS. Tokens then travel in the clear: for tests.
    #[serde(default)]
    pub plain_http: bool,
    /// Limits of the service.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// When a failed transfer is tried again.
    #[serde(default)]
    pub retry: RetryConfig,
    /// How copies are made.
    #[serde(default)]
    pub copy: CopyConfig,
    /// Receivers of messages about transfers. Default: none.
    #[serde(default)]
    pub events: Option<EventsConfig>,
    /// Retention of ended jobs.
    #[serde(default)]
    pub history: HistoryConfig,
}

fn of_vo() -> Level {
    Level::Vo
}

/// Limits of the service.
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
    /// Largest number of active transfers. Default: a third of the files that the process may open.
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
    pub fn per_client(&self) -> usize {
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
    pub fn is_none(&self) -> bool {
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

    /// Reads and checks a file. Relative paths in it are relative to the file.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line, key and remedy.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        weir_service::config::load(path)
    }
}

impl Configuration for TransferConfig {
    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let tls = self.tls.iter_mut().flat_map(TlsFiles::paths);
        let own = self.store.iter_mut().chain(&mut self.key_file);
        let secrets = self.issuers.iter_mut().filter_map(|issuer| issuer.secret_file.as_mut());
        let database = self.postgres.iter_mut().flat_map(PostgresConfig::paths);
        tls.chain(self.trust.paths())
            .chain(own)
            .chain(secrets)
            .chain(self.events.iter_mut().flat_map(EventsConfig::paths))
            .chain(self.x509.iter_mut().flat_map(X509Config::paths))
            .chain(database)
            .collect()
    }

    fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let mut wrong = |key: &str, problem: &str, remedy: &str| invalid.push(Invalid::new(key, problem, remedy));
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            let problem = "without [tls] only a loopback address may be listened on";
            wrong(
                "listen",
                problem,
                "add [tls] with certificate and key, or listen on 127.0.0.1",
            );
        }
        if self.postgres.is_some() && self.store.is_some() {
            wrong("postgres", "store and [postgres] exclude each other", "leave one out");
        }
        if let Some(postgres) = &self.postgres {
            if self.key_file.is_none() {
                wrong(
                    "key_file",
                    "is needed with [postgres]",
                    "name the same key at every node",
                );
            }
            if postgres.hosts().next().is_none() {
                wrong("postgres.host", "names no server", "name one");
            }
        }
        if self.history.keep != Duration::ZERO && self.history.keep < self.history.archive_after {
            let problem = "must not be shorter than archive_after";
            wrong("history.keep", problem, "give more; 0s keeps for ever");
        }
        if self.issuers.is_empty() && self.x509.is_none() {
            wrong("issuer", "nobody is let in", "add at least one [[issuer]], or [x509]");
        }
        if let Some(x509) = &self.x509 {
            if self.tls.is_none() {
                wrong(
                    "x509",
                    "certificates of clients need [tls]",
                    "add [tls] with certificate and key",
                );
            }
            if x509.vomses.is_some() && x509.vomsdir.is_none() {
                wrong("x509.vomses", "without vomsdir no attributes are taken", "add vomsdir");
            }
        }
        for link in self.limits.links.keys().filter(|link| !link.contains('>')) {
            let problem = format!("'{link}' is no link");
            wrong("limits.links", &problem, "write it as 'https://a > https://b'");
        }
        if self.postgres.is_none() && self.store.is_none() {
            let problem = "is missing: jobs would be lost at the next stop";
            wrong(
                "store",
                problem,
                "name the file of a database, or a server in [postgres]",
            );
        }
        let mut of = |key: String, why: Option<&str>| {
            invalid.extend(why.map(|why| Invalid::new(key, why, "see docs/running-services.md")));
        };
        for (place, issuer) in self.issuers.iter().enumerate() {
            of(format!("issuer[{place}]"), issuer.problem());
        }
        for why in self.tokens.problems() {
            of("tokens".into(), Some(why));
        }
        for (place, broker) in self.brokers.iter().enumerate() {
            of(format!("broker[{place}]"), broker.problem(&self.issuers));
        }
        for (place, admin) in self.admins.iter().enumerate() {
            of(format!("admin[{place}]"), admin.problem(self.issuers.len()));
        }
        invalid.extend(self.events.iter().flat_map(EventsConfig::check));
        invalid
    }
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
        // The file shows an operator the defaults.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/transfer.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let shown = text.lines().map(|line| match line.strip_prefix('#') {
            Some(shown) if shown.starts_with(|c: char| c.is_ascii_lowercase()) && shown.contains(" = ") => shown,
            _ => line,
        });
        let config = weir_service::config::read::<TransferConfig>(
            &shown.collect::<Vec<_>>().join("\n"),
            Path::new("transfer.toml"),
        )
        .unwrap();
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
    fn a_meaningless_setting_is_refused_with_its_key() {
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
