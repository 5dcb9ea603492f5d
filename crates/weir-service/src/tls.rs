//! Certificates and trust, as configuration files say them.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use serde::{Deserialize, Serialize};
use weir_http::{ChainCheck, Identity, ServerTls, TlsError, TrustRoots};

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

    /// The same, to be watched.
    pub fn files(&self) -> Vec<PathBuf> {
        vec![self.certificate.clone(), self.key.clone()]
    }

    /// Reads them: how connections are encrypted, and when the certificate ends that clients are shown. With `check`, clients are asked
    /// for certificates of their own.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn serve(&self, check: Option<Arc<dyn ChainCheck>>) -> Result<(ServerTls, Option<SystemTime>), TlsError> {
        let identity = Identity::load(&self.certificate, &self.key)?;
        let tls = match check {
            Some(check) => weir_http::server_config_asking(&identity, check),
            None => weir_http::server_config(&identity),
        };
        let tls = tls.map_err(|error| self.named(error))?;
        Ok((Some(tls).into(), weir_auth::x509::ends(&identity.chain_pem)))
    }
}

impl TlsFiles {
    /// An error with the files that it is about.
    fn named(&self, error: TlsError) -> TlsError {
        match error {
            TlsError::Pem { missing, .. } => {
                let file = if missing == "certificate" {
                    &self.certificate
                } else {
                    &self.key
                };
                TlsError::Pem {
                    what: file.display().to_string(),
                    missing,
                }
            }
            error if error.is_mismatch() => TlsError::Mismatch {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
            },
            error => error,
        }
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

    /// Its files and directories, to be watched.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().chain(&self.directories).cloned().collect()
    }

    /// Its paths, for [`crate::config::Configuration::paths`].
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.files.iter_mut().chain(&mut self.directories)
    }
}
