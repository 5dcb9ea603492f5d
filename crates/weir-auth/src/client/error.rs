//! Errors of the client of token issuers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;
use weir_http::{BodyError, ClientError};

/// Why there is no token.
#[derive(Debug, Clone, Error)]
pub enum TokenError {
    /// The token's file could not be read, or is empty.
    #[error("could not read a token from {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: Arc<std::io::Error>,
    },
    /// The address of the issuer is no URL.
    #[error("{0:?} is not a URL")]
    Url(String),
    /// The issuer could not be asked.
    #[error("could not ask the issuer for a token")]
    Ask(#[source] Arc<ClientError>),
    /// The issuer did not answer in time.
    #[error("{token_url} did not answer within {} s", limit.as_secs())]
    Timeout {
        /// The issuer's token endpoint.
        token_url: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The issuer's answer broke off.
    #[error("could not read the issuer's answer")]
    Answer(#[source] Arc<BodyError>),
    /// The issuer said no.
    #[error("{token_url} refused a token for scopes {scopes:?} and audience {audience:?}: {status} {reason}")]
    Refused {
        /// The issuer's token endpoint.
        token_url: String,
        /// The scopes asked for.
        scopes: String,
        /// The audience asked for.
        audience: String,
        /// The status of the answer.
        status: StatusCode,
        /// The error that it names, and its description.
        reason: String,
        /// How long it wants to be left alone, if it tells.
        retry_after: Option<Duration>,
    },
    /// A Rucio server did not let the account in.
    #[error("{url} did not let in the account {account:?}: {status} {reason}")]
    Login {
        /// Where the login was tried.
        url: String,
        /// The account.
        account: String,
        /// The status of the answer.
        status: StatusCode,
        /// Why, as the server says.
        reason: String,
    },
    /// The issuer's answer holds no token.
    #[error("the answer of {token_url} holds no bearer token")]
    NoToken {
        /// The issuer's token endpoint.
        token_url: String,
    },
}

impl TokenError {
    /// The error code of RFC 6749 section 5.2 by which the issuer said no, such as `invalid_scope`; none if its answer has no such
    /// word.
    pub fn code(&self) -> Option<&str> {
        let Self::Refused { reason, .. } = self else {
            return None;
        };
        let is_word =
            |code: &&str| code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        reason.split(':').next().filter(is_word)
    }

    /// How long the issuer wants to be left alone, if it tells: `Retry-After` in seconds. A date is not read.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Whether the same request may succeed later: the issuer is down, overloaded or out of reach.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Ask(_) | Self::Answer(_) | Self::Timeout { .. } => true,
            Self::Refused { status, .. } | Self::Login { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::File { .. } | Self::Url(_) | Self::NoToken { .. } => false,
        }
    }
}
