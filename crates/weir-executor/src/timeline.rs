//! When the steps of an attempt were.

use serde::{Deserialize, Serialize};
use weir_service::time::Millis;

/// When the steps of one attempt began and ended; `None`: it never came to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The attempt itself.
    pub began: Millis,
    /// The look at the source, if it asked for a checksum.
    pub source_checksum: Option<Span>,
    /// The copy, all modes that were tried.
    pub copy: Option<Span>,
    /// The look at the destination afterwards, if it asked for a checksum.
    pub destination_checksum: Option<Span>,
    /// The attempt itself.
    pub ended: Millis,
    /// Limit of the copy, in seconds.
    pub timeout: u64,
}

/// A step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// Its begin.
    pub from: Millis,
    /// Its end; 0 while it is under way.
    pub to: Millis,
}
