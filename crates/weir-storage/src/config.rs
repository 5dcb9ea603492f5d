//! What an operator says about an endpoint: one TOML file.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_auth::StoragePath;
use weir_http::{Network, TrustRoots};
use weir_units::{Algorithm, Bytes};

use crate::backend::PRIVATE_PREFIX;

/// A storage endpoint. Unknown keys are refused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageConfig {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How clients write this endpoint, such as `https://storage.example.org:8443`. Default: from `listen`.
    #[serde(default)]
    pub url: Option<String>,
    /// Certificate and key. Without them the endpoint speaks plain HTTP, and may listen on loopback addresses only.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Certificate authorities believed when we connect: to the other side of a copy, and to issuers.
    #[serde(default)]
    pub trust: Trust,
    /// Names of this endpoint in the `aud` of tokens, beside its URL.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// Whether tokens for every service (`https://wlcg.cern.ch/jwt/v1/any`) are taken. Default: yes.
    #[serde(default = "yes")]
    pub any_audience: bool,
    /// Whose tokens are taken.
    #[serde(default, rename = "issuer")]
    pub issuers: Vec<IssuerConfig>,
    /// What is served; at least one.
    #[serde(rename = "area")]
    pub areas: Vec<AreaConfig>,
    /// What the endpoint puts up with.
    #[serde(default)]
    pub limits: Limits,
    /// Third-party copies.
    #[serde(default)]
    pub tpc: TpcConfig,
    /// One JSON object a line for every request; appended to. Default: none.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// Who may read `/.well-known/weir/metrics`. Default: this host.
    #[serde(default = "this_host")]
    pub metrics_allow: Vec<Network>,
}

/// PEM files of the endpoint's identity.
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

/// An issuer whose tokens are taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// As tokens write it in `iss`, character by character.
    pub url: String,
    /// The paths below which its scopes count. Default: `/`.
    #[serde(default = "root_only")]
    pub prefixes: Vec<StoragePath>,
    /// Names of this endpoint that only this issuer's tokens may use.
    #[serde(default)]
    pub audiences: Vec<String>,
}

/// A part of the name space with a directory of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AreaConfig {
    /// For metrics and logs: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// Where it appears in URLs.
    pub prefix: StoragePath,
    /// The directory that holds it; made if it is missing.
    pub root: PathBuf,
    /// The most that its files may take together. Default: what the file system has.
    #[serde(default)]
    pub quota: Option<Bytes>,
    /// Refuses every change.
    #[serde(default)]
    pub read_only: bool,
    /// Reading, looking and listing without a token.
    #[serde(default)]
    pub anonymous_read: bool,
    /// When a write counts as done.
    #[serde(default)]
    pub durability: Durability,
    /// Taken of every file on its way in. Default: adler32 and crc32c.
    #[serde(default = "default_checksums")]
    pub checksums: Vec<Algorithm>,
}

/// When a write counts as done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// When it survives a power cut: file and directory are synced before success is reported.
    #[default]
    Full,
    /// When the operating system has it: it survives the end of the process, not of the machine.
    Cache,
}

/// What the endpoint puts up with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Open connections; more wait in the kernel's backlog.
    pub connections: usize,
    /// GETs and PUTs that move data at one time; more are answered 503 with `Retry-After`.
    /// 1000 × (2 × 512 KiB read ahead, or 2 × 1 MiB waiting to be written) ≤ 2 GiB.
    pub transfers: usize,
    /// Third-party copies that move data at one time.
    pub copies: usize,
    /// Third-party copies that wait for their turn, kept alive by markers; more are answered 503.
    pub copies_queued: usize,
    /// Files read at one time because somebody asks for a checksum that is not stored.
    pub checksum_readers: usize,
    /// Limit for a request's head, and for an idle connection.
    #[serde(with = "weir_units::duration")]
    pub head_timeout: Duration,
    /// The longest silence of a client in the middle of a body.
    #[serde(with = "weir_units::duration")]
    pub idle_timeout: Duration,
    /// A PUT whose client sends less than `pace_bytes` in this time is given up.
    #[serde(with = "weir_units::duration")]
    pub pace_timeout: Duration,
    /// 600 kB in 60 s is 10 kB/s, as for third-party copies.
    pub pace_bytes: Bytes,
    /// Directories listed at one time; more are answered 503. 200 × 256 kB of text = 50 MB.
    pub listings: usize,
    /// How long transfers in hand may go on when the endpoint is told to stop.
    #[serde(with = "weir_units::duration")]
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            transfers: 1000,
            copies: 200,
            copies_queued: 2000,
            checksum_readers: 4,
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            pace_timeout: Duration::from_secs(60),
            pace_bytes: Bytes(600_000),
            listings: 200,
            grace: Duration::from_secs(10),
        }
    }
}

/// Third-party copies.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TpcConfig {
    /// Addresses of this host and of private networks that may be connected to all the same.
    pub allow: Vec<Network>,
    /// Whether the other side may be spoken to without TLS. A token is never sent there.
    pub plain_http: bool,
    /// Limit for resolving and connecting, and again for the TLS handshake.
    #[serde(with = "weir_units::duration")]
    pub connect_timeout: Duration,
    /// Limit for the head of an answer. XRootD allows 120 s: a source may read its file from a slow disk first.
    #[serde(with = "weir_units::duration")]
    pub response_timeout: Duration,
    /// A copy that moves less than `stall_bytes` in this time is given up.
    #[serde(with = "weir_units::duration")]
    pub stall_timeout: Duration,
    /// 600 kB in 60 s is 10 kB/s, as other endpoints have it.
    pub stall_bytes: Bytes,
    /// How long the destination of a push may take to answer after the last byte: it may have to sync a large file to its
    /// disks. Meanwhile the copy gives its place to another.
    #[serde(with = "weir_units::duration")]
    pub answer_timeout: Duration,
    /// The longest chain of redirects that is followed.
    pub redirects: u32,
    /// What is asked of the other side's checksum when the client does not say.
    pub verify: Verify,
    /// How long a push waits for `100 Continue` before it sends the body all the same.
    #[serde(with = "weir_units::duration")]
    pub continue_timeout: Duration,
    /// Interval between performance markers.
    #[serde(with = "weir_units::duration")]
    pub marker_interval: Duration,
}

/// What is asked of the other side's checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Compared if the other side sends one.
    #[default]
    WhenOffered,
    /// A side that has none fails the copy.
    Required,
}

impl Default for TpcConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            plain_http: false,
            connect_timeout: Duration::from_secs(30),
            response_timeout: Duration::from_secs(120),
            stall_timeout: Duration::from_secs(60),
            stall_bytes: Bytes(600_000),
            answer_timeout: Duration::from_secs(300),
            redirects: 5,
            verify: Verify::WhenOffered,
            continue_timeout: Duration::from_secs(2),
            marker_interval: crate::marker::MARKER_INTERVAL,
        }
    }
}

fn yes() -> bool {
    true
}

fn root_only() -> Vec<StoragePath> {
    vec![StoragePath::root()]
}

fn default_checksums() -> Vec<Algorithm> {
    vec![Algorithm::Adler32, Algorithm::Crc32c]
}

fn this_host() -> Vec<Network> {
    ["127.0.0.0/8", "::1"]
        .iter()
        .map(|text| text.parse().expect("a constant range is valid"))
        .collect()
}

/// A configuration that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// It is no TOML, or has a key or value that is not known. The text names line and key.
    #[error("{path}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What the parser found.
        message: String,
    },
    /// The values do not go together.
    #[error("{key}: {problem}; {remedy}")]
    Invalid {
        /// The key at fault.
        key: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl StorageConfig {
    /// An endpoint on this address with these areas, all else by default.
    pub fn new(listen: SocketAddr, areas: Vec<AreaConfig>) -> Self {
        Self {
            listen,
            url: None,
            tls: None,
            trust: Trust::default(),
            audiences: Vec::new(),
            any_audience: true,
            issuers: Vec::new(),
            areas,
            limits: Limits::default(),
            tpc: TpcConfig::default(),
            access_log: None,
            metrics_allow: this_host(),
        }
    }

    /// Reads and checks a file. Relative paths in it are relative to the file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config: Self = toml::from_str(&text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        config.resolve_paths(path.parent().unwrap_or(Path::new("")));
        config.check()?;
        Ok(config)
    }

    fn resolve_paths(&mut self, folder: &Path) {
        let tls = self.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key]);
        let trust = self.trust.files.iter_mut().chain(&mut self.trust.directories);
        let areas = self.areas.iter_mut().map(|area| &mut area.root);
        for path in tls.chain(trust).chain(areas).chain(&mut self.access_log) {
            *path = folder.join(&*path);
        }
    }

    /// Checks what the types cannot.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key: String, problem: String, remedy| Err(ConfigError::Invalid { key, problem, remedy });
        if self.areas.is_empty() {
            return wrong(
                "area".into(),
                "nothing to serve".into(),
                "add an [[area]] with name, prefix and root",
            );
        }
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            let problem = format!("{} is reachable from outside, and there is no certificate", self.listen);
            return wrong(
                "tls".into(),
                problem,
                "add [tls] with certificate and key, or listen on 127.0.0.1",
            );
        }
        for (place, area) in self.areas.iter().enumerate() {
            let key = |name: &str| format!("area[{place}].{name}");
            let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if area.name.is_empty() || area.name.len() > 64 || !area.name.chars().all(valid) {
                return wrong(
                    key("name"),
                    format!("\"{}\" is no name", area.name),
                    "use letters, digits, '.', '_' and '-'",
                );
            }
            if area
                .prefix
                .components()
                .iter()
                .any(|name| name.starts_with(PRIVATE_PREFIX))
            {
                return wrong(
                    key("prefix"),
                    format!("{} is reserved", area.prefix),
                    "choose names that do not begin with .weir-",
                );
            }
            for other in &self.areas[..place] {
                if other.name == area.name {
                    return wrong(
                        key("name"),
                        format!("\"{}\" is taken", area.name),
                        "give each area a name of its own",
                    );
                }
                if other.prefix.components() == area.prefix.components() {
                    return wrong(
                        key("prefix"),
                        format!("{} is taken", area.prefix),
                        "give each area a prefix of its own",
                    );
                }
                if other.root == area.root {
                    return wrong(
                        key("root"),
                        format!("{} is taken", area.root.display()),
                        "give each area a directory of its own",
                    );
                }
            }
        }
        for (key, count) in [
            ("limits.connections", self.limits.connections),
            ("limits.transfers", self.limits.transfers),
            ("limits.copies", self.limits.copies),
            ("limits.listings", self.limits.listings),
            ("limits.checksum_readers", self.limits.checksum_readers),
        ] {
            if count == 0 {
                return wrong(key.into(), "0 lets nothing through".into(), "set at least 1");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    const SMALL: &str = r#"
        listen = "127.0.0.1:0"
        [[area]]
        name = "data"
        prefix = "/data"
        root = "data"
    "#;

    fn load(text: &str) -> Result<StorageConfig, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("storage.toml");
        std::fs::write(&file, text).unwrap();
        StorageConfig::load(&file).inspect(|config| assert!(config.areas[0].root.starts_with(folder.path())))
    }

    /// A default that is not safe, or not documented, would go unseen.
    #[test]
    fn a_small_file_has_safe_defaults() {
        let config = load(SMALL).unwrap();
        assert_eq!(config.areas[0].durability, Durability::Full);
        assert_eq!(config.areas[0].checksums, [Algorithm::Adler32, Algorithm::Crc32c]);
        assert!(config.tpc.allow.is_empty() && !config.tpc.plain_http && !config.areas[0].anonymous_read);
    }

    /// A typing error that is taken silently makes an endpoint that is not what was asked for.
    #[test]
    fn mistakes_are_named_with_their_key() {
        let check = |change: &str, expected: &str| {
            let text = format!("{SMALL}\n{change}");
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{change}: {error}");
        };
        check("quotta = \"1 TB\"", "quotta");
        check("quota = \"1 parsec\"", "quota");
        check("checksums = [\"adler33\"]", "adler33");
        check(
            "[[area]]\nname = \"data\"\nprefix = \"/x\"\nroot = \"x\"",
            "area[1].name",
        );
        check(
            "[[area]]\nname = \"x\"\nprefix = \"/data/\"\nroot = \"x\"",
            "area[1].prefix",
        );
        check(
            "[[area]]\nname = \"x\"\nprefix = \"/x\"\nroot = \"data\"",
            "area[1].root",
        );
        check(
            "[[area]]\nname = \"x\"\nprefix = \"/.weir-x\"\nroot = \"x\"",
            "area[1].prefix",
        );
        check("[limits]\ncopies = 0", "limits.copies");
        check("[tpc]\nallow = [\"localhost\"]", "localhost");
        assert!(
            load(&SMALL.replace("127.0.0.1", "0.0.0.0"))
                .unwrap_err()
                .to_string()
                .contains("tls")
        );
    }
}
