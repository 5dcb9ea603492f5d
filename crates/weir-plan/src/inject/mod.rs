//! The injectors: of `rates` workloads a closed loop that holds links at their asked rates, of `matrix` and `ramp` one step after the other
//! ([`StepsCore`]).
//!
//! For each link with a rate the phases give a curve: the bytes that should have been injected by a moment. Files sit on it one file size
//! apart, the first of each link at a place of its own (`places`), so that links do not burst together. A file is injected when the curve
//! reaches it, so arrivals follow the curve by the duration of a transfer. Three bounds keep the loop from flooding:
//! - **Backlog**: at most a few cycles' worth of bytes ([`BACKLOG_CYCLES`]), and at least [`BACKLOG_FILES`] files, may be queued on a link.
//!   A link slower than asked is never idle and never has more than that waiting.
//! - **Debt**: files older than [`DEBT_CYCLES`] are given up. A link that was late catches up that much and no more.
//! - **Space**: nothing is injected that might not fit into its destination.
//!
//! Failed files are injected again, up to a quarter of the bytes of the curve.
//!
//! Everything is integers; a call costs a few operations per link.

mod core;
mod evenness;
mod ledger;
mod link;
mod places;
mod steps;

use std::time::Duration;

use serde::Serialize;
use weir_model::Link;
use weir_units::{Bytes, Timestamp};

pub use core::RatesCore;
pub use evenness::Variation;
pub use ledger::{Held, LedgerRow};
pub(crate) use link::backlog_files;
pub use steps::{StepInjection, StepsCore};

/// Bits of an injection's id that count within a workload; the bits above are the workload's index.
const ID_BITS: u32 = 48;

/// Cycles' worth of bytes that may be queued on a link.
/// 5: with the default cycle a transfer may take 5 s from injection to verification before the link runs dry.
pub const BACKLOG_CYCLES: u32 = 5;

/// Files that may be queued on a link however small its rate: one moving, one starting, two waiting.
pub const BACKLOG_FILES: u64 = 4;

/// Cycles after which a file that could not be injected is given up.
/// 10: twice the backlog, so that a hiccup is made good and an outage shows.
pub const DEBT_CYCLES: u32 = 10;

/// One file to be moved over one link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Injection {
    /// Number of the injection, unique in the run and ascending within a workload.
    pub id: u64,
    /// The workload's index in the plan.
    pub workload: usize,
    /// The link.
    pub link: Link,
    /// The link's index in its workload, from 0.
    pub place: usize,
    /// Index of the source's file of this size, from 0.
    pub file: u32,
    /// The size.
    pub size: Bytes,
    /// When the curve reached this file.
    pub wanted_at: Timestamp,
    /// When it was injected.
    pub injected_at: Timestamp,
    /// How much later than wanted.
    #[serde(with = "weir_units::duration")]
    pub late: Duration,
}

/// Observations of a link since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkObservation {
    /// The link.
    pub link: Link,
    /// Bytes of files that arrived and were verified, in all.
    pub delivered: Bytes,
    /// Bytes of files that were injected and have neither arrived nor failed.
    pub queued: Bytes,
    /// Number of files that are being moved.
    pub active: u32,
    /// Bytes that the destination can still take; `None` if unknown.
    pub space_left: Option<Bytes>,
    /// Source files that may be injected, because no copy of them is at the destination; `None` if any may.
    pub free_files: Option<u64>,
}
