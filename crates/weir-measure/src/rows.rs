//! `transfers.csv`: one row per transfer.

use std::io::{self, Write};
use std::time::Duration;

use weir_world::{Party, Phase};

use crate::csv::{Line, heading};
use crate::spec::Spec;
use crate::transfer::{State, Transfer};

/// The columns.
const COLUMNS: [&str; 25] = [
    "id",
    "workload",
    "source",
    "destination",
    "source_site",
    "destination_site",
    "size_bytes",
    "state",
    "mode",
    "wanted_s",
    "injected_s",
    "accepted_s",
    "late_s",
    "started_s",
    "ended_s",
    "bytes_moved",
    "counted_bytes",
    "retries",
    "job_id",
    "path",
    "error_class",
    "party",
    "phase",
    "message",
    "remedy",
];

/// What a row says beside what is accounted for. Times count from the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// Number of the transfer.
    pub id: u64,
    /// When the plan wanted it.
    pub wanted: Duration,
    /// When it was handed to the transfer service.
    pub injected: Duration,
    /// When the service said yes.
    pub accepted: Option<Duration>,
    /// The service's name for its job; empty where there is none.
    pub job: &'a str,
    /// Where the file went, below the destination's base; empty where there is none.
    pub path: &'a str,
}

/// Writes the heading.
///
/// # Errors
/// Those of the writer.
pub fn begin(to: &mut dyn Write) -> io::Result<()> {
    heading(to, &COLUMNS)
}

/// Writes a row. Times are seconds since the start of the run, empty where there is none. What a transfer failed of before it finished
/// is not said.
///
/// # Errors
/// Those of the writer.
pub fn write(to: &mut dyn Write, spec: &Spec, row: &Row<'_>, transfer: &Transfer) -> io::Result<()> {
    let link = &spec.links[transfer.link];
    let state = match transfer.state {
        State::Finished => "finished",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
    };
    let failure = transfer.failure.as_ref().filter(|_| transfer.state != State::Finished);
    let remedy = failure.and_then(|failure| failure.remedy.as_deref());
    // In the order of COLUMNS.
    Line::new(to)
        .number(row.id)?
        .text(&spec.workloads[transfer.workload].name)?
        .text(&link.source)?
        .text(&link.destination)?
        .text(&spec.sites[link.source_site])?
        .text(&spec.sites[link.destination_site])?
        .number(transfer.size)?
        .text(state)?
        .text(transfer.mode.as_deref().unwrap_or_default())?
        .time(Some(row.wanted))?
        .time(Some(row.injected))?
        .time(row.accepted)?
        .time(Some(transfer.late))?
        .time(transfer.started)?
        .time(Some(transfer.ended))?
        .number(transfer.bytes_moved)?
        .count(transfer.counted)?
        .number(u64::from(transfer.retries))?
        .text(row.job)?
        .text(row.path)?
        .text(failure.map_or("", |failure| failure.class.as_str()))?
        .text(failure.and_then(|failure| failure.party).map_or("", Party::as_str))?
        .text(failure.and_then(|failure| failure.phase).map_or("", Phase::as_str))?
        .text(failure.map_or("", |failure| &failure.message))?
        .text(remedy.unwrap_or_default())?
        .end()
}
