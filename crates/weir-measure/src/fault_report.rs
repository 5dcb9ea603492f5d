//! Faults as `report.json` has them.

use serde::{Deserialize, Serialize};

/// A fault of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Where.
    pub place: String,
    /// How hard, if it has degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// When it was on: begins and ends in seconds from the start of the run.
    pub times: Vec<(f64, f64)>,
    /// Whether any asked rate felt it; `null` where no rate is asked.
    pub effect: Option<bool>,
    /// The state of whatever made it in a real run: bytes that a relay held back, connections that it reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted: Option<String>,
    /// The links that felt it most, at most ten.
    pub links: Vec<FaultLink>,
}

/// The part of its asked bits that a link missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultLink {
    /// Its name, `A→B`.
    pub link: String,
    /// Share of the asked bits that it missed while the fault was on.
    pub missed_ratio: f64,
    /// The same in the rest of the hold; `null` where there is no rest.
    pub missed_else_ratio: Option<f64>,
}
