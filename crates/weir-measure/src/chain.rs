//! Rules that a run made in a catalogue, and the way of their files through catalogue and transfer service: `rules.csv`, and the figures
//! of them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use crate::chain_report::{ChainReport, DeletionReport, Rooms, StuckRule};
use crate::csv::{Line, heading};
use crate::quantiles::Quantiles;
use crate::read::{Fields, ReadError, Rows};
use crate::spec::Spec;
use crate::transfer::{State, Transfer};

/// Name of the file in a run folder.
pub const FILE: &str = "rules.csv";

/// The columns.
const COLUMNS: [&str; 11] = [
    "rule_id",
    "workload",
    "source",
    "destination",
    "files",
    "bytes",
    "asked_s",
    "answered_s",
    "ended_s",
    "state",
    "message",
];

/// A copy that is still there so long after the end of its rule is late.
pub const LATE: Duration = Duration::from_secs(10);

/// Rules without all of their files that a report names one by one.
const NAMED: usize = 20;

/// How a rule ended, as far as its run waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleEnd {
    /// Every file had come: all locks were OK.
    Ok,
    /// A file had not come when the rule ended, was deleted, or the drain was over.
    Incomplete,
    /// The run was interrupted before.
    Cancelled,
    /// The catalogue did not make it.
    Refused,
}

impl RuleEnd {
    /// Every end.
    pub const ALL: [RuleEnd; 4] = [RuleEnd::Ok, RuleEnd::Incomplete, RuleEnd::Cancelled, RuleEnd::Refused];

    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Incomplete => "incomplete",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == text)
    }
}

/// A rule, when its last file has ended. Times count from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRow {
    /// The catalogue's id; empty if it made none.
    pub id: String,
    /// Index into [`Spec::workloads`].
    pub workload: usize,
    /// Index into [`Spec::links`].
    pub link: usize,
    /// Its files.
    pub files: u64,
    /// Their sizes.
    pub bytes: u64,
    /// When the catalogue was asked.
    pub asked: Duration,
    /// When it answered.
    pub answered: Option<Duration>,
    /// When the last lock was OK, by the catalogue's clock, or the last file had ended otherwise.
    pub ended: Duration,
    /// How it ended.
    pub end: RuleEnd,
    /// Why not all files came; empty if they did.
    pub reason: String,
}

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
pub fn write(to: &mut dyn Write, spec: &Spec, row: &RuleRow) -> io::Result<()> {
    let link = &spec.links[row.link];
    // In the order of COLUMNS.
    Line::new(to)
        .text(&row.id)?
        .text(&spec.workloads[row.workload].name)?
        .text(&link.source)?
        .text(&link.destination)?
        .number(row.files)?
        .number(row.bytes)?
        .time(Some(row.asked))?
        .time(row.answered)?
        .time(Some(row.ended))?
        .text(row.end.as_str())?
        .text(&row.reason)?
        .end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, spec: &Spec, mut take: impl FnMut(&RuleRow)) -> Result<Option<ReadError>, ReadError> {
    let links = spec.numbers();
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(&row(fields, spec, &links)?);
        Ok(())
    });
    Ok(outcome.err())
}

fn row(fields: &Fields<'_>, spec: &Spec, links: &BTreeMap<(&str, &str), usize>) -> Result<RuleRow, String> {
    let name = fields.text("workload");
    let workload = spec.workloads.iter().position(|workload| workload.name == name);
    let ends = (fields.text("source"), fields.text("destination"));
    Ok(RuleRow {
        id: fields.text("rule_id").to_owned(),
        workload: workload.ok_or_else(|| format!("the challenge has no workload {name}"))?,
        link: *links
            .get(&ends)
            .ok_or_else(|| format!("the challenge has no link {} -> {}", ends.0, ends.1))?,
        files: fields.number("files")?,
        bytes: fields.number("bytes")?,
        asked: fields.moment("asked_s")?,
        answered: fields.time("answered_s")?,
        ended: fields.moment("ended_s")?,
        end: fields.word("state", RuleEnd::parse)?.ok_or("state: is empty")?,
        reason: fields.text("message").to_owned(),
    })
}

/// Accounts for deletions.
#[derive(Debug, Clone, Default)]
pub struct Deletions {
    due: u64,
    done: u64,
    late: u64,
    repeated: Option<u64>,
    delays: Quantiles,
}

impl Deletions {
    /// A delivered copy lost its rule.
    pub fn due(&mut self) {
        self.due += 1;
    }

    /// It was seen to be gone so long after that.
    pub fn done(&mut self, after: Duration) {
        self.done += 1;
        self.late += u64::from(after > LATE);
        self.delays.add(nanos(after));
    }

    /// A copy was deleted again that was gone.
    pub fn repeated(&mut self) {
        *self.repeated.get_or_insert(0) += 1;
    }

    /// The report; `None` if nothing was due.
    pub fn report(&self) -> Option<DeletionReport> {
        (self.due > 0).then(|| DeletionReport {
            due: self.due,
            done: self.done,
            late: self.late + (self.due - self.done),
            repeated: self.repeated,
            delay_s: self.delays.percentiles(seconds),
        })
    }
}

/// Accounts for rules and the rooms that their files pass.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    counts: BTreeMap<RuleEnd, u64>,
    to_ok: Quantiles,
    rooms: [Quantiles; 5],
    stuck: Vec<StuckRule>,
}

impl Chain {
    /// Accounts for a rule whose last file has ended.
    pub fn add_rule(&mut self, row: &RuleRow, spec: &Spec) {
        *self.counts.entry(row.end).or_default() += 1;
        if row.end == RuleEnd::Ok {
            self.to_ok.add(nanos(row.ended.saturating_sub(row.asked)));
        }
        let is_named = matches!(row.end, RuleEnd::Incomplete | RuleEnd::Refused);
        if is_named && self.stuck.len() < NAMED {
            let link = &spec.links[row.link];
            self.stuck.push(StuckRule {
                rule: row.id.clone(),
                source: link.source.clone(),
                destination: link.destination.clone(),
                files: row.files,
                reason: row.reason.clone(),
            });
        }
    }

    /// Accounts for a file that came.
    pub fn add(&mut self, transfer: &Transfer) {
        let Some(stages) = transfer.stages.filter(|_| transfer.state == State::Finished) else {
            return;
        };
        let copied = transfer.started.map(|_| transfer.ended);
        let borders = [
            Some(stages.asked),
            stages.requested,
            stages.submitted,
            transfer.started,
            copied,
            stages.locked,
        ];
        for (room, border) in self.rooms.iter_mut().zip(borders.windows(2)) {
            if let [Some(from), Some(to)] = border {
                room.add(nanos(to.saturating_sub(*from)));
            }
        }
    }

    /// From the question to the last lock that was OK: the time that 95 % of the rules did not exceed, in seconds.
    pub fn rule_to_ok_p95(&self) -> Option<f64> {
        self.to_ok.quantile(95).map(seconds)
    }

    /// The report; `None` if no rule was asked for.
    pub fn report(&self, deletions: Option<DeletionReport>) -> Option<ChainReport> {
        let count = |end| self.counts.get(&end).copied().unwrap_or_default();
        let all: u64 = self.counts.values().sum();
        let room = |at: usize| self.rooms[at].percentiles(seconds);
        (all > 0).then(|| ChainReport {
            rules: all - count(RuleEnd::Refused),
            ok: count(RuleEnd::Ok),
            incomplete: count(RuleEnd::Incomplete),
            refused: count(RuleEnd::Refused),
            rule_to_ok_s: self.to_ok.percentiles(seconds),
            rooms: Rooms {
                evaluation_s: room(0),
                submission_s: room(1),
                queue_s: room(2),
                copy_s: room(3),
                completion_s: room(4),
            },
            stuck: self.stuck.clone(),
            deletions,
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::Stages;

    #[test]
    fn the_rooms_add_up_to_the_time_of_a_file() {
        // Wrong: the report blames the queue for a delay of the catalogue.
        let at = |millis| Some(Duration::from_millis(millis));
        let transfer = Transfer {
            workload: 0,
            link: 0,
            cell: None,
            size: 1,
            state: State::Finished,
            mode: None,
            injected: Duration::ZERO,
            late: Duration::ZERO,
            started: at(400),
            ended: Duration::from_millis(900),
            first_byte: None,
            waits: None,
            bytes_moved: 1,
            counted: None,
            retries: 0,
            stages: Some(Stages {
                asked: Duration::from_millis(100),
                requested: at(150),
                submitted: at(250),
                locked: at(1_300),
            }),
            failure: None,
        };
        let mut chain = Chain::default();
        chain.add(&transfer);
        chain.add(&Transfer {
            state: State::Failed,
            ..transfer
        });
        let median = |at: usize| chain.rooms[at].quantile(50).map(|nanos| nanos / 1_000_000);
        let all: Vec<Option<u64>> = (0..5).map(median).collect();
        assert_eq!(all, [50, 100, 150, 500, 400].map(Some));
    }

    #[test]
    fn a_copy_that_is_still_there_at_the_end_is_late() {
        // Wrong: a catalogue that deletes nothing has no late deletion.
        let mut deletions = Deletions::default();
        assert_eq!(deletions.report(), None);
        (0..4).for_each(|_| deletions.due());
        deletions.done(Duration::from_secs(1));
        deletions.done(LATE + Duration::from_millis(1));
        let report = deletions.report();
        let counts = report.map(|report| (report.due, report.done, report.late));
        assert_eq!(counts, Some((4, 2, 3)));
    }
}
