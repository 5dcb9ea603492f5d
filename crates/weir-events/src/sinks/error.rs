//! Errors of sinks.

use std::path::PathBuf;

use crate::spool::SpoolError;

/// A sink that cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The folder of the spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A sink's password or token.
    #[error("could not read {path}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The certificates that brokers are checked with.
    #[error("the certificates for the broker cannot be used")]
    Tls(#[from] weir_http::TlsError),
    /// The thread that writes messages.
    #[error("could not start the thread of events")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a sink did not take a batch.
#[derive(Debug)]
pub(crate) enum Undelivered {
    /// It may take it later.
    Later(String),
    /// It says that something is wrong with it, but not for how long.
    Refused(String),
    /// It never will.
    Never(String),
}

/// A password or a token: the first line of a file.
pub(crate) fn secret(path: &std::path::Path) -> Result<String, SinkError> {
    let text = std::fs::read_to_string(path).map_err(|source| SinkError::Secret {
        path: path.to_owned(),
        source,
    })?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
