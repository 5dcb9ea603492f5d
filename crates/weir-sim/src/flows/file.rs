//! The file as it is written.

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with the lists `nodes`, `links`, `routes` and `flows`"
)]
pub(super) struct ScenarioFile {
    /// Names of places; absent: any name is a place.
    pub(super) nodes: Option<Vec<String>>,
    #[serde(default)]
    pub(super) links: Vec<LinkEntry>,
    #[serde(default)]
    pub(super) flows: Vec<FlowEntry>,
    #[serde(default)]
    pub(super) routes: Vec<RouteEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a link as an object")]
pub(super) struct LinkEntry {
    pub(super) name: String,
    pub(super) bandwidth_bps: f64,
    #[serde(default)]
    pub(super) latency_s: f64,
    #[serde(default)]
    pub(super) policy: LinkPolicy,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkPolicy {
    #[default]
    Shared,
    FatPipe,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a flow as an object")]
pub(super) struct FlowEntry {
    pub(super) id: Id,
    #[serde(default)]
    pub(super) start_s: f64,
    pub(super) size_bytes: Number,
    pub(super) src: Option<String>,
    pub(super) dst: Option<String>,
    pub(super) path: Option<Vec<String>>,
    pub(super) streams: Option<Number>,
    /// Zero: no limit.
    #[serde(default)]
    pub(super) rate_limit_bps: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a route as an object")]
pub(super) struct RouteEntry {
    pub(super) src: String,
    pub(super) dst: String,
    pub(super) path: Vec<String>,
}

/// The identifier of a flow: a number or a text, returned as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged, expecting = "an id is a whole number or a text")]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

/// A number that must be whole; some writers put a point into large ones.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "a size or a count is a number")]
pub(super) enum Number {
    Whole(u64),
    Other(f64),
}

impl Number {
    /// The number, if it is whole and not negative.
    pub(super) fn whole(self) -> Option<u64> {
        match self {
            Number::Whole(number) => Some(number),
            Number::Other(number) => {
                let fits = (0.0..18_446_744_073_709_551_616.0).contains(&number) && number.fract() == 0.0;
                fits.then_some(number as u64)
            }
        }
    }

    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Whole(number) => number as f64,
            Number::Other(number) => number,
        }
    }
}
