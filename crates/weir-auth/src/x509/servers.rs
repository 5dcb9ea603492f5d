//! Servers that we connect to: whether their authority has revoked them.

use std::{fmt, path::PathBuf, sync::Arc, time::SystemTime};

use parking_lot::RwLock;
use rustls_pki_types::CertificateDer;
use weir_http::{CertificateError, ChainCheck};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::authorities::{authorities_in, revocations_in};
use super::error::X509Error;
use super::folder::{Entry, list};
use super::name::slash_form;
use super::revocation::Revocations;

/// The revocation lists in directories of authorities, for [`weir_http::Client::judging`]. A list that is there counts, even one
/// out of date; servers of an authority without one are trusted, as the client finds them.
pub struct ServerRevocations {
    directories: Vec<PathBuf>,
    reading: RwLock<ServerTrust>,
}

/// The content of the directories, and the files that it came from.
#[derive(Default, Clone)]
struct ServerTrust {
    files: Vec<Entry>,
    lists: Arc<Revocations>,
}

impl fmt::Debug for ServerRevocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRevocations")
            .field("directories", &self.directories)
            .finish_non_exhaustive()
    }
}

impl ServerRevocations {
    /// Reads the directories; of files that cannot be read, or are no lists of an authority there, the log tells.
    ///
    /// # Errors
    /// A directory cannot be listed.
    pub fn open(directories: Vec<PathBuf>, now: SystemTime) -> Result<Self, X509Error> {
        let opened = Self {
            directories,
            reading: RwLock::default(),
        };
        opened.refresh(now)?;
        Ok(opened)
    }

    /// Reads them again, for servers that are connected to from now on.
    ///
    /// # Errors
    /// A directory cannot be listed; then the earlier content stays in force.
    pub fn refresh(&self, now: SystemTime) -> Result<(), X509Error> {
        self.read(self.list()?, now);
        Ok(())
    }

    /// Reads them again if their files have changed, and returns whether they had.
    ///
    /// # Errors
    /// A directory cannot be listed; then the earlier content stays in force.
    pub fn look(&self, now: SystemTime) -> Result<bool, X509Error> {
        let files = self.list()?;
        let changed = files != self.reading().files;
        if changed {
            self.read(files, now);
        }
        Ok(changed)
    }

    fn list(&self) -> Result<Vec<Entry>, X509Error> {
        let mut files = Vec::new();
        for directory in &self.directories {
            files.extend(list(directory, 0)?);
        }
        Ok(files)
    }

    fn read(&self, files: Vec<Entry>, now: SystemTime) {
        let lists = Arc::new(revocations_in(&files, &authorities_in(&files, now), now));
        *self.reading.write() = ServerTrust { files, lists };
    }

    fn reading(&self) -> ServerTrust {
        self.reading.read().clone()
    }
}

impl ChainCheck for ServerRevocations {
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        let lists = self.reading.read().lists.clone();
        for der in chain {
            // An unreadable certificate does not get this far.
            let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
            if let Some(issuer) = lists.revoker(der, &certificate) {
                let server = slash_form(certificate.subject());
                tracing::warn!(
                    server,
                    issuer,
                    "refused: the certificate that this server shows is revoked"
                );
                return Err(CertificateError::Revoked);
            }
        }
        Ok(())
    }
}
