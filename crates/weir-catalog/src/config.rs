//! The configuration of a catalogue: one TOML file.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};
use weir_http::Network;
use weir_service::{
    config::{Configuration, Invalid},
    tls::TlsFiles,
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
    /// The database. Made if it is missing, with `.lock` and `-wal` files beside it.
    pub store: PathBuf,
    /// The first login, for the account `root`. Applied once, when the database is made.
    pub root: RootConfig,
    /// Addresses that may read `/.well-known/weir/metrics`. Default: this host. Behind a reverse proxy on this host: `[]`.
    #[serde(default = "weir_http::this_host")]
    pub metrics_allow: Vec<Network>,
    /// Limits of the door.
    #[serde(default)]
    pub limits: LimitsConfig,
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
        tls.chain([&mut self.store, &mut self.root.password_file]).collect()
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
            invalid.push(Invalid::new("limits.connections", "0 lets nobody in", "set at least 1"));
        }
        invalid
    }
}
