//! Errors of the certificate authority.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a certificate could not be made or read.
#[derive(Debug, Error)]
pub enum CaError {
    /// A file could not be read or written.
    #[error("could not access {path}")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A certificate could not be made.
    #[error("could not make a certificate for {name}")]
    Make {
        /// Its common name.
        name: String,
        /// The encoder's error.
        source: rcgen::Error,
    },
    /// A file holds no certificate or key of the kind expected.
    #[error("{path} holds no {expected}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// A name that no certificate can carry.
    #[error("{0:?} is not a DNS name")]
    Name(String),
}

impl CaError {
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
