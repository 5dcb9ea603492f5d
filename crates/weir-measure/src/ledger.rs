//! `ledger.csv`: due and actual injections of every link, cycle by cycle.

use std::io::{self, Write};
use std::time::Duration;

use weir_plan::{Held, LedgerRow};

use crate::csv::{Line, heading};
use crate::spec::Spec;

/// Name of the file in a run folder.
pub const FILE: &str = "ledger.csv";

/// The columns.
const COLUMNS: [&str; 14] = [
    "from_s",
    "to_s",
    "workload",
    "source",
    "destination",
    "size_bytes",
    "wanted",
    "injected",
    "given_up",
    "late_max_s",
    "held",
    "delivered_bytes",
    "queued_bytes",
    "active",
];

/// Writes the heading.
///
/// # Errors
/// The writer fails.
pub fn begin(to: &mut dyn Write) -> io::Result<()> {
    heading(to, &COLUMNS)
}

/// Writes a row. Times are seconds since the start of the run.
///
/// # Errors
/// The writer fails.
pub fn write(to: &mut dyn Write, spec: &Spec, row: &LedgerRow) -> io::Result<()> {
    // In the order of COLUMNS.
    Line::new(to)
        .time(Some(Duration::from_nanos(row.from.0)))?
        .time(Some(Duration::from_nanos(row.to.0)))?
        .text(&spec.workloads[row.workload].name)?
        .text(row.link.source.as_str())?
        .text(row.link.destination.as_str())?
        .number(row.size.0)?
        .number(row.wanted)?
        .number(row.injected)?
        .number(row.given_up)?
        .time(Some(row.late_max))?
        .text(row.held.map_or("", Held::as_str))?
        .number(row.delivered.0)?
        .number(row.queued.0)?
        .number(row.active.into())?
        .end()
}
