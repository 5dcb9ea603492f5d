//! The reason why a service does not start, or does not apply another configuration.

use crate::access::certificates::CertificatesError;

/// See the module.
pub type StartError = weir_service::StartError<OpenError>;

/// A part of a service that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Certificates of clients cannot be accepted.
    #[error("could not use the certificates of clients")]
    Certificates(#[from] CertificatesError),
    /// The service behind the door does not start.
    #[error(transparent)]
    Service(#[from] weir_transfer::StartError),
}

impl weir_service::OwnError for OpenError {}
