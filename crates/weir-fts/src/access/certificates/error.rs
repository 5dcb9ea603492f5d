//! Errors of the certificates that users are known by.

use weir_auth::x509::{DoorError, VomsesError};
use weir_http::TlsError;

/// Why certificates cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// Directories or grid-mapfile cannot be used.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// The list of VOMS servers cannot be used.
    #[error(transparent)]
    Vomses(#[from] VomsesError),
    /// The authorities cannot be used for VOMS servers.
    #[error(transparent)]
    Tls(#[from] TlsError),
}
