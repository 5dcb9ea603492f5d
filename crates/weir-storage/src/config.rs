//! What an operator says about an endpoint: one TOML file.

mod area;
mod issuer;
mod limits;
mod shares;
mod sockets;
mod srr;
mod tokens;
mod tpc;

pub use area::{AreaConfig, Dav, Durability};
pub(crate) use area::{SEPARATE, overlap};
pub use issuer::IssuerConfig;
pub use limits::Limits;
pub use shares::Share;
pub(crate) use shares::{ShareKind, share_of};
pub use sockets::Sockets;
pub use srr::{Quality, SrrConfig};
pub use tokens::TokensConfig;
pub use tpc::{TpcConfig, Verify};

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use weir_auth::x509::DoorConfig;
use weir_http::{Network, TrustRoots};
use weir_network::firefly::FireflyConfig;

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
    /// Clients' certificates. Default: nobody is asked for one.
    #[serde(default)]
    pub x509: Option<DoorConfig>,
    /// Tokens of the endpoint's own. Default: it makes none.
    #[serde(default)]
    pub tokens: Option<TokensConfig>,
    /// What is served; at least one.
    #[serde(rename = "area")]
    pub areas: Vec<AreaConfig>,
    /// What the endpoint puts up with.
    #[serde(default)]
    pub limits: Limits,
    /// What some may take of that: VOs, clients, areas.
    #[serde(default, rename = "limit")]
    pub shares: Vec<Share>,
    /// Connections of clients.
    #[serde(default)]
    pub sockets: Sockets,
    /// Third-party copies.
    #[serde(default)]
    pub tpc: TpcConfig,
    /// Who is told of flows that carry a `SciTag`. Default: nobody.
    #[serde(default)]
    pub firefly: FireflyConfig,
    /// The space report.
    #[serde(default)]
    pub srr: SrrConfig,
    /// One JSON object a line for every request; appended to. Default: none.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// Who may read `/.well-known/weir/metrics`. Default: this host.
    #[serde(default = "weir_http::this_host")]
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

fn yes() -> bool {
    true
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
            x509: None,
            tokens: None,
            areas,
            limits: Limits::default(),
            shares: Vec::new(),
            sockets: Sockets::default(),
            tpc: TpcConfig::default(),
            firefly: FireflyConfig::default(),
            srr: SrrConfig::default(),
            access_log: None,
            metrics_allow: weir_http::this_host(),
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
        let x509 = self.x509.iter_mut().flat_map(DoorConfig::paths);
        let own = self.tokens.iter_mut().map(|tokens| &mut tokens.key);
        for path in tls
            .chain(trust)
            .chain(x509)
            .chain(own)
            .chain(areas)
            .chain(&mut self.access_log)
        {
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
        if self.x509.is_some() && self.tls.is_none() {
            let problem = "clients show certificates over TLS only".into();
            return Err(wrong("x509".into(), problem, "add [tls] with certificate and key"));
        }
        if self.x509.as_ref().is_some_and(|x509| x509.vomses.is_some()) {
            let problem = "a storage asks no VOMS server".into();
            return Err(wrong(
                "x509.vomses".into(),
                problem,
                "leave it out: it is for transfer services",
            ));
        }
        if self.tokens.is_some() && self.tls.is_none() {
            let problem = "a token must not be sent in the clear".into();
            return Err(wrong("tokens".into(), problem, "add [tls] with certificate and key"));
        }
        for (place, area) in self.areas.iter().enumerate() {
            area.check(place, &self.areas[..place])?;
            area.check_access(place, &self.issuers)?;
        }
        self.shares.iter().try_for_each(Share::check)?;
        self.sockets.check("sockets")?;
        self.tpc.sockets.check("tpc.sockets")?;
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
            "[[area]]\nname = \"x\"\nprefix = \"/x\"\nroot = \"data/inner\"",
            "lies inside",
        );
        check("[[area]]\nname = \"x\"\nprefix = \"/x\"\nroot = \".\"", "holds");
        check(
            "[[area]]\nname = \"x\"\nprefix = \"/.weir-x\"\nroot = \"x\"",
            "area[1].prefix",
        );
        check("issuers = [\"https://i\"]", "area[0].issuers");
        check("[[area.rule]]\nmay = [\"read\"]", "area[0].rule[0].vo");
        check("[[area.rule]]\nvo = \"dune\"\nmay = [\"write\"]", "write");
        check(
            "[[area.rule]]\nvo = \"dune\"\nmay = [\"read\"]\npath = \"/other\"",
            "area[0].rule[0].path",
        );
        check(
            "[[area.rule]]\nissuer = \"https://i\"\nmay = [\"read\"]",
            "area[0].rule[0].issuer",
        );
        check("[x509]\nauthorities = \"certificates\"", "x509");
        let (tls, vomses) = (
            "[tls]\ncertificate = \"c\"\nkey = \"k\"\n",
            "[x509]\nauthorities = \"a\"\nvomses = \"v\"",
        );
        check(&format!("{tls}{vomses}"), "x509.vomses");
        check("[tokens]\nkey = \"token.key\"", "tokens");
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
