//! Errors of requests to a transfer service.

use std::{error::Error, time::Duration};

use http::StatusCode;
use weir_auth::client::TokenError;

use crate::service::ErrorAnswer;

/// The cause of an error.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The error of a request to a transfer service. Texts of the service have no secrets.
#[derive(Debug, thiserror::Error)]
pub enum FtsError {
    /// The service answered with a status other than success.
    #[error("{url} answered {}: {message}", status.as_u16())]
    Refused {
        /// URL of the service.
        url: String,
        /// The status.
        status: StatusCode,
        /// The service's reason.
        message: String,
        /// The time after which the request may be repeated, if the service names one.
        retry_after: Option<Duration>,
    },
    /// There is no token for the service.
    #[error("there is no token for the transfer service {url}")]
    Token {
        /// URL of the service.
        url: String,
        /// The error of the token's source.
        source: Box<TokenError>,
    },
    /// The request was not answered: whether the service did anything is not known.
    #[error("could not reach the transfer service {url}")]
    Unreachable {
        /// URL of the service.
        url: String,
        /// The cause.
        source: Cause,
    },
    /// The answer makes no sense.
    #[error("could not understand the transfer service {url}")]
    Senseless {
        /// URL of the service.
        url: String,
        /// The cause.
        source: Cause,
    },
}

impl FtsError {
    /// The status of an answer other than success.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the service is too busy to do it now.
    pub fn is_busy(&self) -> bool {
        let busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
        self.status().is_some_and(|status| busy.contains(&status))
    }
}

/// The message of an error's body, without secrets.
pub(super) fn message(answer: &[u8]) -> String {
    match serde_json::from_slice::<ErrorAnswer>(answer) {
        Ok(body) => weir_auth::peer_text(body.message.into_owned()),
        Err(_) => weir_auth::peer_line(answer),
    }
}
