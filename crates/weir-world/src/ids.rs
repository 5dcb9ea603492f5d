//! Identities that cross the seam.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names one transfer: one file to one destination, all attempts together. Given by the store, never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TransferId(pub u64);

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one operation: one attempt at one transfer, ordered by one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId {
    /// The transfer that the operation serves.
    pub transfer: TransferId,
    /// Counts the operations of this transfer from 1, over all epochs; each operation has its own.
    pub attempt: u32,
    /// The epoch of the core that ordered the operation. Every new core has a greater epoch and ignores reports about operations of earlier
    /// epochs: this fences a deposed scheduler.
    pub epoch: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}", self.transfer, self.attempt, self.epoch)
    }
}

/// Numbers the records of one core's life, from 1, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The position of the record in a list of all records, from 0.
    pub fn index(self) -> usize {
        self.0.saturating_sub(1) as usize
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
