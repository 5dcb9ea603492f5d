//! Certificates and trust, as configuration files say them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_http::TrustRoots;

/// PEM files of a service's identity.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Its paths, for [`crate::config::Configuration::paths`].
    pub fn paths(&mut self) -> [&mut PathBuf; 2] {
        [&mut self.certificate, &mut self.key]
    }

    /// The same, to be read.
    pub fn files(&self) -> [&Path; 2] {
        [&self.certificate, &self.key]
    }
}

/// Certificate authorities that a service trusts when it connects to others.
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

    /// Its paths, for [`crate::config::Configuration::paths`].
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.files.iter_mut().chain(&mut self.directories)
    }
}
