//! The reasons for which a certificate chain is refused, with remedies for its holder or the operator.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

/// Why a client certificate is not taken. Subjects are in slash form, as the certificate that failed has it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum X509Error {
    /// A certificate, or a proxy's extension, is no valid DER.
    #[error("certificate {place} of the chain is malformed: {what}")]
    Malformed {
        /// From 0, the client's own.
        place: usize,
        /// The expected element.
        what: &'static str,
    },
    /// More certificates than any client needs.
    #[error("the chain has {count} certificates, at most {limit} are taken")]
    TooLong {
        /// How many were shown.
        count: usize,
        /// The most that are taken.
        limit: usize,
    },
    /// A certificate's time is over.
    #[error("certificate {subject} expired {} s ago", ago.as_secs())]
    Expired {
        /// The subject.
        subject: String,
        /// Since when.
        ago: Duration,
    },
    /// A certificate's time has not come.
    #[error("certificate {subject} is not valid for another {} s", starts_in.as_secs())]
    NotYetValid {
        /// The subject.
        subject: String,
        /// Until when.
        starts_in: Duration,
    },
    /// The chain does not lead to a trusted authority, or breaks a rule on the way.
    #[error("certificate {subject} is not trusted: {cause}")]
    Untrusted {
        /// The subject.
        subject: String,
        /// OpenSSL's words.
        cause: String,
    },
    /// Its authority has revoked it.
    #[error("certificate {subject} was revoked by {issuer}")]
    Revoked {
        /// The subject.
        subject: String,
        /// The authority.
        issuer: String,
    },
    /// Revocation lists are required, and the authority's is missing or too old.
    #[error("the revocation list of {issuer} is {state}")]
    RevocationUnknown {
        /// The authority.
        issuer: String,
        /// `missing` or `out of date`.
        state: &'static str,
    },
    /// The authority signed a name that its signing policy does not give it.
    #[error("{issuer} may not sign {subject}: its signing policy does not name it")]
    SigningPolicy {
        /// The subject.
        subject: String,
        /// The authority.
        issuer: String,
    },
    /// A value in the certificate's name reads as a further attribute in slash form, in which rules and lists name people.
    #[error(
        "the name {subject} cannot be told from another one: a value in it holds a slash, an attribute's name and an equals sign"
    )]
    AmbiguousName {
        /// The name.
        subject: String,
    },
    /// A proxy of before RFC 3820.
    #[error("{subject} is a legacy proxy, only RFC 3820 proxies are taken")]
    LegacyProxy {
        /// The proxy.
        subject: String,
    },
    /// A proxy that does not act for its issuer, or only under a policy that is unknown here.
    #[error("proxy {subject} has policy {language}, which is not taken")]
    ProxyPolicy {
        /// The proxy.
        subject: String,
        /// The policy language, a dotted number.
        language: String,
    },
    /// A limited proxy where a full one is needed: it may move data, not start or delegate work.
    #[error("{subject} came with a limited proxy, which may not do this")]
    Limited {
        /// The subject.
        subject: String,
    },
    /// The directory with the authorities, or that with the VOMS servers, could not be read, or has nothing to trust.
    #[error("could not read {path}")]
    Trust {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// OpenSSL could not do its work.
    #[error("OpenSSL failed")]
    OpenSsl(#[from] openssl::error::ErrorStack),
}

impl X509Error {
    pub(crate) fn trust(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Trust {
            path: path.to_owned(),
            source,
        }
    }

    /// The HTTP status: 401 (the certificate is no good), 403 (it is good and does not suffice), 503 (could not be judged).
    pub fn status(&self) -> http::StatusCode {
        match self {
            Self::Limited { .. } => http::StatusCode::FORBIDDEN,
            Self::Trust { .. } | Self::OpenSsl(_) | Self::RevocationUnknown { .. } => {
                http::StatusCode::SERVICE_UNAVAILABLE
            }
            _ => http::StatusCode::UNAUTHORIZED,
        }
    }

    /// The remedy for the holder or the operator: one sentence.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "make a new proxy, or renew the certificate",
            Self::NotYetValid { .. } => "compare the clocks of this host and of the one that made the certificate",
            Self::Untrusted { .. } => {
                "see that the authority's certificate is in the server's directory of authorities, and that the client \
                 sends its whole chain"
            }
            Self::Revoked { .. } => "ask the authority for a new certificate",
            Self::RevocationUnknown { .. } => "the operator should see that fetch-crl runs",
            Self::SigningPolicy { .. } => "the operator should compare the authority's signing_policy file",
            Self::AmbiguousName { .. } => "ask the authority for a certificate whose name holds no such value",
            Self::LegacyProxy { .. } => "make an RFC 3820 proxy: voms-proxy-init -rfc",
            Self::ProxyPolicy { .. } => "make a proxy that inherits all rights: voms-proxy-init -rfc",
            Self::Limited { .. } => "make a full proxy: voms-proxy-init -rfc without -limited",
            Self::Trust { .. } => "the operator should see that the directory is there and can be read",
            Self::Malformed { .. } | Self::TooLong { .. } => "make a new proxy with a current client",
            Self::OpenSsl(_) => "the operator should look at the log",
        }
    }

    /// The TLS alert for it, where a chain is refused in the handshake.
    pub(crate) fn alert(&self) -> weir_http::CertificateError {
        use weir_http::CertificateError as Alert;
        match self {
            Self::Malformed { .. } => Alert::BadEncoding,
            Self::Expired { .. } => Alert::Expired,
            Self::NotYetValid { .. } => Alert::NotValidYet,
            Self::Revoked { .. } => Alert::Revoked,
            Self::Untrusted { .. } => Alert::UnknownIssuer,
            Self::RevocationUnknown { .. } => Alert::UnknownRevocationStatus,
            _ => Alert::ApplicationVerificationFailure,
        }
    }
}
