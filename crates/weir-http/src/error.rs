//! Errors on the wire, by the phase in which they occurred.

use std::{io, path::PathBuf, time::Duration};

/// An exchange that did not lead to a response.
///
/// `endpoint` is always `scheme://host:port`: neither path nor query, so that no secret can hide in it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URI has no host, or a scheme other than `http`, `https`, `dav`, `davs`.
    #[error("{endpoint} is not an address that can be spoken to: {reason}")]
    Address {
        /// The given endpoint, without path and query.
        endpoint: String,
        /// The problem with it.
        reason: &'static str,
    },
    /// The name does not resolve.
    #[error("could not resolve the host of {endpoint}")]
    Resolve {
        /// `scheme://host:port`.
        endpoint: String,
        #[source]
        /// The resolver's answer.
        source: io::Error,
    },
    /// Every address of the host is refused by the caller's [`crate::AddressFilter`].
    #[error("{endpoint} resolves to {address}, {kind} address, to which this service may not connect")]
    Forbidden {
        /// `scheme://host:port`.
        endpoint: String,
        /// The refused address.
        address: std::net::IpAddr,
        /// The kind of address: `a loopback`, `a private`.
        kind: &'static str,
    },
    /// No connection could be made.
    #[error("could not connect to {endpoint}")]
    Connect {
        /// `scheme://host:port`.
        endpoint: String,
        #[source]
        /// The system's answer.
        source: io::Error,
    },
    /// The TLS handshake failed: an untrusted or wrongly named certificate, or no common version.
    #[error("TLS handshake with {endpoint} failed")]
    Tls {
        /// `scheme://host:port`.
        endpoint: String,
        #[source]
        /// The error of rustls.
        source: io::Error,
    },
    /// A phase took longer than its limit.
    #[error("{phase} with {endpoint} took longer than {limit:?}")]
    Timeout {
        /// `scheme://host:port`.
        endpoint: String,
        /// `waiting for a free connection`, `connect`, `handshake` or `response`.
        phase: &'static str,
        /// The limit that was hit.
        limit: Duration,
    },
    /// The connection broke, or the answer is not HTTP.
    #[error("exchange with {endpoint} broke off")]
    Exchange {
        /// `scheme://host:port`.
        endpoint: String,
        #[source]
        /// The error of hyper.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClientError {
    /// Whether nothing of the request can have reached the other side.
    pub fn before_request(&self) -> bool {
        match self {
            Self::Timeout { phase, .. } => *phase != "response",
            Self::Exchange { .. } => false,
            _ => true,
        }
    }
}

/// A body that could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// More bytes came than the caller accepts.
    #[error("body is larger than {limit} bytes")]
    TooLarge {
        /// The caller's limit.
        limit: usize,
    },
    /// The connection ended, or the framing is broken.
    #[error("body broke off")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No byte came for the given time.
    #[error("no data for {0:?}")]
    Stalled(Duration),
    /// Not all of it came within the given time.
    #[error("the body took longer than {0:?}")]
    Late(Duration),
}

/// Certificates, keys or roots that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file or directory cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        #[source]
        /// The system's answer.
        source: io::Error,
    },
    /// The text holds no certificate, or no key, in PEM form.
    #[error("{what} holds no usable {missing} in PEM form")]
    Pem {
        /// The file, or the purpose of the text.
        what: String,
        /// `certificate` or `private key`.
        missing: &'static str,
    },
    /// A key does not belong to the certificate beside it.
    #[error("the key {key} does not belong to the certificate {certificate}")]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// rustls refuses the certificate or the key.
    #[error("TLS configuration refused")]
    Refused(#[from] rustls::Error),
}

impl TlsError {
    /// Whether a key does not belong to the certificate.
    pub fn is_mismatch(&self) -> bool {
        let mismatch = rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch);
        matches!(self, Self::Refused(error) if *error == mismatch)
    }
}

/// Whether an error has one of rustls at its root: a record that cannot be decrypted, an alert.
pub fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_rustls = |error: &(dyn std::error::Error + 'static)| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        error.is::<rustls::Error>() || inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some()
    };
    std::iter::successors(Some(error), |error| error.source()).any(is_rustls)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that was cut would be one whose bytes were changed.
    #[test]
    fn errors_of_tls_are_known_through_others() {
        let broken = |inner| BodyError::Broken(Box::new(io::Error::new(io::ErrorKind::InvalidData, inner)));
        let of_tls: Box<dyn std::error::Error + Send + Sync> = rustls::Error::DecryptError.into();
        assert!(is_of_tls(&broken(of_tls)));
        assert!(!is_of_tls(&broken("unexpected end".into())));
    }
}
