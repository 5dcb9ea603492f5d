//! Servers that we connect to: storages, and issuers of tokens. Whom their authorities have revoked is told nothing.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;
use weir_auth::x509::{RevocationCheck, ServerRevocations, X509Error};
use weir_http::{Client, TlsError, TrustRoots};

use crate::{StartError, TransferConfig};

/// How often directories are looked at. `fetch-crl` runs every six hours: a minute is soon enough.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Whom we trust, as files have it that change by themselves.
#[derive(Debug)]
pub(crate) struct ServersTrust {
    roots: TrustRoots,
    revocations: Arc<ServerRevocations>,
    /// Something has changed that clients have not been told: the last time authorities could not be read.
    owed: AtomicBool,
}

impl ServersTrust {
    /// Reads the revocation lists in `trust.directories`, and in `x509.authorities` unless lists are off there.
    pub(crate) fn open(config: &TransferConfig, now: SystemTime) -> Result<Self, StartError> {
        let revocations = ServerRevocations::open(directories(config), now).map_err(StartError::Trust)?;
        Ok(Self {
            roots: config.trust.roots(),
            revocations: Arc::new(revocations),
            owed: AtomicBool::new(false),
        })
    }

    /// The same client, which refuses servers that were revoked.
    pub(crate) fn judging(&self, client: &Client) -> Result<Client, TlsError> {
        client.judging(self.revocations.clone())
    }

    /// Looks at the directories again and again, for this client and those made from it.
    pub(crate) async fn keep_up(self: Arc<Self>, client: Client, stop: CancellationToken) {
        let looks = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                self.look(&client).await;
            }
        };
        stop.run_until_cancelled(looks).await;
    }

    /// Reads the directories, if anything in them has changed. What cannot be read leaves in force what was read before.
    pub(crate) async fn look(self: &Arc<Self>, client: &Client) {
        let (this, client) = (self.clone(), client.clone());
        let looked = tokio::task::spawn_blocking(move || this.renew(&client)).await;
        match looked {
            Ok(Ok(true)) => tracing::info!("changed authorities or revocation lists of servers read again"),
            Ok(Err(error)) => tracing::error!(
                error,
                "could not read authorities or revocation lists of servers: they stay as they were"
            ),
            Ok(Ok(false)) | Err(_) => {}
        }
    }

    fn renew(&self, client: &Client) -> Result<bool, String> {
        let changed = self.revocations.look(SystemTime::now());
        let changed = changed.map_err(|error: X509Error| weir_auth::error_chain(&error))?;
        self.owed.fetch_or(changed, Ordering::Relaxed);
        let owed = self.owed.load(Ordering::Relaxed);
        if owed {
            // Connections made before are not used again, so that nobody stays who was revoked.
            client
                .renew(&self.roots)
                .map_err(|error| weir_auth::error_chain(&error))?;
            self.owed.store(false, Ordering::Relaxed);
        }
        Ok(owed)
    }
}

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
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use weir_auth::{ca::CertificateAuthority, x509::DoorConfig};
    use weir_http::ClientConfig;

    use super::*;

    /// A bundle that is just being written when a list appears: whoever was revoked would stay on connections of before.
    #[test]
    fn what_clients_were_not_told_is_told_later() {
        let dir = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::create(&dir.path().join("ca")).unwrap();
        let (bundle, lists) = (dir.path().join("bundle.pem"), dir.path().join("lists"));
        std::fs::copy(authority.file(), &bundle).unwrap();
        std::fs::create_dir(&lists).unwrap();
        std::fs::copy(authority.file(), lists.join("ca.pem")).unwrap();
        let mut config = TransferConfig::new(([127, 0, 0, 1], 0).into());
        config.trust.files = vec![bundle.clone()];
        config.trust.directories = vec![lists.clone()];
        let trust = ServersTrust::open(&config, SystemTime::now()).unwrap();
        let client = Client::new(ClientConfig::new(config.trust.roots())).unwrap();
        assert_eq!(trust.renew(&client), Ok(false));
        std::fs::write(&bundle, "half").unwrap();
        std::fs::write(lists.join("ca.r0"), authority.revocation_list(&[]).unwrap()).unwrap();
        assert!(trust.renew(&client).is_err());
        std::fs::copy(authority.file(), &bundle).unwrap();
        assert_eq!(trust.renew(&client), Ok(true));
        assert_eq!(trust.renew(&client), Ok(false));
    }

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
