//! Times of the tape operations of a file.

use serde::{Deserialize, Serialize};
use weir_service::time::Millis;

/// The times of a file's tape operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TapeTimes {
    /// When it was first asked to be brought online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging_start: Option<Millis>,
    /// When it was online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging_finished: Option<Millis>,
    /// When it was copied, and waited for tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_start: Option<Millis>,
    /// When it was on tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_finished: Option<Millis>,
    /// The storage's name for the request to bring it online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl TapeTimes {
    /// Whether nothing was asked of tape.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
