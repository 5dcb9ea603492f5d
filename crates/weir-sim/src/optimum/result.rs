//! The estimated optimum of a plan.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_units::BitRate;

/// The bytes that could be moved within a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Span {
    /// Its begin, in seconds from the start of the run.
    pub from_s: f64,
    /// Its end.
    pub until_s: f64,
    /// The rate of all links together.
    pub rate_bps: BitRate,
}

/// The estimated optimum within the hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Optimum {
    /// Mean rate over the hold, of all links.
    pub total: BitRate,
    /// The same per link, in the order of the scene.
    pub links: Vec<BitRate>,
    /// Resources that are full for most of the hold, by name, with the share of the hold.
    pub full: BTreeMap<String, f64>,
    /// The rate in the course of time, where it changes; empty for a plan of steps.
    pub spans: Vec<Span>,
}
