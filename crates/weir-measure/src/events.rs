//! `events.csv`: the events of a run, written as they occur; the report has the same list in order of time.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::csv::{Line, heading};
use crate::read::{ReadError, Rows};
use crate::report::Event;

/// Name of the file in a run folder.
pub const FILE: &str = "events.csv";

/// The columns.
const COLUMNS: [&str; 2] = ["t_s", "text"];

/// Writes the heading.
///
/// # Errors
/// The writer fails.
pub fn begin(to: &mut dyn Write) -> io::Result<()> {
    heading(to, &COLUMNS)
}

/// Writes a row.
///
/// # Errors
/// The writer fails.
pub fn write(to: &mut dyn Write, event: &Event) -> io::Result<()> {
    let at = Duration::try_from_secs_f64(event.t_s).unwrap_or_default();
    Line::new(to).time(Some(at))?.text(&event.text)?.end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, mut take: impl FnMut(Event)) -> Result<Option<ReadError>, ReadError> {
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(Event {
            t_s: fields.moment("t_s")?.as_secs_f64(),
            text: fields.text("text").to_owned(),
        });
        Ok(())
    });
    Ok(outcome.err())
}
