//! What an operator says about an endpoint: one TOML file.

mod area;
mod limits;
mod tpc;

pub use area::{AreaConfig, Durability};
pub use limits::Limits;
pub use tpc::{TpcConfig, Verify};

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use weir_auth::StoragePath;
use weir_http::{Network, TrustRoots};

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

fn yes() -> bool {
    true
}

fn root_only() -> Vec<StoragePath> {
    vec![StoragePath::root()]
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

fn wrong(key: String, problem: String, remedy: &'static str) -> ConfigError {
    ConfigError::Invalid { key, problem, remedy }
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
        if self.areas.is_empty() {
            let remedy = "add an [[area]] with name, prefix and root";
            return Err(wrong("area".into(), "nothing to serve".into(), remedy));
        }
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            let problem = format!("{} is reachable from outside, and there is no certificate", self.listen);
            let remedy = "add [tls] with certificate and key, or listen on 127.0.0.1";
            return Err(wrong("tls".into(), problem, remedy));
        }
        for (place, area) in self.areas.iter().enumerate() {
            area.check(place, &self.areas[..place])?;
        }
        self.limits.check()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use weir_units::Algorithm;

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
