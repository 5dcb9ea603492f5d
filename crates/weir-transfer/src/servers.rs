//! Servers that we connect to: storages, and issuers of tokens. Whom their authorities have revoked is told nothing.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::x509::{RevocationCheck, ServerRevocations, X509Error};
use weir_http::{Client, TlsError, TrustRoots};

use crate::config::TransferConfig;

/// Whom we trust, as files have it that change by themselves.
#[derive(Debug)]
pub(crate) struct ServersTrust {
    roots: TrustRoots,
    revocations: Arc<ServerRevocations>,
}

impl ServersTrust {
    /// Reads the revocation lists in `trust.directories`, and in `x509.authorities` unless lists are off there.
    pub(crate) fn open(config: &TransferConfig, now: SystemTime) -> Result<Self, X509Error> {
        let revocations = ServerRevocations::open(Self::directories(config), now)?;
        Ok(Self {
            roots: config.trust.roots(),
            revocations: Arc::new(revocations),
        })
    }

    /// The same client, which refuses servers that were revoked.
    pub(crate) fn judging(&self, client: &Client) -> Result<Client, TlsError> {
        client.judging(self.revocations.clone())
    }

    /// Reads authorities and lists again, for this client and those made from it. What cannot be read leaves in force what was read before.
    pub(crate) fn renew(&self, client: &Client) -> Result<(), String> {
        let read = self.revocations.refresh(SystemTime::now());
        read.map_err(|error| weir_auth::error_chain(&error))?;
        // Connections made before are not used again, so that nobody stays who was revoked.
        let renewed = client.renew(&self.roots);
        renewed.map_err(|error| weir_auth::error_chain(&error))
    }

    /// Where authorities are, and their lists.
    pub(crate) fn directories(config: &TransferConfig) -> Vec<PathBuf> {
        let mut directories = config.trust.directories.clone();
        let x509 = config
            .x509
            .iter()
            .filter(|x509| x509.revocation != RevocationCheck::Off);
        for authorities in x509.map(|x509| &x509.authorities) {
            if !directories.contains(authorities) {
                directories.push(authorities.clone());
            }
        }
        directories
    }
}

#[cfg(test)]
mod tests {
    use weir_auth::x509::DoorConfig;

    use super::*;

    /// A site with one directory for users, and a bundle for servers, would have its lists count for users alone.
    #[test]
    fn lists_are_where_authorities_are() {
        let check = |trust: &[&str], x509: Option<(&str, RevocationCheck)>, expected: &[&str]| {
            let mut config = TransferConfig::new(([127, 0, 0, 1], 0).into());
            config.trust.directories = trust.iter().map(PathBuf::from).collect();
            config.x509 = x509.map(|(authorities, revocation)| DoorConfig {
                revocation,
                ..DoorConfig::new(authorities)
            });
            assert_eq!(
                ServersTrust::directories(&config),
                expected.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        };
        check(&[], None, &[]);
        check(&["/a"], Some(("/a", RevocationCheck::IfPresent)), &["/a"]);
        check(&["/a"], Some(("/b", RevocationCheck::Required)), &["/a", "/b"]);
        check(&["/a"], Some(("/b", RevocationCheck::Off)), &["/a"]);
    }
}
