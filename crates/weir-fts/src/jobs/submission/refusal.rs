//! Refusals of a submission.

/// Why a submission is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 405: FTS3 gave up deletion jobs.
    #[error("Deletion jobs are no longer supported by FTS")]
    Deletion,
}

impl Refusal {
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// FTS3's words for a value that cannot be used.
    pub(super) fn invalid(message: impl std::fmt::Display) -> Self {
        Self::BadRequest(format!("Invalid value within the request: {message}"))
    }

    pub(super) fn malformed(message: impl std::fmt::Display) -> Self {
        Self::BadRequest(format!("Malformed request: {message}"))
    }
}
