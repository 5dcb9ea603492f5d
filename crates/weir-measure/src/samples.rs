//! `series.csv`: how it stood with the transfers of a run, about once a second, and where its phases began and ended.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::csv::{Line, heading};
use crate::read::{Fields, ReadError, Rows};
use crate::snapshot::Standing;

/// Name of the file in a run folder.
pub const FILE: &str = "series.csv";

/// The columns.
const COLUMNS: [&str; 5] = ["t_s", "stage", "active", "queued", "injected_bytes"];

/// The activity of a run at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It injects.
    Injecting,
    /// Injection has ended; the first row with it is the moment at which it did.
    Draining,
    /// The last transfer has ended, or was given up.
    Over,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Stage; 3] = [Stage::Injecting, Stage::Draining, Stage::Over];

    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Injecting => "inject",
            Self::Draining => "drain",
            Self::Over => "over",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// A row. The moment counts from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken.
    pub at: Duration,
    /// The activity of the run.
    pub stage: Stage,
    /// How it stood.
    pub standing: Standing,
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
pub fn write(to: &mut dyn Write, sample: &Sample) -> io::Result<()> {
    // In the order of COLUMNS.
    Line::new(to)
        .time(Some(sample.at))?
        .text(sample.stage.as_str())?
        .number(sample.standing.active)?
        .number(sample.standing.queued)?
        .number(sample.standing.injected_bytes)?
        .end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, mut take: impl FnMut(&Sample)) -> Result<Option<ReadError>, ReadError> {
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(&sample(fields)?);
        Ok(())
    });
    Ok(outcome.err())
}

fn sample(fields: &Fields<'_>) -> Result<Sample, String> {
    Ok(Sample {
        at: fields.moment("t_s")?,
        stage: fields.word("stage", Stage::parse)?.ok_or("stage: is empty")?,
        standing: Standing {
            active: fields.number("active")?,
            queued: fields.number("queued")?,
            injected_bytes: fields.number("injected_bytes")?,
        },
    })
}
