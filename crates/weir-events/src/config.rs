//! Receivers of messages about transfers: `[events]` and its sinks.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use weir_units::Bytes;

use crate::kind::MessageKind;
use weir_service::config::Invalid;

/// Messages about transfers, kept on disk until every sink has taken them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsConfig {
    /// The folder of the spool. Made if it is missing.
    pub spool: PathBuf,
    /// Largest size of the spool while a sink is down; beyond it the oldest messages are dropped. At least 16 MiB.
    /// Default: 1 GB.
    #[serde(default = "keep")]
    pub keep: Bytes,
    /// Files of JSON lines.
    #[serde(default, rename = "file")]
    pub files: Vec<FileSinkConfig>,
    /// Webhooks.
    #[serde(default, rename = "webhook")]
    pub webhooks: Vec<WebhookSinkConfig>,
    /// STOMP brokers.
    #[serde(default, rename = "stomp")]
    pub stomps: Vec<StompSinkConfig>,
}

impl EventsConfig {
    /// A spool in this folder, and no sinks yet.
    pub fn new(spool: impl Into<PathBuf>) -> Self {
        Self {
            spool: spool.into(),
            keep: keep(),
            files: Vec::new(),
            webhooks: Vec::new(),
            stomps: Vec::new(),
        }
    }
}

/// The kinds of messages that a sink receives: some of `start`, `complete` and `state`. Default: all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Messages(Vec<String>);

impl Messages {
    /// These alone.
    pub fn only(names: &[&str]) -> Self {
        Self(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// The kinds that are sent.
    pub fn kinds(&self) -> Vec<MessageKind> {
        let wanted = |kind: &MessageKind| self.0.is_empty() || self.0.iter().any(|name| name == kind.as_str());
        MessageKind::ALL.into_iter().filter(wanted).collect()
    }

    fn unknown(&self) -> Option<&str> {
        let known = |name: &String| MessageKind::ALL.iter().any(|kind| kind.as_str() == name);
        self.0.iter().find(|name| !known(name)).map(String::as_str)
    }
}

/// A file of JSON lines: `{"type": "complete", "vo": "atlas", "data": {…}}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSinkConfig {
    /// Under which the sink's place in the spool is kept.
    #[serde(default = "file")]
    pub name: String,
    /// The file; it may be renamed at any time, and is made again.
    pub path: PathBuf,
    /// The kinds of messages.
    #[serde(default)]
    pub send: Messages,
}

/// A webhook: it receives arrays of the lines that a file gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSinkConfig {
    /// Under which the sink's place in the spool is kept.
    #[serde(default = "webhook")]
    pub name: String,
    /// Where to `POST`.
    pub url: String,
    /// A file whose first line is sent as bearer token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The kinds of messages.
    #[serde(default)]
    pub send: Messages,
}

/// A STOMP broker.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StompSinkConfig {
    /// Under which the sink's place in the spool is kept.
    #[serde(default = "stomp")]
    pub name: String,
    /// `host:port`.
    pub address: String,
    /// Whether TLS is spoken. Without it only a broker on a loopback address may be given a password. Default: yes.
    #[serde(default = "yes")]
    pub tls: bool,
    /// The user name of the login.
    #[serde(default)]
    pub user: Option<String>,
    /// A file whose first line is the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// Destination of `start` messages.
    #[serde(default = "start")]
    pub start: String,
    /// Destination of `complete` messages.
    #[serde(default = "complete")]
    pub complete: String,
    /// Destination of `state` messages.
    #[serde(default = "state")]
    pub state: String,
    /// How long the broker keeps a message for subscribers that are away. FTS3: 24 hours.
    #[serde(default = "day", with = "weir_units::duration")]
    pub time_to_live: Duration,
    /// The kinds of messages.
    #[serde(default)]
    pub send: Messages,
}

impl StompSinkConfig {
    /// A broker with the defaults: TLS, no login, FTS3's topics.
    pub fn new(name: &str, address: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            tls: true,
            user: None,
            password_file: None,
            start: start(),
            complete: complete(),
            state: state(),
            time_to_live: day(),
            send: Messages::default(),
        }
    }
}

fn yes() -> bool {
    true
}

fn keep() -> Bytes {
    Bytes(1_000_000_000)
}

fn file() -> String {
    "file".into()
}

fn webhook() -> String {
    "webhook".into()
}

fn stomp() -> String {
    "stomp".into()
}

fn start() -> String {
    "/topic/transfer.fts_monitoring_start".into()
}

fn complete() -> String {
    "/topic/transfer.fts_monitoring_complete".into()
}

fn state() -> String {
    "/topic/transfer.fts_monitoring_state".into()
}

fn day() -> Duration {
    Duration::from_secs(86_400)
}

impl EventsConfig {
    /// Every path in it, to be resolved against the folder of the file that it came from.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.spool)
            .chain(self.files.iter_mut().map(|file| &mut file.path))
            .chain(
                self.webhooks
                    .iter_mut()
                    .filter_map(|webhook| webhook.token_file.as_mut()),
            )
            .chain(self.stomps.iter_mut().filter_map(|stomp| stomp.password_file.as_mut()))
    }

    /// Problems of this table that no type rules out, with key and remedy.
    pub fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let mut wrong = |key: &str, problem: String, remedy: &str| invalid.push(Invalid::new(key, problem, remedy));
        let sinks = || {
            let files = self.files.iter().map(|sink| (&sink.name, &sink.send));
            let webhooks = self.webhooks.iter().map(|sink| (&sink.name, &sink.send));
            let stomps = self.stomps.iter().map(|sink| (&sink.name, &sink.send));
            files.chain(webhooks).chain(stomps)
        };
        let mut names = BTreeSet::new();
        for (name, send) in sinks() {
            let usable = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(usable) {
                wrong(
                    "events",
                    format!("the name '{name}' cannot be used"),
                    "use letters, digits, - and _",
                );
            }
            if !names.insert(name) {
                wrong(
                    "events",
                    format!("two sinks are called '{name}'"),
                    "give each a name of its own",
                );
            }
            if let Some(kind) = send.unknown() {
                wrong(
                    "events",
                    format!("'{kind}' is not a kind of message"),
                    "name start, complete or state",
                );
            }
        }
        if names.is_empty() {
            let remedy = "add [[events.file]], [[events.webhook]] or [[events.stomp]]";
            wrong("events", "there is no sink".into(), remedy);
        }
        for webhook in &self.webhooks {
            let url = webhook.url.parse::<http::Uri>().ok();
            let host = url.as_ref().and_then(http::Uri::host).unwrap_or_default();
            let https = url.as_ref().is_some_and(|url| url.scheme_str() == Some("https"));
            if host.is_empty() || !(https || weir_http::is_loopback_host(host)) {
                let problem = format!("'{}' is no https URL", webhook.url);
                wrong("events.webhook.url", problem, "write one; http is for loopback only");
            }
        }
        for broker in &self.stomps {
            let host = broker
                .address
                .rsplit_once(':')
                .filter(|(_, port)| port.parse::<u16>().is_ok());
            let Some((host, _)) = host else {
                let problem = format!("'{}' is no address", broker.address);
                wrong("events.stomp.address", problem, "write it as host:port");
                continue;
            };
            if !broker.tls && broker.password_file.is_some() && !weir_http::is_loopback_host(host) {
                let problem = "a password would be sent in the clear";
                wrong(
                    "events.stomp.tls",
                    problem.into(),
                    "set it: other hosts are sent passwords over TLS only",
                );
            }
            let texts = [&broker.start, &broker.complete, &broker.state]
                .into_iter()
                .chain(&broker.user);
            if texts.into_iter().any(|text| text.contains(['\n', '\r', '\0'])) {
                let problem = "a line break cannot be sent in a header";
                wrong("events.stomp", problem.into(), "leave it out");
            }
        }
        invalid
    }
}
