//! `signals.csv`: the waits of the transfers of each link, as a run reads them from its services.

use std::io::{self, Read, Write};
use std::time::Duration;

use weir_world::{ErrorClass, Party, Place, Wait};

use crate::csv::{Line, heading};
use crate::read::{Fields, ReadError, Rows};
use crate::spec::Spec;

/// Name of the file in a run folder.
pub const FILE: &str = "signals.csv";

/// The columns.
const COLUMNS: [&str; 8] = [
    "from_s",
    "to_s",
    "source",
    "destination",
    "state",
    "place",
    "waited_s",
    "attempts",
];

/// The word for slots that are held, in place of a state.
const HELD: &str = "held";
/// The begin of the word for attempts that failed, before class and party: `failed:token@issuer`.
const FAILED: &str = "failed:";

/// A row: the time that transfers of a link spent in a state, or held slots, between two moments, which count from the start of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalRow {
    /// The moments.
    pub span: (Duration, Duration),
    /// Index into [`Spec::links`].
    pub link: usize,
    /// The state; `None` for the time of slots at the place, and for failures.
    pub wait: Option<Wait>,
    /// Attempts that failed: class, party, and their number.
    pub failed: Option<(ErrorClass, Party, u64)>,
    /// The place, where it is known.
    pub place: Option<Place>,
    /// Sum over the transfers. Zero says that the phase of the state is measured, whether or not anything waits in it.
    pub time: Duration,
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
pub fn write(to: &mut dyn Write, spec: &Spec, row: &SignalRow) -> io::Result<()> {
    let link = &spec.links[row.link];
    let place = row.place.as_ref().map(Place::to_string);
    let state = match row.failed {
        Some((class, party, _)) => format!("{FAILED}{class}@{party}"),
        None => row.wait.map_or(HELD, Wait::as_str).to_owned(),
    };
    // In the order of COLUMNS.
    Line::new(to)
        .time(Some(row.span.0))?
        .time(Some(row.span.1))?
        .text(&link.source)?
        .text(&link.destination)?
        .text(&state)?
        .text(place.as_deref().unwrap_or_default())?
        .time(Some(row.time))?
        .count(row.failed.map(|(.., attempts)| attempts))?
        .end()
}

/// Reads rows back and hands each over; returns where they stopped being readable, if they did.
///
/// # Errors
/// The file has other columns.
pub fn read(from: impl Read, spec: &Spec, mut take: impl FnMut(&SignalRow)) -> Result<Option<ReadError>, ReadError> {
    let links = spec.numbers();
    let rows = Rows::of(FILE, &COLUMNS, from)?;
    let outcome = rows.each(|fields| {
        let ends = (fields.text("source"), fields.text("destination"));
        let link = links.get(&ends).copied();
        let link = link.ok_or_else(|| format!("the challenge has no link {} -> {}", ends.0, ends.1))?;
        take(&row(fields, link)?);
        Ok(())
    });
    Ok(outcome.err())
}

fn row(fields: &Fields<'_>, link: usize) -> Result<SignalRow, String> {
    let failed = fields.text("state").strip_prefix(FAILED).map(|failure| {
        let (class, party) = failure.split_once('@').unwrap_or((failure, ""));
        let parsed = ErrorClass::parse(class).zip(Party::parse(party));
        let (class, party) = parsed.ok_or_else(|| format!("state: {failure} is no class at a party"))?;
        Ok::<_, String>((class, party, fields.count("attempts")?.unwrap_or_default()))
    });
    Ok(SignalRow {
        span: (fields.moment("from_s")?, fields.moment("to_s")?),
        link,
        failed: failed.transpose()?,
        wait: match fields.text("state") {
            HELD => None,
            word if word.starts_with(FAILED) => None,
            _ => Some(fields.word("state", Wait::parse)?.ok_or("state: is empty")?),
        },
        place: fields.word("place", Place::parse)?,
        time: fields.moment("waited_s")?,
    })
}
