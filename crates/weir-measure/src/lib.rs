//! The room that measures: time series, accounting, error classes, cross-checks, thresholds, the verdict and the
//! contract of `report.json`.
//!
//! It stands behind a run: `weir-challenge` and `weir-sim` begin a [`Measurement`] of their plan and hand over one
//! [`Transfer`] per transfer when it has ended. They get a [`Snapshot`] at any moment, and the [`report::Report`] in
//! the end. Everything here is plain code over explicit inputs: no socket, no clock, no floating-point function that
//! differs between machines.
//!
//! Invariants:
//! - A transfer's bytes are spread over its own duration in integers; the bytes in bins and windows add up to those of
//!   the transfer, exactly.
//! - A transfer that did not finish never counts with its size, only with the bytes that moved, and apart.
//! - Links add up to sites and sites to the total, because all three are fed from the same row.
//! - "No data" is `None`, never zero.
//!
//! ```
//! use std::time::Duration;
//! use weir_measure::spread;
//!
//! // 100 bytes over the seconds 1 to 4, seen in bins of 1 s.
//! let second = Duration::from_secs(1);
//! let bins: Vec<u64> = (0..5).map(|bin| spread::between(100, second, 4 * second, bin * second, (bin + 1) * second)).collect();
//! assert_eq!(bins, [0, 33, 33, 34, 0]);
//! ```

pub mod report;
pub mod spread;

pub mod accounting;
pub mod advice;
pub mod chain;
pub mod chain_report;
pub mod crosscheck;
mod csv;
pub mod deficit;
pub mod diagnosis;
pub mod evenness;
pub mod events;
pub mod expectation;
pub mod fault_report;
pub mod faults;
pub mod files;
pub mod gauges;
pub mod ledger;
pub mod measurement;
pub mod quantiles;
mod read;
pub mod replay;
pub mod rows;
pub mod samples;
pub mod signals;
pub mod snapshot;
pub mod spec;
pub mod stability;
pub mod steps;
pub mod threshold;
pub mod transfer;
pub mod verdict;
mod workload_report;

pub use accounting::Accounting;
pub use gauges::Gauges;
pub use measurement::{Ending, Measured, Measurement};
pub use read::ReadError;
pub use report::{Report, Verdict};
pub use signals::Signals;
pub use snapshot::{RateNow, RunPhase, Snapshot, Standing};
pub use spec::{LinkSpec, Spec, WindowSpec, WorkloadSpec};
pub use transfer::{Failure, Stages, State, Transfer};
