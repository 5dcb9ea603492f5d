//! How attempts went.

use serde::{Deserialize, Serialize};
use weir_service::time::Millis;
use weir_world::{ErrorClass, Party, Phase, Waits};

/// How an attempt went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileResult {
    /// Size of the file, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesize: Option<u64>,
    /// Bytes that travelled in the newest attempt.
    pub bytes_moved: u64,
    /// Of a copy that succeeded: bytes that this service saw moving, by its own reads or by a storage's final count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<u64>,
    /// Of a copy that succeeded: milliseconds from the order to the first byte of data, if the storage said so or the bytes passed
    /// through this service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<u64>,
    /// The time that the newest attempt spent in each state, from its start on; `None` of attempts of an older version, and of those
    /// that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Box<Waits>>,
    /// `pull`, `push`, `streamed`, or `adopted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The reason of a failure, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The error's class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// The responsible party.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party: Option<Party>,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Whether another attempt could help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recoverable: Option<bool>,
    /// With several nodes, the host of the node that copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl FileResult {
    /// Class, party and phase, as they are stored.
    pub fn words(&self) -> [Option<&'static str>; 3] {
        [
            self.class.map(ErrorClass::as_str),
            self.party.map(Party::as_str),
            self.phase.map(Phase::as_str),
        ]
    }

    /// Whether the attempt found out that its token has to be waited for, and did nothing else. Such ones are no retries, and not kept:
    /// there is one every half minute for as long as an issuer is away.
    pub fn waited_for_issuer(&self) -> bool {
        self.party == Some(Party::Issuer)
    }
}

/// An attempt that failed and was tried again, as `/retries` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The file.
    pub file: u64,
    /// From 1.
    pub attempt: u32,
    /// When it ended.
    pub at: Millis,
    /// Why it failed.
    pub reason: String,
}

/// The value of a stored word; `None` for a word of another version.
pub fn meaning<T>(word: Option<&str>, parse: fn(&str) -> Option<T>) -> Option<T> {
    word.and_then(parse)
}
