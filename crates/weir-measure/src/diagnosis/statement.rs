//! A statement of a diagnosis.

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
