//! The ledger: files that were due, injected and given up, per link and cycle.

use std::time::Duration;

use serde::Serialize;
use weir_model::Link;
use weir_units::{Bytes, Timestamp};

/// One link in one cycle.
///
/// Files are counted in the row in which they were wanted or injected. Over a run, per link: `wanted` is exactly what
/// the curve asks for. `injected` is the number of injections that were given out. Files of `wanted` that are neither
/// injected nor `given_up` are `owed` in the last row. `injected` also counts the replacements of failed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// Begin of the cycle.
    pub from: Timestamp,
    /// End of the cycle, several cycles later if the driver was late.
    pub to: Timestamp,
    /// The workload's index in the plan.
    pub workload: usize,
    /// The link.
    pub link: Link,
    /// The size of each file.
    pub size: Bytes,
    /// Files that the curve asked for.
    pub wanted: u64,
    /// Files that were injected.
    pub injected: u64,
    /// Files that were too late to be injected any more.
    pub given_up: u64,
    /// Files that were wanted by the end of the cycle and are neither injected nor given up.
    pub owed: u64,
    /// Largest lateness of the injected files.
    #[serde(with = "weir_units::duration")]
    pub late_max: Duration,
    /// The limit that held files back, if any.
    pub held: Option<Held>,
    /// Bytes delivered since the run began, as last observed.
    pub delivered: Bytes,
    /// Bytes queued, as last observed.
    pub queued: Bytes,
    /// Files moving, as last observed.
    pub active: u32,
}

/// A limit that holds back a file that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// The link's backlog was full.
    Backlog,
    /// The destination might have been full.
    Space,
    /// Copies of all source files were still at the destination.
    Sources,
}

impl Held {
    /// Gives the word: `backlog`, `space`, `sources`.
    pub fn as_str(self) -> &'static str {
        match self {
            Held::Backlog => "backlog",
            Held::Space => "space",
            Held::Sources => "sources",
        }
    }
}

/// The counters of a link's row until its cycle ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) injected: u64,
    pub(super) given_up: u64,
    pub(super) late_max: Duration,
    pub(super) held: Option<Held>,
}
