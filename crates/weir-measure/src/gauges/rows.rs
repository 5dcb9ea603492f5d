//! `gauges.csv`: figures of hosts and storages, as a run reads them.

use std::io::{self, Read, Write};
use std::time::Duration;

use weir_world::{Gauge, Place};

use crate::csv::{Line, heading};
use crate::read::{Fields, ReadError, Rows};

/// Name of the file in a run folder.
pub const FILE: &str = "gauges.csv";

/// The columns.
const COLUMNS: [&str; 6] = ["from_s", "to_s", "gauge", "place", "value", "unit"];

/// A row: a value that held between two moments, which count from the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct GaugeRow {
    /// The moments.
    pub span: (Duration, Duration),
    /// The figure.
    pub gauge: Gauge,
    /// Where.
    pub place: Place,
    /// The value, in the unit of the gauge.
    pub value: f64,
}

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
pub fn write(to: &mut dyn Write, row: &GaugeRow) -> io::Result<()> {
    // In the order of COLUMNS.
    Line::new(to)
        .time(Some(row.span.0))?
        .time(Some(row.span.1))?
        .text(row.gauge.as_str())?
        .text(&row.place.to_string())?
        .real(row.value)?
        .text(row.gauge.unit().as_str())?
        .end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, mut take: impl FnMut(&GaugeRow)) -> Result<Option<ReadError>, ReadError> {
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(&row(fields)?);
        Ok(())
    });
    Ok(outcome.err())
}

fn row(fields: &Fields<'_>) -> Result<GaugeRow, String> {
    Ok(GaugeRow {
        span: (fields.moment("from_s")?, fields.moment("to_s")?),
        gauge: fields.word("gauge", Gauge::parse)?.ok_or("gauge: is empty")?,
        place: fields.word("place", Place::parse)?.ok_or("place: is empty")?,
        value: fields.number("value")?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use weir_world::PlaceKind;

    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let row = |value| GaugeRow {
            span: (Duration::from_millis(1_500), Duration::from_millis(11_500)),
            gauge: Gauge::Received,
            place: Place::new(PlaceKind::Server, "node1/eth0"),
            value,
        };
        let written = [row(9.87e9), row(0.0), row(1.0 / 3.0)];
        let mut text = Vec::new();
        begin(&mut text).unwrap();
        written.iter().for_each(|row| write(&mut text, row).unwrap());
        let mut found = Vec::new();
        assert_eq!(read(text.as_slice(), |row| found.push(row.clone())), Ok(None));
        assert_eq!(found, written);
        let second = String::from_utf8(text).unwrap().lines().nth(1).unwrap().to_owned();
        assert_eq!(second, "1.500000,11.500000,received,server:node1/eth0,9870000000,bit/s");
    }
}
