//! State that faults give to storage elements and links, beside their models.

use std::time::Duration;

use weir_plan::fault::Way;
use weir_units::{BitRate, Bytes};
use weir_world::{CopyMode, ErrorClass};

/// A segment of TCP on Ethernet, in bits.
const SEGMENT_BITS: f64 = 1_448.0 * 8.0;
/// The constant of Mathis and others (1997) for loss at random, with an acknowledgement for each segment.
const MATHIS: f64 = 1.22;

/// Attempts that fail while a fault is on.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureRule {
    /// How they fail.
    pub class: ErrorClass,
    /// The share of them.
    pub share: f64,
    /// Only copies in this mode.
    pub mode: Option<CopyMode>,
    /// Only files above this size.
    pub above: Option<Bytes>,
    /// Only into or out of the storage element.
    pub way: Way,
}

/// Effects of faults at a storage element beside its model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StorageFaults {
    /// Attempts that fail.
    pub rules: Vec<FailureRule>,
    /// Time that is added to the closing of each file.
    pub close: Duration,
    /// Time that is added to each deletion.
    pub deletion: Duration,
    /// Most bytes of files that the run brings.
    pub quota: Option<u64>,
    /// Above so many transfers their sum falls from this rate.
    pub overload: Option<(u32, BitRate)>,
    /// Above so many transfers the server dies, and is back after this time.
    pub crash: Option<(u32, Duration)>,
    /// The share of files that is gone after a transfer that succeeded.
    pub vanish: f64,
    /// The share of files that has other bytes after a transfer that succeeded.
    pub corrupt: f64,
    /// Nothing moves.
    pub is_down: bool,
    /// How it counts bytes.
    pub counts: Counts,
}

/// How a storage element counts bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counts {
    /// So many times what passed.
    Times(f64),
    /// So much later.
    Late(Duration),
    /// Not at all.
    Nothing,
}

impl Default for Counts {
    fn default() -> Self {
        Self::Times(1.0)
    }
}

/// Effects of faults on a link beside its model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkFaults {
    /// Attempts that fail.
    pub rules: Vec<FailureRule>,
    /// Files above this size stall after their first bytes.
    pub mtu: Option<Bytes>,
    /// Nothing moves.
    pub is_down: bool,
    /// Traffic of others.
    pub foreign: BitRate,
}

/// The largest rate of one stream with this loss and round trip: segment ÷ round trip × 1.22 ÷ √loss.
pub(crate) fn lossy_rate(loss: f64, rtt: Duration) -> Option<BitRate> {
    let seconds = rtt.as_secs_f64().max(1e-4);
    (loss > 0.0).then(|| BitRate((SEGMENT_BITS / seconds * MATHIS / loss.sqrt()) as u64))
}
