//! Identities and small words of the transfer service.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names one job: transfers that were submitted together. Prints as a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u128);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        let (low, mid, high) = (part(96, 32), part(80, 16), part(64, 16));
        write!(
            f,
            "{low:08x}-{mid:04x}-{high:04x}-{:04x}-{:012x}",
            part(48, 16),
            part(0, 48)
        )
    }
}

/// Stands for one storage element (`scheme://host`), by number: [`crate::Names`] holds the names.
///
/// Numbers are given by the driver, mean nothing after a restart, and are never stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeId(pub u32);

/// Stands for one virtual organisation, by number, as [`SeId`] does for storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VoId(pub u32);

/// Stands for one activity, by number, as [`SeId`] does for storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActivityId(pub u32);

/// Number of a resource that several storage elements share, as [`SeId`] is for storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u32);

/// An ordered pair of storage elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// Where files come from.
    pub source: SeId,
    /// Where they go to.
    pub destination: SeId,
}

/// The operation that a transfer runs or waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Bring the file to the destination.
    #[default]
    Copy,
    /// Bring the file from tape to disk at the source.
    Stage,
    /// Wait until the copy is on tape at the destination.
    Archive,
}

/// The tape operations of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tape {
    /// At the source.
    pub stage: Staging,
    /// At the destination: the transfer ends when the copy is on tape.
    pub archive: bool,
}

/// Whether a file is brought online at its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Staging {
    /// No.
    #[default]
    No,
    /// Before it is copied.
    First,
    /// And that is all: it is not copied.
    Only,
}

/// How urgent a job is: 5 before 4, and so on to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    /// The most urgent.
    pub const HIGHEST: Self = Self(5);
    /// The least urgent.
    pub const LOWEST: Self = Self(1);

    /// Takes any number, and the nearest of 1 to 5 if it is none of them, as FTS does.
    pub fn new(number: i64) -> Self {
        Self(number.clamp(1, 5) as u8)
    }

    /// A number from 1 to 5.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    /// 3, as in FTS.
    fn default() -> Self {
        Self(3)
    }
}

/// Names one command that waits for its answer. Chosen by the driver; it comes back in the record that answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_prints_as_a_uuid() {
        let job = JobId(0x01874efb_4735_4595_bc9c_591aef8240c9);
        assert_eq!(job.to_string(), "01874efb-4735-4595-bc9c-591aef8240c9");
    }

    #[test]
    fn priorities_are_clamped() {
        assert_eq!(
            [-7, 0, 1, 5, 9].map(|number| Priority::new(number).get()),
            [1, 1, 1, 5, 5]
        );
    }
}
