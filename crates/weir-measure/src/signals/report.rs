//! Signals as `report.json` has them.

use serde::{Deserialize, Serialize};
use weir_world::{ErrorClass, Party, Place, Wait, WaitPhase};

use crate::spec::LinkSpec;
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
    /// The slots of its transfers. Absent where the transfer service does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<SlotSeries>,
    /// Attempts that failed, whatever became of their transfers, by class and party: the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureSeries>,
}

/// The attempts of a link that failed with one class at one party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureSeries {
    /// The class of the error.
    pub class: ErrorClass,
    /// The party at fault, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<Party>,
    /// Their number.
    pub total: u64,
    /// Number of the bin of the first value in `counts`.
    #[serde(default)]
    pub first_bin: u64,
    /// How many failed in each bin; bins after the last have none.
    pub counts: Vec<u64>,
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
    /// Of a wait for slots: the links that held them meanwhile, those with the largest parts first. Empty where nobody tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<Holder>,
}

/// A link that held slots that another one waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The link, `A→B`.
    pub link: String,
    /// Its part of the wait, by its share of the slots in each bin, seconds.
    pub waited_s: f64,
}

/// The time that transfers of a link held slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotSeries {
    /// The places at which they hold a slot each.
    pub way: Vec<Place>,
    /// Sum over transfers and bins, seconds.
    pub total_s: f64,
    /// Number of the bin of the first value in `seconds`.
    #[serde(default)]
    pub first_bin: u64,
    /// Sum over transfers in each bin, seconds; bins after the last have none.
    pub seconds: Vec<f64>,
}

impl Holder {
    pub(super) fn of(link: &LinkSpec, nanos: u64) -> Self {
        Self {
            link: format!("{}→{}", link.source, link.destination),
            waited_s: seconds(nanos),
        }
    }
}

impl FailureSeries {
    pub(super) fn of(failed: &[((ErrorClass, Option<Party>), Bins)]) -> Vec<Self> {
        let of = |((class, party), bins): &((ErrorClass, Option<Party>), Bins)| {
            let filled = bins.filled();
            Self {
                class: *class,
                party: *party,
                total: bins.sum(),
                first_bin: filled.start as u64,
                counts: filled.map(|bin| bins.get(bin)).collect(),
            }
        };
        let mut all: Vec<Self> = failed.iter().map(of).collect();
        all.sort_by_key(|series| (std::cmp::Reverse(series.total), series.class, series.party));
        all
    }
}

impl SlotSeries {
    /// The slots at these places; `None` without any. A slot is held at all places at once, so the longest series is that of all slots.
    pub(super) fn of<'s>(way: impl Iterator<Item = (&'s Place, &'s Bins)>) -> Option<Self> {
        let mut way: Vec<(&Place, &Bins)> = way.collect();
        way.sort_by_key(|(place, _)| *place);
        let (_, bins) = *way.iter().max_by_key(|(_, bins)| bins.sum())?;
        let filled = bins.filled();
        Some(Self {
            way: way.iter().map(|(place, _)| (*place).clone()).collect(),
            total_s: seconds(bins.sum()),
            first_bin: filled.start as u64,
            seconds: filled.map(|bin| seconds(bins.get(bin))).collect(),
        })
    }
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
            holders: Vec::new(),
        }
    }
}

/// Milliseconds are enough for a chart, and keep reports small.
fn seconds(nanos: u64) -> f64 {
    (nanos as f64 / 1e6).round() / 1e3
}
