//! Figures that the API shows. Kept up to date as things happen: reading them costs nothing.

use serde::{Deserialize, Serialize};
use weir_units::{BitRate, Bytes};

use crate::{Link, SeId, VoId, Work};

/// Numbers of waiting, running and ended transfers. Ended ones are counted since the start of this core's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Transfers that could start if there were room.
    pub queued: u64,
    /// Their sizes, as far as known.
    pub queued_bytes: Bytes,
    /// Transfers that wait for their next attempt.
    pub delayed: u64,
    /// Their sizes, as far as known.
    pub delayed_bytes: Bytes,
    /// Transfers that hold a slot: running, or on their way to it.
    pub active: u64,
    /// Ended well.
    pub finished: u64,
    /// Sizes of those, as the executor reported them.
    pub finished_bytes: Bytes,
    /// Ended badly.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Attempts that ended, but not their transfer.
    pub retried: u64,
}

/// A link and its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkStats {
    /// The link.
    pub link: Link,
    /// How many may be active, by the operator.
    pub limit: u32,
    /// Number that may be active now: the least of operator's limit, optimiser, bandwidth limit and breaker.
    pub allowed: u32,
    /// Throughput of one transfer, start-up and failures included; `None` if unknown.
    pub each: Option<BitRate>,
    /// Part of recent attempts that failed for reasons of the path or the storage, in thousandths.
    pub failing: u32,
    /// The counts.
    pub counts: Counts,
}

/// The tape operations of one virtual organisation at one storage element, and their figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TapeStats {
    /// [`Work::Stage`] or [`Work::Archive`].
    pub work: Work,
    /// Where the tape is.
    pub se: SeId,
    /// The virtual organisation.
    pub vo: VoId,
    /// Transfers that wait for their turn.
    pub queued: u64,
    /// Transfers that are being brought online, or watched until they are on tape.
    pub active: u64,
}

/// One direction of a storage element and its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GateStats {
    /// How many may be active, by the operator.
    pub limit: u32,
    /// Number that may be active now: the least of operator's limit, optimiser, bandwidth limit and breaker.
    pub allowed: u32,
    /// Measured throughput of all of them.
    pub rate: BitRate,
    /// How many are.
    pub active: u32,
    /// Slots kept free for links that waited too long between two busy ends.
    pub kept: u32,
}

/// A storage element and its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SeStats {
    /// The storage element.
    pub se: SeId,
    /// As destination.
    pub inbound: GateStats,
    /// As source.
    pub outbound: GateStats,
}
