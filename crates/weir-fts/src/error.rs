//! Why a service does not start, or does not take another configuration.

use weir_http::TlsError;
use weir_service::config::ConfigError;

use crate::certificates::CertificatesError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration makes no sense.
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    /// Certificate and key cannot be used.
    #[error("the certificates cannot be used")]
    Tls(#[from] TlsError),
    /// Certificates of clients cannot be taken.
    #[error("the certificates of clients cannot be taken")]
    Certificates(#[from] CertificatesError),
    /// The service behind the door does not start.
    #[error(transparent)]
    Service(#[from] weir_transfer::StartError),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// As configured.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
