//! Reasons of waiting requests, read from Weir's own catalogue while a run goes on.

use http::{Method, StatusCode};
use serde::Deserialize;
use weir_model::catalog::RequestWait;

use super::RulesDoor;
use crate::inject::injection::InjectionError;

/// The requests of a catalogue that have not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct OpenRequests {
    waits: Vec<Waiting>,
    reserved: Vec<Reserved>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Waiting {
    rse: String,
    why: String,
    requests: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Reserved {
    rse: String,
    bytes: u64,
}

impl OpenRequests {
    /// How many requests into which RSE wait, and for what. Reasons of a later catalogue are other ones.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&str, RequestWait, u64)> {
        let wait = |why: &str| why.parse().unwrap_or(RequestWait::Other);
        self.waits
            .iter()
            .map(move |one| (one.rse.as_str(), wait(&one.why), one.requests))
    }

    /// The bytes of files on their way into which RSE.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (&str, u64)> {
        self.reserved.iter().map(|one| (one.rse.as_str(), one.bytes))
    }
}

impl RulesDoor {
    /// Reads them.
    ///
    /// # Errors
    /// [`InjectionError`]; of a catalogue that does not tell them, see [`does_not_tell`].
    pub(crate) async fn open_requests(&self) -> Result<OpenRequests, InjectionError> {
        let service = &self.catalog.service;
        let answer = service.ask(Method::GET, "/.well-known/weir/catalog", None).await?;
        serde_json::from_slice(&answer).map_err(|error| service.unreachable(error))
    }
}

/// Whether it is a catalogue of another kind, or one that tells this run nothing.
pub(crate) fn does_not_tell(error: &InjectionError) -> bool {
    let refusals = [StatusCode::NOT_FOUND, StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
    matches!(error, InjectionError::Refused { status, .. } if refusals.contains(status))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn a_catalogue_tells_what_requests_wait_for() {
        // Wrong: a run against a catalogue of an earlier build takes its silence for no waiting request, or fails at a new reason.
        let text = r#"{"version": "0.1.0", "waits": [{"rse": "A", "why": "ROOM", "requests": 3, "oldest_s": 1.5},
            {"rse": "B", "why": "NEW", "requests": 1, "oldest_s": 0}], "reserved": [{"rse": "A", "requests": 2, "bytes": 70}]}"#;
        let open: OpenRequests = serde_json::from_str(text).unwrap();
        let waiting: Vec<_> = open.waiting().collect();
        assert_eq!(waiting, [("A", RequestWait::Room, 3), ("B", RequestWait::Other, 1)]);
        assert_eq!(open.reserved().collect::<Vec<_>>(), [("A", 70)]);
        assert!(serde_json::from_str::<OpenRequests>(r#"{"version": "0.1.0"}"#).is_err());
    }
}
