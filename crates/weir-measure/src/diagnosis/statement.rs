//! Statements of a diagnosis, and ledgers of missing bits, as `report.json` has them.

use serde::{Deserialize, Serialize};
use weir_world::{CauseClass, Place};

/// A cause that held some links back, as a diagnosis names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// The class of the cause.
    pub class: CauseClass,
    /// The place, where it is known.
    pub place: Option<Place>,
    /// The links that were held back, `A→B`.
    pub links: Vec<String>,
    /// When it began and ended, seconds from the start of the run.
    pub from_s: f64,
    /// See `from_s`.
    pub until_s: f64,
    /// Rate that these links were asked for in that time, bit/s.
    pub asked_bps: f64,
    /// Rate that they got, bit/s.
    pub held_bps: f64,
    /// How sure it is, from 0 to 1.
    pub probability: f64,
    /// Other answers, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Alternative>,
    /// Whether it leaves open which of two is right: itself, or the first of the others.
    #[serde(default)]
    pub is_open: bool,
    /// When it was first made while the run went on, seconds from its start. Absent if only the end of the run brought it, and of a
    /// simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_s: Option<f64>,
    /// The statement in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The figures that it follows from, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// The places whose slots the links waited for, where the cause is behind them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<Place>,
    /// The remedy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The test that would settle it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settle: String,
}

/// Another answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    /// The class of the cause.
    pub class: CauseClass,
    /// The place, where it is known.
    pub place: Option<Place>,
    /// How sure it is, from 0 to 1.
    pub probability: f64,
}

/// A figure that a statement follows from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// A state, or `failed` with the class of an error, `injected`.
    pub signal: String,
    /// The place that was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The figure in the time of the statement.
    pub value: f64,
    /// The figure that is usual on these links for as many bits; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<f64>,
    /// The unit of both.
    pub unit: String,
}

/// The ledger of one link. In each bin, `asked − achieved` is the sum of the causes and the rest, to the bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkLedger {
    /// The link, `A→B`.
    pub link: String,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Number of the first bin; bins count from the start of the run.
    pub first_bin: u64,
    /// Bits asked for in each bin.
    pub asked_bits: Vec<i64>,
    /// Bits that came in each bin.
    pub achieved_bits: Vec<i64>,
    /// Bits that did not come, by cause.
    pub causes: Vec<CauseSeries>,
    /// The rest of each bin: unexplained where it is positive, made up for where it is negative.
    pub rest_bits: Vec<i64>,
}

/// The bits of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseSeries {
    /// Its class.
    pub class: CauseClass,
    /// Its place, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Sum of all bins.
    pub total_bits: i64,
    /// Bits in each bin.
    pub bits: Vec<i64>,
}

impl Statement {
    /// A statement without links, about the whole of a time.
    pub(super) fn bare(class: CauseClass, place: Option<Place>, (from_s, until_s): (f64, f64)) -> Self {
        Self {
            class,
            place,
            links: Vec::new(),
            from_s,
            until_s,
            asked_bps: 0.0,
            held_bps: 0.0,
            probability: 0.0,
            others: Vec::new(),
            is_open: false,
            said_s: None,
            text: String::new(),
            evidence: Vec::new(),
            via: Vec::new(),
            advice: String::new(),
            settle: String::new(),
        }
    }
}
