//! How an operation ends, in the words of the field.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use weir_units::Bytes;

use crate::words::words;

/// The reported end of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The destination holds the whole file, and its size and checksum were verified.
    Done {
        /// Size of the file.
        bytes: Bytes,
        /// How the bytes came.
        mode: CopyMode,
        /// Bytes that the executor itself saw moving, by its own reads or by a storage's final count; none if it saw no final count.
        /// Never a size that was looked up.
        #[serde(default)]
        counted: Option<Bytes>,
        /// From the order of the copy to its first byte of data, if the executor knows it.
        #[serde(default)]
        first_byte: Option<Duration>,
    },
    /// The tape request is done: the file is on disk, or on tape.
    Ready,
    /// It did not work.
    Failed(Failure),
    /// The operation was stopped on demand, and its partial file was removed.
    Stopped {
        /// Bytes that had moved until then.
        bytes_moved: Bytes,
    },
}

/// A failed operation: cause, responsible party and remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Kind of error: decides the policy, and heads the statistics.
    pub class: ErrorClass,
    /// The party that failed.
    pub party: Party,
    /// When.
    pub phase: Phase,
    /// The error for people, without secrets and without a full stop.
    pub message: String,
    /// The remedy for an operator. May be empty.
    pub remedy: String,
    /// Bytes that moved in this attempt, in vain.
    pub bytes_moved: Bytes,
    /// Whether another attempt can succeed, by the code that knows the cause.
    pub retry: Retry,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({} during {}): {}",
            self.class, self.party, self.phase, self.message
        )
    }
}

impl std::error::Error for Failure {}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// At once: a kept-alive connection that had gone, an executor in shutdown.
    Now,
    /// After a while: the cause may be temporary.
    Later,
    /// Only after a change by an operator or a client.
    Never,
}

words!(CopyMode {
    /// Third-party copy: the destination reads from the source.
    Pull = "pull",
    /// Third-party copy: the source writes to the destination.
    Push = "push",
    /// The transfer service reads from the source and writes to the destination.
    Streamed = "streamed",
});

words!(Party {
    /// The storage that holds the file.
    Source = "source",
    /// The storage that is to hold it.
    Destination = "destination",
    /// The transfer service itself.
    TransferService = "transfer service",
    /// The catalogue, where rules ask for transfers.
    Catalogue = "catalogue",
    /// The token issuer.
    Issuer = "issuer",
    /// The network between the endpoints.
    Network = "network",
});

words!(Phase {
    /// Before bytes move: stat of the source, its checksum, the destination's absence, directories.
    Preparation = "preparation",
    /// While bytes move.
    Transfer = "transfer",
    /// After: size, checksum.
    Finalization = "finalization",
});

words!(ErrorClass {
    /// No such file.
    NotFound = "not-found",
    /// The destination exists, and overwriting was not asked.
    Exists = "exists",
    /// The identity is known, and not allowed to do this.
    Permission = "permission",
    /// The token is missing, expired, or for another scope, audience or issuer.
    Token = "token",
    /// TLS: certificate, name, protocol.
    Tls = "tls",
    /// Name resolution, connection refused, reset or closed.
    Network = "network",
    /// No answer in time.
    Timeout = "timeout",
    /// Bytes stopped moving.
    Stall = "stall",
    /// Checksums differ.
    Checksum = "checksum",
    /// Sizes differ.
    Size = "size",
    /// The destination, or a quota, is full.
    NoSpace = "no-space",
    /// The destination takes no writes.
    ReadOnly = "read-only",
    /// The endpoint asks for less: 429, 503.
    Overload = "overload",
    /// An answer that makes no sense.
    Protocol = "protocol",
    /// A client or an operator cancelled it.
    Cancelled = "cancelled",
    /// The transfer service did not end it by the time that it had.
    Unfinished = "unfinished",
    /// The transfer service no longer knows it.
    Forgotten = "forgotten",
    /// A defect of our own.
    Internal = "internal",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_parse_back() {
        // A word that does not parse back loses the class on its way through the store.
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::parse(class.as_str()), Some(*class));
        }
        for party in Party::ALL {
            assert_eq!(Party::parse(party.as_str()), Some(*party));
        }
        assert_eq!(Phase::parse("finalization"), Some(Phase::Finalization));
        assert_eq!(CopyMode::parse("PULL"), None);
    }

    #[test]
    fn a_failure_reads_as_a_sentence() {
        let failure = Failure {
            class: ErrorClass::NoSpace,
            party: Party::Destination,
            phase: Phase::Transfer,
            message: "QMUL has 3 GB left".into(),
            remedy: String::new(),
            bytes_moved: Bytes(0),
            retry: Retry::Later,
        };
        assert_eq!(
            failure.to_string(),
            "no-space (destination during transfer): QMUL has 3 GB left"
        );
    }
}
