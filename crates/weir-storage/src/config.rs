//! The configuration of an endpoint: one TOML file.

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

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use weir_auth::x509::DoorConfig;
use weir_http::Network;
use weir_network::firefly::FireflyConfig;
use weir_service::config::{Configuration, Invalid};
pub use weir_service::{
    config::ConfigError,
    tls::{TlsFiles, Trust},
};

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
    /// Accepted token issuers.
    #[serde(default, rename = "issuer")]
    pub issuers: Vec<IssuerConfig>,
    /// Clients' certificates. Default: no client certificate is requested.
    #[serde(default)]
    pub x509: Option<DoorConfig>,
    /// Tokens of the endpoint's own. Default: it makes none.
    #[serde(default)]
    pub tokens: Option<TokensConfig>,
    /// The served areas; at least one.
    #[serde(rename = "area")]
    pub areas: Vec<AreaConfig>,
    /// Limits of the endpoint.
    #[serde(default)]
    pub limits: Limits,
    /// Shares of the limits: VOs, clients, areas.
    #[serde(default, rename = "limit")]
    pub shares: Vec<Share>,
    /// Connections of clients.
    #[serde(default)]
    pub sockets: Sockets,
    /// Third-party copies.
    #[serde(default)]
    pub tpc: TpcConfig,
    /// Receivers of reports on flows that carry a `SciTag`. Default: none.
    #[serde(default)]
    pub firefly: FireflyConfig,
    /// The space report.
    #[serde(default)]
    pub srr: SrrConfig,
    /// One JSON object a line for every request; appended to. Default: none.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
    /// Networks that may read `/.well-known/weir/metrics`. Default: this host.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
}

fn yes() -> bool {
    true
}

fn wrong(key: String, problem: String, remedy: &'static str) -> Invalid {
    Invalid::new(key, problem, remedy)
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
}

impl Configuration for StorageConfig {
    fn paths(&mut self) -> Vec<&mut PathBuf> {
        let tls = self.tls.iter_mut().flat_map(TlsFiles::paths);
        let areas = self.areas.iter_mut();
        let areas = areas.flat_map(|area| std::iter::once(&mut area.root).chain(&mut area.mount));
        let x509 = self.x509.iter_mut().flat_map(DoorConfig::paths);
        let own = self.tokens.iter_mut().map(|tokens| &mut tokens.key);
        let beside = tls.chain(self.trust.paths()).chain(x509).chain(own).chain(areas);
        beside.chain(&mut self.access_log).collect()
    }

    fn check(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let mut wrong = |key: &str, problem: &str, remedy: &'static str| {
            invalid.push(Invalid::new(key, problem, remedy));
        };
        const ADD_TLS: &str = "add [tls] with certificate and key";
        if self.areas.is_empty() {
            wrong("area", "nothing to serve", "add an [[area]] with name, prefix and root");
        }
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            let problem = format!("{} is reachable from outside, and there is no certificate", self.listen);
            wrong(
                "tls",
                &problem,
                "add [tls] with certificate and key, or listen on 127.0.0.1",
            );
        }
        if self.x509.is_some() && self.tls.is_none() {
            wrong("x509", "clients show certificates over TLS only", ADD_TLS);
        }
        if self.x509.as_ref().is_some_and(|x509| x509.vomses.is_some()) {
            wrong(
                "x509.vomses",
                "a storage asks no VOMS server",
                "leave it out: it is for transfer services",
            );
        }
        if self.tokens.is_some() && self.tls.is_none() {
            wrong("tokens", "a token must not be sent in the clear", ADD_TLS);
        }
        for (place, area) in self.areas.iter().enumerate() {
            invalid.extend(area.check(place, &self.areas[..place]).err());
            invalid.extend(area.check_access(place, &self.issuers).err());
        }
        invalid.extend(self.shares.iter().filter_map(|share| share.check().err()));
        invalid.extend(self.sockets.check("sockets").err());
        invalid.extend(self.tpc.sockets.check("tpc.sockets").err());
        invalid.extend(self.limits.check());
        invalid
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
        weir_service::config::load::<StorageConfig>(&file)
            .inspect(|config| assert!(config.areas[0].root.starts_with(folder.path())))
    }

    /// A default that is not safe, or not documented, would go unseen.
    #[test]
    fn a_small_file_has_safe_defaults() {
        let config = load(SMALL).unwrap();
        assert_eq!(config.areas[0].durability, Durability::Full);
        assert_eq!(config.areas[0].checksums, [Algorithm::Adler32, Algorithm::Crc32c]);
        assert!(config.tpc.allow.is_empty() && !config.tpc.plain_http && !config.areas[0].anonymous_read);
    }

    /// A silently ignored misspelling makes an endpoint with other properties than intended.
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
