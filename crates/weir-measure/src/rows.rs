//! `transfers.csv`: one row per transfer.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use weir_world::{ErrorClass, Party, Phase, Waits};

use crate::csv::{Line, heading};
use crate::read::{Fields, ReadError, Rows};
use crate::spec::Spec;
use crate::transfer::{Failure, Stages, State, Transfer};

/// Name of the file in a run folder.
pub const FILE: &str = "transfers.csv";

/// The columns. New ones come last: rows of an older version have fewer.
const COLUMNS: [&str; 32] = [
    "id",
    "workload",
    "cell",
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
    "requested_s",
    "submitted_s",
    "started_s",
    "ended_s",
    "locked_s",
    "first_byte_s",
    "bytes_moved",
    "counted_bytes",
    "retries",
    "job_id",
    "rule_id",
    "path",
    "error_class",
    "party",
    "phase",
    "message",
    "remedy",
    "waits",
];

/// The columns of a row that are not accounted for. Times count from the start of the run.
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
    /// The catalogue's name for the rule that asked for it; empty where there is none.
    pub rule: &'a str,
    /// Where the file went, below the destination's base; empty where there is none.
    pub path: &'a str,
}

/// Writes the heading.
///
/// # Errors
/// The writer fails.
pub fn begin(to: &mut dyn Write) -> io::Result<()> {
    heading(to, &COLUMNS)
}

/// Writes a row. Times are seconds since the start of the run, empty where there is none. Failed attempts of a transfer
/// that finished are left out.
///
/// # Errors
/// The writer fails.
pub fn write(to: &mut dyn Write, spec: &Spec, row: &Row<'_>, transfer: &Transfer) -> io::Result<()> {
    let link = &spec.links[transfer.link];
    let failure = transfer.failure.as_ref().filter(|_| transfer.state != State::Finished);
    let remedy = failure.and_then(|failure| failure.remedy.as_deref());
    let stages = transfer.stages.unwrap_or_default();
    let waits = transfer.waits.as_deref().map(Waits::to_string);
    // In the order of COLUMNS.
    Line::new(to)
        .number(row.id)?
        .text(&spec.workloads[transfer.workload].name)?
        .count(transfer.cell.map(|cell| cell as u64))?
        .text(&link.source)?
        .text(&link.destination)?
        .text(&spec.sites[link.source_site])?
        .text(&spec.sites[link.destination_site])?
        .number(transfer.size)?
        .text(transfer.state.as_str())?
        .text(transfer.mode.as_deref().unwrap_or_default())?
        .time(Some(row.wanted))?
        .time(Some(row.injected))?
        .time(row.accepted)?
        .time(Some(transfer.late))?
        .time(stages.requested)?
        .time(stages.submitted)?
        .time(transfer.started)?
        .time(Some(transfer.ended))?
        .time(stages.locked)?
        .time(transfer.first_byte)?
        .number(transfer.bytes_moved)?
        .count(transfer.counted)?
        .number(u64::from(transfer.retries))?
        .text(row.job)?
        .text(row.rule)?
        .text(row.path)?
        .text(failure.map_or("", |failure| failure.class.as_str()))?
        .text(failure.and_then(|failure| failure.party).map_or("", Party::as_str))?
        .text(failure.and_then(|failure| failure.phase).map_or("", Phase::as_str))?
        .text(failure.map_or("", |failure| &failure.message))?
        .text(remedy.unwrap_or_default())?
        .text(waits.as_deref().unwrap_or_default())?
        .end()
}

/// Reads the rows of the run of this specification back, and hands each over; returns the first unreadable row, if
/// there is one.
///
/// Remedy and message of a failure are returned as written; a row that finished has no failure.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, spec: &Spec, mut take: impl FnMut(&Transfer)) -> Result<Option<ReadError>, ReadError> {
    let places = Places::of(spec);
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(&transfer(fields, &places)?);
        Ok(())
    });
    Ok(outcome.err())
}

/// Reads back the files that unfinished transfers of the service may have left, and hands over destination and path of
/// each; returns the first unreadable row, if there is one.
///
/// # Errors
/// The file has other columns.
pub fn read_unfinished(from: impl Read, mut take: impl FnMut(&str, &str)) -> Result<Option<ReadError>, ReadError> {
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        let is_finished = fields.text("state") == State::Finished.as_str();
        if !is_finished && fields.filled("job_id").is_some() {
            take(fields.text("destination"), fields.text("path"));
        }
        Ok(())
    });
    Ok(outcome.err())
}

/// The indices of the objects that a row names.
struct Places<'s> {
    spec: &'s Spec,
    workloads: BTreeMap<&'s str, usize>,
    links: BTreeMap<(&'s str, &'s str), usize>,
}

impl<'s> Places<'s> {
    fn of(spec: &'s Spec) -> Self {
        let workloads = spec.workloads.iter().enumerate();
        Self {
            spec,
            workloads: workloads.map(|(at, workload)| (workload.name.as_str(), at)).collect(),
            links: spec.numbers(),
        }
    }
}

fn transfer(fields: &Fields<'_>, places: &Places<'_>) -> Result<Transfer, String> {
    let name = fields.text("workload");
    let workload = places.workloads.get(name).copied();
    let workload = workload.ok_or_else(|| format!("the challenge has no workload {name}"))?;
    let cell = fields.count("cell")?;
    if cell.is_some_and(|cell| cell >= places.spec.workloads[workload].cells.len()) {
        return Err(format!("{name} has fewer cells than {}", fields.text("cell")));
    }
    let ends = (fields.text("source"), fields.text("destination"));
    let link = places.links.get(&ends).copied();
    let state = fields.word("state", State::parse)?.ok_or("state: is empty")?;
    let failure = fields.word("error_class", ErrorClass::parse)?.map(|class| {
        Ok::<_, String>(Failure {
            class,
            message: fields.text("message").to_owned(),
            party: fields.word("party", Party::parse)?,
            phase: fields.word("phase", Phase::parse)?,
            remedy: fields.filled("remedy").map(str::to_owned),
        })
    });
    let by_rule = fields.filled("rule_id").is_some();
    let stages = Stages {
        asked: fields.moment("injected_s")?,
        requested: fields.time("requested_s")?,
        submitted: fields.time("submitted_s")?,
        locked: fields.time("locked_s")?,
    };
    Ok(Transfer {
        workload,
        link: link.ok_or_else(|| format!("the challenge has no link {} -> {}", ends.0, ends.1))?,
        cell,
        size: fields.number("size_bytes")?,
        state,
        mode: fields.filled("mode").map(str::to_owned),
        injected: fields.moment("injected_s")?,
        late: fields.moment("late_s")?,
        started: fields.time("started_s")?,
        ended: fields.moment("ended_s")?,
        first_byte: fields.time("first_byte_s")?,
        waits: fields.word("waits", Waits::parse)?.map(Box::new),
        bytes_moved: fields.number("bytes_moved")?,
        counted: fields.count("counted_bytes")?,
        retries: fields.number("retries")?,
        stages: by_rule.then_some(stages),
        failure: failure.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handbook_explains_every_column() {
        // Wrong: a column without a unit, or the description of a column that does not exist.
        let page = include_str!("../../../docs/run-folder.md");
        let section = page
            .split("### The columns of `transfers.csv`")
            .nth(1)
            .unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let names = rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split(','));
        let names: Vec<&str> = names.map(|name| name.trim().trim_matches('`')).collect();
        assert_eq!(names, COLUMNS);
    }
}
