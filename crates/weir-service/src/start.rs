//! Errors of starting a service, and of applying another configuration to it.

use std::{io, net::SocketAddr};

use weir_http::TlsError;

use crate::config::ConfigError;

/// Errors that only one service has, such as those of its store.
pub trait OwnError: std::error::Error + Send + Sync + 'static {}

/// The reason why a service does not start, or does not apply another configuration. `Own`: reasons of this service.
#[derive(Debug, thiserror::Error)]
pub enum StartError<Own: OwnError> {
    /// The configuration cannot be served.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Certificate, key or authorities cannot be used.
    #[error("could not use the service's certificate, key or authorities")]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("could not listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A reason of this service.
    #[error(transparent)]
    Own(Own),
}

impl<Own: OwnError> StartError<Own> {
    /// Turns the system's answer at this address into an error.
    pub fn listen(address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |source| Self::Listen { address, source }
    }
}

impl<Own: OwnError> From<Own> for StartError<Own> {
    fn from(error: Own) -> Self {
        Self::Own(error)
    }
}
