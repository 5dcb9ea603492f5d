//! Why a copy failed, on one line that people and programs can read.

use std::fmt;

use http::StatusCode;
use weir_auth::StoragePath;
use weir_http::ClientError;
use weir_world::{ErrorClass, Party, Phase};

use crate::{
    backend::{BackendError, Obstacle},
    data::SinkError,
    refusal::Refusal,
};

/// A failed copy, as the last line of a COPY's answer tells it.
///
/// Prints as `class (party during phase): message`, for example
/// `not-found (source during preparation): GET https://se.example.org/f: 404 Not Found`, and reads itself back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CopyFailure {
    /// The class of the error.
    pub class: ErrorClass,
    /// The responsible party.
    pub party: Party,
    /// When.
    pub phase: Phase,
    /// The error, in one line without secrets.
    pub message: String,
}

impl fmt::Display for CopyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} during {}): {}",
            self.class, self.party, self.phase, self.message
        )
    }
}

impl CopyFailure {
    /// Makes the message one line without secrets.
    pub fn new(class: ErrorClass, party: Party, phase: Phase, message: impl AsRef<str>) -> Self {
        Self {
            class,
            party,
            phase,
            message: weir_auth::one_line(&weir_auth::redact(message.as_ref())),
        }
    }

    /// Parses another Weir's text after `failure: `; `None` for other texts.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, message) = text.split_once("): ")?;
        let (class, rest) = head.split_once(" (")?;
        let (party, phase) = rest.split_once(" during ")?;
        Some(Self {
            class: ErrorClass::parse(class)?,
            party: Party::parse(party)?,
            phase: Phase::parse(phase)?,
            message: message.to_owned(),
        })
    }

    /// The other side's answer was no success.
    pub(super) fn answered(party: Party, phase: Phase, status: StatusCode, what: &str, said: &str) -> Self {
        let class = ErrorClass::of_status(status.as_u16(), said);
        let colon = if said.is_empty() { "" } else { ": " };
        Self::new(class, party, phase, format!("{what}: {status}{colon}{said}"))
    }

    /// There was no answer.
    pub(super) fn unanswered(party: Party, phase: Phase, what: &str, error: &ClientError) -> Self {
        let class = match error {
            ClientError::Tls { .. } => ErrorClass::Tls,
            ClientError::Timeout { .. } => ErrorClass::Timeout,
            ClientError::Forbidden { .. } => ErrorClass::Permission,
            ClientError::Address { .. } => ErrorClass::Protocol,
            _ => ErrorClass::Network,
        };
        let mut text = weir_auth::error_chain(error);
        if let ClientError::Forbidden { address, .. } = error {
            text = format!("{text}; the endpoint's operator can allow it: tpc.allow = [\"{address}\"]");
        }
        Self::new(class, party, phase, format!("{what}: {text}"))
    }

    /// Our own file system stood in the way of a file of ours.
    pub(super) fn backend(party: Party, phase: Phase, path: &StoragePath, error: &BackendError) -> Self {
        let class = match error.obstacle {
            Obstacle::Missing => ErrorClass::NotFound,
            Obstacle::Exists => ErrorClass::Exists,
            Obstacle::NoSpace | Obstacle::TooLarge => ErrorClass::NoSpace,
            Obstacle::ReadOnly => ErrorClass::ReadOnly,
            Obstacle::Unsafe | Obstacle::Permission => ErrorClass::Permission,
            Obstacle::Busy => ErrorClass::Overload,
            _ => ErrorClass::Internal,
        };
        let text = format!("{path}: {}", weir_auth::error_chain(error));
        Self::new(class, party, phase, text)
    }

    /// A refusal that came when the answer had begun.
    pub(super) fn refused(party: Party, phase: Phase, refusal: &Refusal) -> Self {
        let class = match refusal.status {
            StatusCode::INSUFFICIENT_STORAGE | StatusCode::PAYLOAD_TOO_LARGE => ErrorClass::NoSpace,
            StatusCode::SERVICE_UNAVAILABLE => ErrorClass::Overload,
            StatusCode::FORBIDDEN => ErrorClass::Permission,
            _ => ErrorClass::Internal,
        };
        Self::new(class, party, phase, &refusal.reason)
    }

    /// A file of ours could not be completed from the received bytes.
    pub(super) fn sink(path: &StoragePath, error: &SinkError) -> Self {
        let source = |class| Self::new(class, Party::Source, Phase::Finalization, format!("{path}: {error}"));
        match error {
            SinkError::Backend(BackendError {
                obstacle: Obstacle::Exists,
                ..
            }) => {
                let text = format!("{path}: another file of that name appeared meanwhile, and it may not be replaced");
                Self::new(ErrorClass::Exists, Party::Destination, Phase::Finalization, text)
            }
            SinkError::Condition(_) => {
                let text = format!("{path}: {error}");
                Self::new(ErrorClass::Exists, Party::Destination, Phase::Finalization, text)
            }
            SinkError::Backend(error) => Self::backend(Party::Destination, Phase::Transfer, path, error),
            SinkError::NoRoom(refusal) => Self::refused(Party::Destination, Phase::Transfer, refusal),
            SinkError::Size { .. } => source(ErrorClass::Size),
            SinkError::Checksum { .. } => source(ErrorClass::Checksum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transfer service that cannot read the class retries hopeless copies.
    #[test]
    fn a_failure_reads_itself_back() {
        for class in ErrorClass::ALL {
            for party in Party::ALL {
                let failure = CopyFailure::new(
                    *class,
                    *party,
                    Phase::Transfer,
                    "a (b): c during d\nBearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
                );
                assert_eq!(CopyFailure::parse(&failure.to_string()).as_ref(), Some(&failure));
                assert!(
                    !failure.message.contains('\n') && !failure.message.contains("c2ln"),
                    "{failure}"
                );
            }
        }
        assert_eq!(CopyFailure::parse("Transfer failed: (111) Connection refused"), None);
        assert_eq!(CopyFailure::parse(""), None);
    }
}
