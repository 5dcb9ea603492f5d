//! Connections to others: storages, and issuers of tokens. Whom their authorities have revoked is told nothing.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::x509::{RevocationCheck, ServerRevocations};
use weir_http::{Client, TrustRoots};

use crate::{
    config::TransferConfig,
    opening::{StartError, client},
};

/// How the service connects to others, and whom it trusts, as files have it that change by themselves.
#[derive(Debug)]
pub struct Outbound {
    /// For all of them.
    pub client: Client,
    roots: TrustRoots,
    revocations: Arc<ServerRevocations>,
}

impl Outbound {
    /// Reads authorities, and the revocation lists in `trust.directories`, and in `x509.authorities` unless lists are off there.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn open(config: &TransferConfig, now: SystemTime) -> Result<Self, StartError> {
        let revocations = ServerRevocations::open(directories(config), now).map_err(StartError::Trust)?;
        let revocations = Arc::new(revocations);
        Ok(Self {
            client: client(config)?.judging(revocations.clone())?,
            roots: config.trust.roots(),
            revocations,
        })
    }

    /// Reads authorities and lists again, for the client and those made from it.
    ///
    /// # Errors
    /// They cannot be read; what was read before stays in force.
    pub fn renew(&self) -> Result<(), String> {
        let read = self.revocations.refresh(SystemTime::now());
        read.map_err(|error| weir_auth::error_chain(&error))?;
        // Connections made before are not used again, so that nobody stays who was revoked.
        let renewed = self.client.renew(&self.roots);
        renewed.map_err(|error| weir_auth::error_chain(&error))
    }

    /// What [`Outbound::renew`] reads.
    pub fn files(config: &TransferConfig) -> Vec<PathBuf> {
        config.trust.files().into_iter().chain(directories(config)).collect()
    }
}

/// Where authorities are, and their lists.
fn directories(config: &TransferConfig) -> Vec<PathBuf> {
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
                directories(&config),
                expected.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        };
        check(&[], None, &[]);
        check(&["/a"], Some(("/a", RevocationCheck::IfPresent)), &["/a"]);
        check(&["/a"], Some(("/b", RevocationCheck::Required)), &["/a", "/b"]);
        check(&["/a"], Some(("/b", RevocationCheck::Off)), &["/a"]);
    }
}
