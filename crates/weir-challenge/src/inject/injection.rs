//! The seam between the plan's injections and the service that moves files.
//!
//! There are two doors. At the FTS REST API ([`crate::fts`]) the run chooses source and destination path of every file.
//! At the Rucio REST API ([`crate::rules`]) it makes a replication rule for each batch. [`crate::run_door`] hands each
//! batch to its door.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, SystemTime};

use weir_auth::client::TokenError;
use weir_units::{Bytes, Checksum};
use weir_world::{ErrorClass, Party};

/// One file to move. Orders of one batch go over the same link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Number of the transfer, unique within the run.
    pub id: u64,
    /// Where it is.
    pub source: String,
    /// Where it goes.
    pub destination: String,
    /// Its size.
    pub size: Bytes,
    /// Checksum to be verified at both ends.
    pub checksum: Option<Checksum>,
    /// The file's name in the catalogue; `None` where the catalogue does not know it.
    pub did: Option<String>,
}

/// Orders of one link that go out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Index of the source among the run's storage doors.
    pub source: usize,
    /// Index of the destination among the run's storage doors.
    pub destination: usize,
    /// Activity that the transfer service accounts it to.
    pub activity: String,
    /// Copy mode to force; the service chooses when there is none.
    pub mode: Option<&'static str>,
    /// Whether a failure is the result, so that the service must not try again.
    pub single_attempt: bool,
    /// The rule to make; `None` if transfers are submitted.
    pub rule: Option<RuleTerms>,
    /// The files; never empty.
    pub orders: Vec<Order>,
}

/// The terms of a rule. It asks for one copy at the destination of its batch, from the source of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleTerms {
    /// How long it lives; `None` until the run deletes it.
    pub lifetime: Option<Duration>,
    /// Whether the run ends it when its files have come.
    pub is_loop: bool,
}

/// The name of a submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobId {
    /// A job of the transfer service.
    Job(String),
    /// A rule of the catalogue.
    Rule(String),
}

impl JobId {
    /// The name that the service gave.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Job(id) | Self::Rule(id) => id,
        }
    }

    /// Says whether it is a rule of the catalogue.
    pub fn is_rule(&self) -> bool {
        matches!(self, Self::Rule(_))
    }
}

/// When a file that a rule asked for passed from one service to the next, by their clocks; `None` where they do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passages {
    /// The catalogue had evaluated the rule: the file's request was made.
    pub requested: Option<SystemTime>,
    /// The catalogue submitted the request to the transfer service.
    pub submitted: Option<SystemTime>,
    /// The catalogue took the end of the transfer in: the file's lock is OK.
    pub locked: Option<SystemTime>,
}

/// A copy that a rule asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleCopy {
    /// Index of the destination among the run's storage doors.
    pub destination: usize,
    /// The file's name in the catalogue.
    pub did: String,
}

/// How far a transfer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, not started.
    #[default]
    Queued,
    /// Under way.
    Active,
    /// Delivered and verified.
    Finished,
    /// Given up.
    Failed,
    /// Withdrawn.
    Cancelled,
}

impl Phase {
    /// Returns whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Cancelled)
    }
}

/// The service's answer about one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It has these transfers.
    Known(Vec<Observed>),
    /// It knows no such job.
    Unknown,
}

/// The service's answer about one transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// Number of the transfer, as in [`Order::id`].
    pub id: u64,
    /// How far it is.
    pub phase: Phase,
    /// Start of the last attempt.
    pub started: Option<SystemTime>,
    /// End of the last attempt.
    pub ended: Option<SystemTime>,
    /// Bytes moved: for a finished transfer those of the successful attempt, for others those of all attempts, as far
    /// as the service counts them. `None` if it does not report them.
    pub bytes_moved: Option<u64>,
    /// Bytes that the service saw moving in the attempt that finished, by its own reads or a storage's final count; `None` when it does not
    /// tell. No size that was looked up.
    pub counted: Option<u64>,
    /// From the order of the copy that finished to its first byte of data; `None` when the service does not tell.
    pub first_byte: Option<Duration>,
    /// The time that the newest attempt spent in each state; `None` when the service does not tell.
    pub waits: Option<Box<weir_world::Waits>>,
    /// Copy mode of the last attempt (`pull`, `push`, `streamed`), where known.
    pub mode: Option<String>,
    /// Attempts beyond the first.
    pub retries: u32,
    /// Error class, where known.
    pub class: Option<ErrorClass>,
    /// Party at fault, where known.
    pub party: Option<Party>,
    /// Phase of the transfer that failed, where known.
    pub failed_in: Option<weir_world::Phase>,
    /// Text of the failure; empty when there is none.
    pub reason: String,
    /// The remedy, where known.
    pub remedy: Option<String>,
    /// When it passed from one service to the next, if a rule asked for it.
    pub passages: Option<Passages>,
}

/// The error of a door.
#[derive(Debug, thiserror::Error)]
pub enum InjectionError {
    /// It asks to come again later.
    #[error("{door} asks to come again in {} s", after.as_secs())]
    Busy {
        /// The door.
        door: String,
        /// When to come again.
        after: Duration,
    },
    /// It says no.
    #[error("{door} refused: {status} {message}")]
    Refused {
        /// The door.
        door: String,
        /// Its status.
        status: http::StatusCode,
        /// Its reason, secrets removed.
        message: String,
    },
    /// It could not be asked, or its answer could not be read.
    #[error("could not ask {door}")]
    Unreachable {
        /// The door.
        door: String,
        /// The error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No proxy could be signed for it.
    #[error("could not delegate to {door}")]
    Delegation {
        /// The door.
        door: String,
        /// The reason why no proxy was signed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no token for it.
    #[error("no token for {door}")]
    Token {
        /// The door.
        door: String,
        /// The error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl InjectionError {
    /// Returns whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unreachable { .. } | Self::Token { .. } => true,
            Self::Refused { status, .. } => status.is_server_error(),
            Self::Delegation { .. } => false,
        }
    }

    /// Returns whether a service, or the issuer of its tokens, is out of reach: it may only have been restarted.
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Token { source, .. } => {
                let first: &(dyn std::error::Error + 'static) = &**source;
                let mut causes = std::iter::successors(Some(first), |cause| cause.source());
                causes.any(|cause| cause.downcast_ref().is_some_and(TokenError::is_temporary))
            }
            Self::Busy { .. } | Self::Refused { .. } | Self::Delegation { .. } => false,
        }
    }

    /// Returns the error class that transfers get which could not be submitted.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy { .. } => ErrorClass::Overload,
            Self::Unreachable { .. } => ErrorClass::Network,
            Self::Token { .. } | Self::Delegation { .. } => ErrorClass::Token,
            Self::Refused { status, message, .. } => ErrorClass::of_status(status.as_u16(), message),
        }
    }
}

/// The service's reason why the transfers of a link wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// In the service's words.
    pub text: String,
    /// Whether it waits because of failures.
    pub by_failures: bool,
    /// The party that has failed, if it is known.
    pub party: Option<Party>,
}

/// A service that moves files when asked.
pub trait InjectionDoor: Send + Sync + 'static {
    /// Hands over a batch; success means that the service keeps it.
    fn submit(&self, batch: &Batch) -> impl Future<Output = Result<JobId, InjectionError>> + Send;

    /// Asks how far the transfers of some jobs are; the answer may leave some out, which are asked for again.
    fn observe(&self, jobs: &[JobId]) -> impl Future<Output = Result<Vec<(JobId, JobState)>, InjectionError>> + Send;

    /// Asks the service for the identity under which it knows the run.
    fn known_as(&self) -> impl Future<Output = Result<String, InjectionError>> + Send;

    /// Asks for the reason that holds back the transfers between two doors; `None` if the service does not give one.
    fn held_back(&self, source: usize, destination: usize) -> impl Future<Output = Option<HeldBack>> + Send;

    /// Withdraws unfinished transfers. For a rule, the catalogue deletes the copies too.
    fn cancel(&self, jobs: &[JobId]) -> impl Future<Output = Result<(), InjectionError>> + Send;

    /// Asks which of these copies the catalogue still knows.
    fn remaining(&self, copies: &[RuleCopy])
    -> impl Future<Output = Result<BTreeSet<RuleCopy>, InjectionError>> + Send;
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_missing_token_file_is_no_issuer_that_is_away() {
        // Wrong: every transfer of a run with a mistyped password or path is tried for two minutes before the run says so.
        let of = |source: TokenError| InjectionError::Token {
            door: "https://fts".to_owned(),
            source: source.into(),
        };
        let file = TokenError::File {
            path: "/nowhere".into(),
            source: Arc::new(io::Error::from(io::ErrorKind::NotFound)),
        };
        let late = || TokenError::Timeout {
            token_url: "https://issuer/token".to_owned(),
            limit: Duration::from_secs(30),
        };
        assert!(!of(file).is_away());
        assert!(of(late()).is_away());
        // The door of a storage wraps it.
        let wrapped = crate::services::storage::StorageError::Token {
            rse: "A".to_owned(),
            source: late(),
        };
        let wrapped = InjectionError::Token {
            door: "https://fts".to_owned(),
            source: wrapped.into(),
        };
        assert!(wrapped.is_away());
    }
}
