//! Outbound connections to storages and token issuers. Peers with a revoked certificate are refused.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use weir_auth::x509::{RevocationCheck, ServerRevocations};
use weir_http::{Client, TrustRoots};

use crate::{
    config::TransferConfig,
    opening::{OpenError, StartError, client},
};

/// The client's trust roots and revocation lists, reloaded when their files change.
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
        let revocations = ServerRevocations::open(directories(config), now).map_err(OpenError::Trust)?;
        let revocations = Arc::new(revocations);
        Ok(Self {
            client: client(config)?.judging(revocations.clone())?,
            roots: config.trust.roots(),
            revocations,
        })
    }

    /// Reads authorities and revocation lists again, for this client and the ones derived from it.
    ///
    /// # Errors
    /// They cannot be read; the former ones stay in force.
    pub fn renew(&self) -> Result<(), String> {
        let read = self.revocations.refresh(SystemTime::now());
        read.map_err(|error| weir_auth::error_chain(&error))?;
        // Earlier connections are not reused, so that no revoked peer stays connected.
        let renewed = self.client.renew(&self.roots);
        renewed.map_err(|error| weir_auth::error_chain(&error))
    }

    /// The files that [`Outbound::renew`] reads.
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
