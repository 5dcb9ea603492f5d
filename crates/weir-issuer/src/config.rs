//! The configuration of an issuer: one TOML file.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use weir_auth::{ANY_AUDIENCE, Scope, Secret};
use weir_http::{Identity, Network};
use weir_service::config::{Configuration, Invalid};
pub use weir_service::{config::ConfigError, tls::TlsFiles};

/// Shortest secret of a client, in characters: 128 bits in base64 take 22.
pub const SECRET_MIN: usize = 16;

/// Longest delay of an answer.
const ANSWER_DELAY_MAX: Duration = Duration::from_secs(60);

/// An issuer. Unknown keys are refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// `iss` of every token, as clients and services write it. Default: `https://` and the address listened on.
    #[serde(default)]
    pub url: Option<String>,
    /// Certificate and key. Programs that embed an issuer give the identity to [`crate::Issuer::start`] instead.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Directory of the signing keys; made if it is missing.
    pub key_directory: PathBuf,
    /// How long a token is good. Default 1 h: long enough for a transfer, short enough for a stolen token.
    #[serde(default = "default_lifetime", with = "weir_units::duration")]
    pub token_lifetime: Duration,
    /// Holds the answer to each request for a token back by this time, to try clients against a slow issuer. Default: not at all.
    #[serde(default, with = "weir_units::duration")]
    pub answer_delay: Duration,
    /// How long one key signs. Default 7 d.
    #[serde(default = "default_rotation", with = "weir_units::duration")]
    pub rotation: Duration,
    /// How long a refresh token is good. Default 30 d.
    #[serde(default = "default_refresh_lifetime", with = "weir_units::duration")]
    pub refresh_lifetime: Duration,
    /// Tokens per second that one client may ask for, in the long run; more are answered 429. Default 1000: a signature
    /// takes some 25 µs, so that forty clients at their limit would fill one core.
    #[serde(default = "default_rate")]
    pub tokens_per_second: u32,
    /// Limits of connections.
    #[serde(default)]
    pub limits: Limits,
    /// Networks whose clients may read `/.well-known/weir/metrics`. Default: this host.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
    /// The clients that may request tokens.
    #[serde(default, rename = "client")]
    pub clients: Vec<Client>,
}

/// Limits of connections.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections. For one more the connection that has been idle longest is closed; if none is, it waits in the kernel.
    pub connections: usize,
    /// Open connections of one address (IPv4, or an IPv6 network of 64 bits); more are refused. Default: half of all.
    pub connections_per_client: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_client: None,
        }
    }
}

impl Limits {
    /// Connections that one address may have.
    pub(crate) fn per_client(&self) -> usize {
        self.connections_per_client.unwrap_or(self.connections / 2).max(1)
    }
}

/// A program that may ask for tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// `client_id`; also the subject of its tokens, unless `subject` says otherwise.
    pub id: String,
    /// File with the client's secret. This or `secret_sha256`.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// SHA-256 of the client's secret, in hexadecimal, so that the secret itself need not be here.
    /// A fast hash suffices because secrets are random, not chosen by people.
    #[serde(default)]
    pub secret_sha256: Option<String>,
    /// The widest scopes that it may ask for: `storage.read:/` allows every path, `storage.modify:/scratch` those below.
    pub scopes: Vec<String>,
    /// The audiences that it may ask for; `*` allows every one. The first is the default.
    pub audiences: Vec<String>,
    /// `sub` of its tokens. Default: its id.
    #[serde(default)]
    pub subject: Option<String>,
    /// Whether it may exchange tokens that this issuer gave to others (RFC 8693), and refresh the results: for a
    /// service that continues in their name. It gets no right that they do not have, and none beyond its own scopes and
    /// audiences. Default: no.
    #[serde(default)]
    pub exchange: bool,
    /// `wlcg.groups` of tokens for which the scope `wlcg.groups` is asked.
    #[serde(default)]
    pub groups: Vec<String>,
}

fn default_lifetime() -> Duration {
    Duration::from_secs(3600)
}

fn default_refresh_lifetime() -> Duration {
    Duration::from_secs(30 * 86_400)
}

fn default_rotation() -> Duration {
    Duration::from_secs(7 * 86_400)
}

fn default_rate() -> u32 {
    1000
}

fn invalid(key: impl Into<String>, problem: impl Into<String>, remedy: &'static str) -> Invalid {
    Invalid::new(key, problem, remedy)
}

impl IssuerConfig {
    /// An issuer on this address with these clients, all else by default.
    pub fn new(listen: SocketAddr, key_directory: impl Into<PathBuf>, clients: Vec<Client>) -> Self {
        Self {
            listen,
            url: None,
            tls: None,
            key_directory: key_directory.into(),
            token_lifetime: default_lifetime(),
            answer_delay: Duration::ZERO,
            rotation: default_rotation(),
            refresh_lifetime: default_refresh_lifetime(),
            tokens_per_second: default_rate(),
            limits: Limits::default(),
            metrics_allow: weir_http::this_host(),
            clients,
        }
    }

    /// Reads and checks a file. Relative paths in it are relative to the file.
    ///
    /// # Errors
    /// Everything that is wrong, with file, line, key and remedy.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        weir_service::config::load(file)
    }

    /// The identity that `tls` names.
    ///
    /// # Errors
    /// It names none, or an invalid one.
    pub fn identity(&self) -> Result<Identity, ConfigError> {
        let tls = self.tls.as_ref().ok_or_else(|| {
            invalid(
                "tls",
                "an issuer speaks TLS, and there is no certificate",
                "add [tls] with certificate and key",
            )
        })?;
        Identity::load(&tls.certificate, &tls.key).map_err(|error| {
            let problem = weir_auth::error_chain(&error);
            invalid("tls", problem, "name the chain, leaf first, and its private key").into()
        })
    }
}

impl Configuration for IssuerConfig {
    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let tls = self.tls.iter_mut().flat_map(TlsFiles::paths);
        let secrets = self.clients.iter_mut().filter_map(|client| client.secret_file.as_mut());
        tls.chain(secrets).chain([&mut self.key_directory]).collect()
    }

    fn check(&self) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        if let Some(url) = &self.url {
            let host = url.strip_prefix("https://").unwrap_or_default();
            let good = !host.is_empty()
                && !host.starts_with('/')
                && host
                    .bytes()
                    .all(|byte| byte.is_ascii_graphic() && !b"?#\\\"%{}".contains(&byte));
            if !good {
                wrong.push(invalid(
                    "url",
                    format!("{url:?} is no issuer"),
                    "write https://, a host and perhaps a path",
                ));
            }
        }
        let day = Duration::from_secs(86_400);
        if self.token_lifetime < Duration::from_secs(1) || self.token_lifetime > day {
            wrong.push(invalid(
                "token_lifetime",
                "it is below 1 s or above 1 d",
                "set some hours at most",
            ));
        }
        if self.answer_delay > ANSWER_DELAY_MAX {
            let problem = format!("it is above {} s", ANSWER_DELAY_MAX.as_secs());
            wrong.push(invalid(
                "answer_delay",
                problem,
                "set less than clients wait for an answer",
            ));
        }
        if self.rotation < self.token_lifetime || self.rotation > 366 * day {
            wrong.push(invalid(
                "rotation",
                "a key signs for less than a token lives, or for more than a year",
                "set some days",
            ));
        }
        if self.refresh_lifetime < self.token_lifetime || self.refresh_lifetime > 366 * day {
            wrong.push(invalid(
                "refresh_lifetime",
                "a refresh token would live for less than a token, or for more than a year",
                "set some days",
            ));
        }
        if self.tokens_per_second == 0 {
            wrong.push(invalid("tokens_per_second", "0 lets nothing through", "set at least 1"));
        }
        let connections = [
            ("limits.connections", Some(self.limits.connections)),
            ("limits.connections_per_client", self.limits.connections_per_client),
        ];
        for (key, _) in connections.into_iter().filter(|(_, count)| *count == Some(0)) {
            wrong.push(invalid(key, "0 lets nothing through", "set at least 1"));
        }
        let mut ids = BTreeSet::new();
        for (place, client) in self.clients.iter().enumerate() {
            wrong.extend(client.check(&format!("client[{place}]")).err());
            if !ids.insert(&client.id) {
                wrong.push(invalid(
                    format!("client[{place}].id"),
                    format!("{:?} is taken", client.id),
                    "give each client an id of its own",
                ));
            }
        }
        wrong
    }
}

impl Client {
    /// A client with a secret in memory, for programs that embed an issuer.
    pub fn with_secret(id: impl Into<String>, secret: &Secret, scopes: &[&str], audiences: &[&str]) -> Self {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            id: id.into(),
            secret_file: None,
            secret_sha256: Some(hex(&Sha256::digest(secret.expose()))),
            scopes: own(scopes),
            audiences: own(audiences),
            subject: None,
            exchange: false,
            groups: Vec::new(),
        }
    }

    fn check(&self, at: &str) -> Result<(), Invalid> {
        let key = |name: &str| format!("{at}.{name}");
        if self.id.is_empty() || self.id.len() > 128 || !self.id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid(
                key("id"),
                format!("{:?} is no client id", self.id),
                "use letters, digits and marks",
            ));
        }
        match (&self.secret_file, &self.secret_sha256) {
            (Some(_), None) => {}
            (None, Some(text)) if unhex(text).is_some() => {}
            (None, Some(_)) => {
                return Err(invalid(
                    key("secret_sha256"),
                    "it is no SHA-256",
                    "write its 64 hexadecimal digits",
                ));
            }
            _ => {
                return Err(invalid(
                    key("secret_file"),
                    "the client has no secret, or two",
                    "set either secret_file or secret_sha256",
                ));
            }
        }
        if self.scopes.is_empty() {
            return Err(invalid(
                key("scopes"),
                "the client may ask for nothing",
                "list the widest scopes it may have",
            ));
        }
        for scope in &self.scopes {
            if Scope::parse(scope).is_err() || !is_scope_text(scope) {
                return Err(invalid(
                    key("scopes"),
                    format!("{scope:?} is no scope"),
                    "write storage.ACTION:/path with a normal path, or a name",
                ));
            }
        }
        if self.audiences.is_empty() || self.audiences.iter().any(|name| !is_scope_text(name)) {
            return Err(invalid(
                key("audiences"),
                "there is none, or one that is empty or has blanks in it",
                "list the services it may have tokens for, or \"*\"",
            ));
        }
        Ok(())
    }

    /// The SHA-256 of the client's secret.
    pub(crate) fn secret_hash(&self, place: usize) -> Result<[u8; 32], Invalid> {
        if let Some(hash) = self.secret_sha256.as_deref().and_then(unhex) {
            return Ok(hash);
        }
        let key = || format!("client[{place}].secret_file");
        let path = self
            .secret_file
            .as_ref()
            .ok_or_else(|| invalid(key(), "there is no secret", "set secret_file"))?;
        let secret = Secret::read(path).map_err(|error| {
            let problem = format!("{} could not be read: {error}", path.display());
            invalid(key(), problem, "name a file that holds the secret")
        })?;
        if secret.expose().len() < SECRET_MIN {
            return Err(invalid(
                key(),
                "the secret is too short",
                "use at least 16 random characters",
            ));
        }
        Ok(Sha256::digest(secret.expose()).into())
    }

    /// The audience of a token for which none was asked.
    pub(crate) fn default_audience(&self) -> &str {
        match self.audiences.first().map(String::as_str) {
            Some("*") | None => ANY_AUDIENCE,
            Some(name) => name,
        }
    }
}

/// RFC 6749 section 3.3: printable ASCII but blank, quote and backslash.
pub(crate) fn is_scope_text(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\')
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect::<Option<_>>()?;
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a panic is how a test fails

    use super::*;

    const SMALL: &str = r#"
        listen = "127.0.0.1:0"
        key_directory = "keys"
        [[client]]
        id = "fts"
        secret_file = "fts.secret"
        scopes = ["storage.read:/", "storage.modify:/data"]
        audiences = ["https://storage.example:8443"]
    "#;

    fn load(text: &str) -> Result<IssuerConfig, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("issuer.toml");
        std::fs::write(&file, text).unwrap();
        IssuerConfig::load(&file).inspect(|config| assert!(config.key_directory.starts_with(folder.path())))
    }

    #[test]
    fn a_small_file_has_safe_defaults() {
        // A default that is not safe would go unseen.
        let config = load(SMALL).unwrap();
        assert_eq!(config.token_lifetime, Duration::from_secs(3600));
        assert_eq!(config.rotation, Duration::from_secs(7 * 86_400));
        assert_eq!(config.clients[0].default_audience(), "https://storage.example:8443");
        assert!(config.identity().is_err(), "an issuer without TLS");
    }

    #[test]
    fn the_documented_example_is_valid() {
        // Operators would copy a file that is refused.
        let page = include_str!("../../../docs/issuer.md");
        let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
        let config: IssuerConfig = weir_service::config::read(example, Path::new("issuer.toml")).unwrap();
        assert_eq!(config.clients[0].groups, ["/example/production"]);
        assert!(config.tls.is_some());
    }

    #[test]
    fn mistakes_are_named_with_their_key() {
        // A silently ignored misspelling makes an issuer with other properties than intended.
        let check = |from: &str, to: &str, expected: &str| {
            let text = SMALL.replacen(from, to, 1);
            assert_ne!(text, SMALL, "{from}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{to}: {error}");
        };
        check("listen =", "url = \"http://x\"\nlisten =", "url");
        check("listen =", "token_lifetim = \"1h\"\nlisten =", "token_lifetim");
        check("listen =", "token_lifetime = 3600\nlisten =", "token_lifetime");
        check(
            "listen =",
            "token_lifetime = \"3h\"\nrotation = \"2h\"\nlisten =",
            "rotation",
        );
        check("listen =", "token_lifetime = \"2d\"\nlisten =", "token_lifetime");
        check("id = \"fts\"", "id = \"\"", "client[0].id");
        check("secret_file = \"fts.secret\"", "", "client[0].secret_file");
        check(
            "secret_file = \"fts.secret\"",
            "secret_sha256 = \"12\"",
            "client[0].secret_sha256",
        );
        check("\"storage.read:/\"", "\"storage.read\"", "client[0].scopes");
        check("\"storage.read:/\"", "\"storage.read:/a/../b\"", "client[0].scopes");
        check(
            "audiences = [\"https://storage.example:8443\"]",
            "audiences = []",
            "client[0].audiences",
        );
        check("[[client]]", "[[client]]\nsecret = \"x\"", "secret");
        let twice =
            format!("{SMALL}\n[[client]]\nid = \"fts\"\nsecret_file = \"x\"\nscopes = [\"fts\"]\naudiences = [\"*\"]");
        assert!(load(&twice).unwrap_err().to_string().contains("client[1].id"));
    }
}
