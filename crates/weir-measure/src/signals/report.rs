//! Signals as `report.json` has them.

use serde::{Deserialize, Serialize};
use weir_world::{Place, Wait, WaitPhase};

use crate::spread::Bins;

/// The waits of one link's transfers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkSignals {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Phases of a transfer whose states were measured. Of the others nothing is known: no wait in them does not mean that
    /// nothing waited.
    pub known: Vec<WaitPhase>,
    /// Waits by state and place, in the order of a transfer's life.
    pub waits: Vec<WaitSeries>,
}

/// The time that transfers of a link spent in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitSeries {
    /// The state.
    pub wait: Wait,
    /// The place that was waited for, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Sum over transfers and bins, seconds.
    pub total_s: f64,
    /// Number of the bin of the first value in `seconds`.
    #[serde(default)]
    pub first_bin: u64,
    /// Sum over transfers in each bin, seconds; bins after the last have none.
    pub seconds: Vec<f64>,
}

impl WaitSeries {
    pub(super) fn of(wait: Wait, place: Option<&Place>, bins: &Bins) -> Self {
        let filled = bins.filled();
        Self {
            wait,
            place: place.cloned(),
            total_s: seconds(bins.sum()),
            first_bin: filled.start as u64,
            seconds: filled.map(|bin| seconds(bins.get(bin))).collect(),
        }
    }
}

/// Milliseconds are enough for a chart, and keep reports small.
fn seconds(nanos: u64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
