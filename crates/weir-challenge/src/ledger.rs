//! Writes `ledger.csv`: what every link was wanted to inject and did, cycle by cycle.

use std::io::{self, Write};
use std::time::Duration;

use weir_plan::{Held, LedgerRow};

use crate::folder::csv_line;
use crate::rates::RatesDriver;
use crate::record::{Names, seconds};

/// The columns of `ledger.csv`.
pub(crate) const COLUMNS: [&str; 14] = [
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

/// Writes the ledger; a run without rates has only its heading.
pub(crate) fn write(to: &mut dyn Write, rates: Option<&RatesDriver>, names: &Names<'_>) -> io::Result<()> {
    csv_line(to, &COLUMNS)?;
    for row in rates.map(RatesDriver::ledger).unwrap_or_default() {
        write_row(to, row, &names.workloads[row.workload])?;
    }
    Ok(())
}

/// Writes one row.
pub(crate) fn write_row(to: &mut dyn Write, row: &LedgerRow, workload: &str) -> io::Result<()> {
    csv_line(
        to,
        &[
            &seconds(Duration::from_nanos(row.from.0)),
            &seconds(Duration::from_nanos(row.to.0)),
            workload,
            row.link.source.as_str(),
            row.link.destination.as_str(),
            &row.size.0.to_string(),
            &row.wanted.to_string(),
            &row.injected.to_string(),
            &row.given_up.to_string(),
            &seconds(row.late_max),
            row.held.map_or("", Held::as_str),
            &row.delivered.0.to_string(),
            &row.queued.0.to_string(),
            &row.active.to_string(),
        ],
    )
}
