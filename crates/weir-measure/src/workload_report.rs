//! Workloads in `report.json`: rates, matrices of cells, ramps of steps.

use serde::{Deserialize, Serialize};
use weir_units::BitRate;

/// Figures of one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: String,
    /// Transfers submitted.
    pub transfers: u64,
    /// Finished transfers.
    pub finished: u64,
    /// Failed transfers.
    pub failed: u64,
    /// Cancelled transfers.
    #[serde(default)]
    pub cancelled: u64,
    /// Sizes of all transfers submitted.
    pub injected_bytes: u64,
    /// Sizes of the finished transfers.
    pub verified_bytes: u64,
    /// The figures of its kind.
    #[serde(flatten)]
    pub kind: WorkloadKind,
}

/// The figures of a kind of workload; `kind` in the JSON names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum WorkloadKind {
    /// Holds a rate on every link.
    Rates {
        /// Sum of the asked rates.
        #[serde(with = "weir_units::bps")]
        asked_bps: BitRate,
        /// Verified bytes within the hold window ÷ its length.
        #[serde(with = "weir_units::bps::option", default)]
        achieved_bps: Option<BitRate>,
        /// `achieved_bps ÷ asked_bps`.
        ratio: Option<f64>,
        /// 95th percentile of injected minus wanted time.
        lateness_p95_s: Option<f64>,
        /// The largest of them.
        lateness_max_s: Option<f64>,
    },
    /// Tries every pair × mode × size.
    Matrix {
        /// One cell per pair × mode × size.
        cells: Vec<Cell>,
    },
    /// Raises the number of parallel transfers.
    Ramp {
        /// One step per link × number of parallel transfers.
        steps: Vec<Step>,
    },
}

/// One cell of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Copy mode that was forced: `pull`, `push` or `streamed`.
    pub mode: String,
    /// File size.
    pub size_bytes: u64,
    /// Whether every transfer of the cell finished.
    pub ok: bool,
    /// Transfers of the cell.
    pub transfers: u64,
    /// Mean over the finished transfers of size ÷ own duration; `null` when none finished.
    #[serde(with = "weir_units::bps::option", default)]
    pub rate_bps: Option<BitRate>,
    /// Text of the first failure; secrets removed.
    pub error: Option<String>,
    /// Its class.
    pub error_class: Option<String>,
}

/// One step of a ramp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Transfers submitted at once.
    pub parallel: u64,
    /// File size.
    pub file_bytes: u64,
    /// Transfers submitted.
    pub transfers: u64,
    /// Transfers that did not finish.
    pub failed: u64,
    /// Verified bytes ÷ `duration_s`.
    #[serde(with = "weir_units::bps::option", default)]
    pub achieved_bps: Option<BitRate>,
    /// From the first start to the last end.
    pub duration_s: f64,
}
