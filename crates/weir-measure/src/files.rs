//! `files.csv`: every file that a run creates at a storage, and every one that it deletes.

use std::io::{self, Read, Write};

use weir_units::Checksum;

use crate::csv::{Line, heading};
use crate::read::{ReadError, Rows};

/// Name of the file in a run folder.
pub const FILE: &str = "files.csv";

/// The columns.
const COLUMNS: [&str; 5] = ["event", "rse", "path", "size_bytes", "checksum"];

/// An event in the life of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The run was about to make it, or came to know its checksum.
    Made,
    /// The run deleted it, or found that it was not there.
    Deleted,
}

impl Happened {
    /// The word used in rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Made => "make",
            Self::Deleted => "delete",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Made, Self::Deleted]
            .into_iter()
            .find(|happened| happened.as_str() == text)
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow<'a> {
    /// The event.
    pub happened: Happened,
    /// The RSE.
    pub rse: &'a str,
    /// Where the file is, below the RSE's base.
    pub path: &'a str,
    /// Its size in bytes; zero for a deletion.
    pub size: u64,
    /// Its checksum; none where it is not known.
    pub checksum: Option<Checksum>,
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
pub fn write(to: &mut dyn Write, row: &FileRow<'_>) -> io::Result<()> {
    // In the order of COLUMNS.
    Line::new(to)
        .text(row.happened.as_str())?
        .text(row.rse)?
        .text(row.path)?
        .number(row.size)?
        .text(&row.checksum.as_ref().map_or_else(String::new, Checksum::to_string))?
        .end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, mut take: impl FnMut(&FileRow<'_>)) -> Result<Option<ReadError>, ReadError> {
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        take(&FileRow {
            happened: fields.word("event", Happened::parse)?.ok_or("event: is empty")?,
            rse: fields.text("rse"),
            path: fields.text("path"),
            size: fields.number("size_bytes")?,
            checksum: fields.word("checksum", |text| text.parse().ok())?,
        });
        Ok(())
    });
    Ok(outcome.err())
}
