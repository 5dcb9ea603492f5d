//! Servers that we connect to: whether their authority has revoked them.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use rustls_pki_types::CertificateDer;
use weir_http::{CertificateError, ChainCheck};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::authorities::{authorities_in, revocations_in};
use super::error::X509Error;
use super::folder::list;
use super::name::slash_form;
use super::revocation::Revocations;

/// The revocation lists in directories of authorities, for [`weir_http::Client::judging`]. A list that is there counts, even one
/// out of date; servers of an authority without one are trusted, as the client finds them.
pub struct ServerRevocations {
    directories: Vec<PathBuf>,
    lists: RwLock<Arc<Revocations>>,
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
            lists: RwLock::default(),
        };
        opened.refresh(now)?;
        Ok(opened)
    }

    /// Reads them again, for servers that are connected to from now on.
    ///
    /// # Errors
    /// A directory cannot be listed; then what was read before stays in force.
    pub fn refresh(&self, now: SystemTime) -> Result<(), X509Error> {
        let mut entries = Vec::new();
        for directory in &self.directories {
            entries.extend(list(directory, 0)?);
        }
        let lists = revocations_in(&entries, &authorities_in(&entries, now), now);
        *self.lists.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lists);
        Ok(())
    }
}

impl ChainCheck for ServerRevocations {
    fn check(&self, chain: &[CertificateDer<'_>]) -> Result<(), CertificateError> {
        let lists = self.lists.read().unwrap_or_else(PoisonError::into_inner).clone();
        for der in chain {
            // Whoever cannot be read has not got this far.
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
