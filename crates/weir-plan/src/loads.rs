//! Load plans in the CSV form of `dc_inject`, the script that injected rules in the data challenges of 2021 and 2024.
//!
//! The columns and their defaults are those of the script's port to Rucio (pull request 7606, April 2025). They are `src-rse`, `dest-rse`,
//! `inject-rate` in Mb/s, `start`, `end`, `interval`, `fudge`, `max-injection`, `expiration-delay`, `rule-lifetime` in seconds, `big-first`,
//! `dry-run`, `comments`. One default differs: without `dry-run` a load injects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;

use serde::Serialize;
use weir_model::{Problem, file::nearest};
use weir_units::Timestamp;

/// A load as a catalogue is asked for it (`POST /loads`).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadPlan {
    /// The RSE that holds the files.
    pub source: String,
    /// The RSE that gets them.
    pub destination: String,
    /// Bits per second.
    pub rate: u64,
    /// When it starts, as RFC 3339; `None`: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// When it ends; `None`: after `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Seconds from start to end, where no end is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// Seconds from one cycle to the next.
    pub interval: u64,
    /// The share of the rate that is asked for in addition.
    pub fudge: f64,
    /// The share by which a cycle may exceed its target.
    pub max_injection: f64,
    /// Seconds after the end of its rule in which a file takes no part.
    pub cooldown: u64,
    /// Seconds that a rule lives.
    pub lifetime: u64,
    /// Whether large files go first.
    pub big_first: bool,
    /// Whether no rules are made.
    pub dry_run: bool,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A column: its names, of which the first one is shown.
type Column = &'static [&'static str];

const SOURCE: Column = &["src-rse", "src"];
const DESTINATION: Column = &["dest-rse", "dest", "dst"];
const RATE: Column = &["inject-rate", "rate", "mbps"];
const START: Column = &["start"];
const END: Column = &["end"];
const INTERVAL: Column = &["interval"];
const FUDGE: Column = &["fudge"];
const OVERSHOOT: Column = &["max-injection"];
const COOLDOWN: Column = &["expiration-delay"];
const LIFETIME: Column = &["rule-lifetime"];
const BIG_FIRST: Column = &["big-first"];
const DRY_RUN: Column = &["dry-run"];
const COMMENT: Column = &["comments", "comment"];

const COLUMNS: [Column; 13] = [
    SOURCE,
    DESTINATION,
    RATE,
    START,
    END,
    INTERVAL,
    FUDGE,
    OVERSHOOT,
    COOLDOWN,
    LIFETIME,
    BIG_FIRST,
    DRY_RUN,
    COMMENT,
];

/// The highest rate in Mb/s: 1 Tb/s. More was meant in another unit.
const MBPS_MAX: f64 = 1_000_000.0;

/// The time that a load without an end lasts, in seconds.
const DURATION: u64 = 7_200;

/// Loads of one file at most.
const LOADS_MAX: usize = 10_000;

/// More problems than these are not listed.
const PROBLEMS_MAX: usize = 50;

/// Reads a file of loads. `rses` are the names of the catalogue's RSEs. `now` is the start of loads that have none.
///
/// # Errors
/// All that is wrong, each with line and column.
pub fn read_csv(
    text: &str,
    file: &Path,
    rses: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Vec<LoadPlan>, Vec<Problem>> {
    let mut reader = Reader {
        file,
        rses,
        now,
        columns: BTreeMap::new(),
        problems: Vec::new(),
    };
    let loads = reader.loads(text);
    let mut problems = reader.problems;
    if problems.is_empty() {
        return Ok(loads);
    }
    problems.truncate(PROBLEMS_MAX);
    Err(problems)
}

/// A row of the file.
struct Row<'a> {
    line: usize,
    cells: &'a csv::StringRecord,
}

struct Reader<'a> {
    file: &'a Path,
    rses: &'a BTreeSet<String>,
    now: Timestamp,
    /// Where each column is, by its first name.
    columns: BTreeMap<&'static str, usize>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn problem(&mut self, line: usize, column: Option<Column>, message: String, remedy: &str) {
        let key = column.map_or_else(String::new, |column| match self.columns.get(column[0]) {
            Some(at) => format!("column {} ({})", at + 1, column[0]),
            None => column[0].to_owned(),
        });
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line: Some(line),
            key,
            message,
            remedy: remedy.to_owned(),
        });
    }

    fn loads(&mut self, text: &str) -> Vec<LoadPlan> {
        let mut rows = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
        match rows.headers() {
            Ok(header) => {
                let header = header.clone();
                self.header(&header);
            }
            Err(error) => self.problem(1, None, error.to_string(), "write the file as CSV in UTF-8"),
        }
        if !self.problems.is_empty() {
            return Vec::new();
        }
        let (mut loads, mut of_links) = (Vec::<LoadPlan>::new(), OfLinks::new());
        for cells in rows.records() {
            match cells {
                Ok(cells) => {
                    let line = cells.position().map_or(0, |position| position.line() as usize);
                    if let Some(load) = self.load(&Row { line, cells: &cells }) {
                        self.again(&load, line, &mut of_links);
                        loads.push(load);
                    }
                }
                Err(error) => {
                    let line = error.position().map_or(0, |position| position.line() as usize);
                    let message = match error.kind() {
                        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                            format!("the row has {len} cells, the header {expected_len}")
                        }
                        _ => error.to_string(),
                    };
                    self.problem(line, None, message, "give every row a cell for each column");
                }
            }
            if self.problems.len() > PROBLEMS_MAX || loads.len() > LOADS_MAX {
                break;
            }
        }
        if loads.is_empty() && self.problems.is_empty() {
            self.problem(1, None, "the file has no load".to_owned(), "write a row for each link");
        } else if loads.len() > LOADS_MAX {
            self.problem(
                1,
                None,
                format!("the file has more than {LOADS_MAX} loads"),
                "divide it",
            );
        }
        loads
    }

    fn header(&mut self, header: &csv::StringRecord) {
        for (at, name) in header.iter().enumerate() {
            let plain = name.to_lowercase().replace(['_', ' '], "-");
            let known = COLUMNS.iter().find(|column| column.contains(&plain.as_str()));
            let key = format!("column {}", at + 1);
            let (message, remedy) = match known {
                Some(column) if self.columns.insert(column[0], at).is_none() => continue,
                Some(column) => (
                    format!("{name:?} is {} again", column[0]),
                    "keep one of them".to_owned(),
                ),
                None => {
                    let names = COLUMNS.map(|column| column[0]).join(", ");
                    (format!("there is no column {name:?}"), format!("name one of {names}"))
                }
            };
            self.problems.push(Problem {
                file: self.file.to_owned(),
                line: Some(1),
                key,
                message,
                remedy,
            });
        }
        for column in [SOURCE, DESTINATION] {
            if !self.columns.contains_key(column[0]) && self.problems.is_empty() {
                self.problem(
                    1,
                    Some(column),
                    "the column is missing".to_owned(),
                    "add it: a load is about a link",
                );
            }
        }
    }

    fn cell<'r>(&self, row: &Row<'r>, column: Column) -> Option<&'r str> {
        let at = self.columns.get(column[0])?;
        row.cells.get(*at).filter(|cell| !cell.is_empty())
    }

    fn rse(&mut self, row: &Row<'_>, column: Column) -> String {
        let Some(name) = self.cell(row, column) else {
            self.problem(row.line, Some(column), "the RSE is missing".to_owned(), "name it");
            return String::new();
        };
        if !self.rses.contains(name) {
            let remedy = match nearest(name, self.rses.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "see `rucio rse list` for the existing ones".to_owned(),
            };
            self.problem(
                row.line,
                Some(column),
                format!("the catalogue has no RSE {name:?}"),
                &remedy,
            );
        }
        name.to_owned()
    }

    /// A number between bounds; the default where the cell is empty.
    fn number<T>(&mut self, row: &Row<'_>, column: Column, default: T, (least, most): (T, T), unit: &str) -> T
    where
        T: FromStr + PartialOrd + Copy + std::fmt::Display,
    {
        let Some(cell) = self.cell(row, column) else {
            return default;
        };
        match cell.parse::<T>() {
            Ok(number) if least <= number && number <= most => number,
            Ok(_) => {
                let remedy = format!("give from {least} to {most}{unit}");
                self.problem(row.line, Some(column), format!("{cell} is out of bounds"), &remedy);
                default
            }
            Err(_) => {
                let remedy = format!("give a number from {least} to {most}{unit}");
                self.problem(
                    row.line,
                    Some(column),
                    format!("{cell:?} is no number that fits"),
                    &remedy,
                );
                default
            }
        }
    }

    fn flag(&mut self, row: &Row<'_>, column: Column) -> bool {
        match self.cell(row, column).map(str::to_lowercase).as_deref() {
            None | Some("false" | "no" | "0" | "n" | "f") => false,
            Some("true" | "yes" | "1" | "y" | "t") => true,
            Some(other) => {
                self.problem(
                    row.line,
                    Some(column),
                    format!("{other:?} is neither true nor false"),
                    "give one of them",
                );
                false
            }
        }
    }

    fn moment(&mut self, row: &Row<'_>, column: Column) -> Option<Timestamp> {
        let cell = self.cell(row, column)?;
        let read = moment(cell);
        if read.is_none() {
            let remedy = "write it in UTC, such as 2026-11-28T12:00:00Z";
            self.problem(row.line, Some(column), format!("{cell:?} is no time"), remedy);
        }
        read
    }

    fn load(&mut self, row: &Row<'_>) -> Option<LoadPlan> {
        let before = self.problems.len();
        let (source, destination) = (self.rse(row, SOURCE), self.rse(row, DESTINATION));
        if source == destination && !source.is_empty() {
            let message = format!("{source} is the source too");
            self.problem(row.line, Some(DESTINATION), message, "name another RSE");
        }
        let mbps = self.number(row, RATE, 200.0, (0.001, MBPS_MAX), " Mb/s");
        let (start, end) = (self.moment(row, START), self.moment(row, END));
        if end.is_some_and(|end| end <= start.unwrap_or(self.now) || end <= self.now) {
            let message = "the end is before the start, or has gone by".to_owned();
            self.problem(row.line, Some(END), message, "give a later time");
        }
        let whole = |at: Timestamp| at.rfc3339().replace(".000Z", "Z");
        let load = LoadPlan {
            source,
            destination,
            rate: (mbps * 1e6).round() as u64,
            start: start.map(whole),
            end: end.map(whole),
            duration: end.is_none().then_some(DURATION),
            interval: self.number(row, INTERVAL, 900, (1, 86_400), " s"),
            fudge: self.number(row, FUDGE, 0.0, (0.0, 1.0), ""),
            max_injection: self.number(row, OVERSHOOT, 0.2, (0.0, 10.0), ""),
            cooldown: self.number(row, COOLDOWN, 1_800, (0, 7 * 86_400), " s"),
            lifetime: self.number(row, LIFETIME, 3_600, (1, 7 * 86_400), " s"),
            big_first: self.flag(row, BIG_FIRST),
            dry_run: self.flag(row, DRY_RUN),
            comment: self.cell(row, COMMENT).map(str::to_owned),
        };
        (self.problems.len() == before).then_some(load)
    }

    /// A link has one load at a time.
    fn again(&mut self, load: &LoadPlan, line: usize, of_links: &mut OfLinks) {
        let read = |text: &Option<String>| text.as_deref().and_then(Timestamp::parse_rfc3339);
        let start = read(&load.start).unwrap_or(self.now);
        let end = read(&load.end).unwrap_or(start + std::time::Duration::from_secs(DURATION));
        let others = of_links
            .entry((load.source.clone(), load.destination.clone()))
            .or_default();
        let other = others.iter().find(|other| other.start < end && other.end > start);
        let message = other.map(|other| {
            let (source, destination) = (&load.source, &load.destination);
            format!(
                "{source} → {destination} has a load at that time in line {}",
                other.line
            )
        });
        others.push(Span { start, end, line });
        if let Some(message) = message {
            let remedy = "have one begin when the other has ended";
            self.problem(line, Some(DESTINATION), message, remedy);
        }
    }
}

/// The times of the loads that were read, by source and destination.
type OfLinks = BTreeMap<(String, String), Vec<Span>>;

/// The time of a load, with its line.
struct Span {
    start: Timestamp,
    end: Timestamp,
    line: usize,
}

/// A time in UTC: RFC 3339, with a space for the `T`, without the seconds or the `Z`; or seconds since 1970.
fn moment(text: &str) -> Option<Timestamp> {
    if text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(1_000_000_000).map(Timestamp);
    }
    let plain = text.trim_end_matches('Z').replacen(' ', "T", 1);
    let seconds = if plain.matches(':').count() == 1 { ":00" } else { "" };
    Timestamp::parse_rfc3339(&format!("{plain}{seconds}Z"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<LoadPlan>, Vec<String>> {
        let rses = ["CERN-PROD", "RAL-LCG2", "NDGF-T1"].map(str::to_owned).into();
        let now = Timestamp::parse_rfc3339("2026-11-28T10:00:00Z").unwrap();
        let problems = |all: Vec<Problem>| all.iter().map(ToString::to_string).collect();
        read_csv(text, "loads.csv".as_ref(), &rses, now).map_err(problems)
    }

    #[test]
    fn a_file_of_the_script_is_read_as_it_is() {
        let text = "src,dst,Mbps,start,end,interval,fudge,max_injection,expiration_delay,rule_lifetime,big_first,dry_run,comments\n\
            CERN-PROD,RAL-LCG2,12500.5,2026-11-29 08:00,2026-11-29T10:00:00,900,0.1,0.3,600,7200,True,,\"T0, export\"\n\
            # a remark\nRAL-LCG2,NDGF-T1,,,,,,,,,,yes,\n";
        let loads = read(text).unwrap();
        let first = &loads[0];
        assert_eq!(
            (first.rate, first.fudge, first.max_injection),
            (12_500_500_000, 0.1, 0.3)
        );
        assert_eq!((first.interval, first.cooldown, first.lifetime), (900, 600, 7200));
        assert_eq!(first.start.as_deref(), Some("2026-11-29T08:00:00Z"));
        assert_eq!(
            (first.end.as_deref(), first.duration),
            (Some("2026-11-29T10:00:00Z"), None)
        );
        assert!(first.big_first && !first.dry_run && first.comment.as_deref() == Some("T0, export"));
        let second = &loads[1];
        assert_eq!(
            (second.rate, second.interval, second.lifetime),
            (200_000_000, 900, 3600),
            "the script's defaults"
        );
        assert_eq!(
            (second.cooldown, second.duration, second.dry_run),
            (1800, Some(7200), true)
        );
    }

    #[test]
    fn a_fault_is_named_with_line_column_and_remedy() {
        let text = "src-rse,dest-rse,rate,end,rule-lifetime,big-first\n\
            CERN-PROD,RAL-LCG,100,,,\nCERN-PROD,RAL-LCG2,-5,,,\nCERN-PROD,RAL-LCG2,1e12,,,\nCERN-PROD,,fast,tomorrow,9999999,maybe\n\
            NDGF-T1,NDGF-T1,1,2020-01-01T00:00:00Z,,\nCERN-PROD,RAL-LCG2,1,,\nCERN-PROD,RAL-LCG2,nan,,,\n";
        let expected = [
            "loads.csv:2: column 2 (dest-rse): the catalogue has no RSE \"RAL-LCG\"; did you mean RAL-LCG2?",
            "loads.csv:3: column 3 (inject-rate): -5 is out of bounds; give from 0.001 to 1000000 Mb/s",
            "loads.csv:4: column 3 (inject-rate): 1e12 is out of bounds; give from 0.001 to 1000000 Mb/s",
            "loads.csv:5: column 2 (dest-rse): the RSE is missing; name it",
            "loads.csv:5: column 3 (inject-rate): \"fast\" is no number that fits; give a number from 0.001 to 1000000 Mb/s",
            "loads.csv:5: column 4 (end): \"tomorrow\" is no time; write it in UTC, such as 2026-11-28T12:00:00Z",
            "loads.csv:5: column 5 (rule-lifetime): 9999999 is out of bounds; give from 1 to 604800 s",
            "loads.csv:5: column 6 (big-first): \"maybe\" is neither true nor false; give one of them",
            "loads.csv:6: column 2 (dest-rse): NDGF-T1 is the source too; name another RSE",
            "loads.csv:6: column 4 (end): the end is before the start, or has gone by; give a later time",
            "loads.csv:7: the row has 5 cells, the header 6; give every row a cell for each column",
            "loads.csv:8: column 3 (inject-rate): nan is out of bounds; give from 0.001 to 1000000 Mb/s",
        ];
        assert_eq!(read(text).unwrap_err(), expected);
        let header = read("src,source,src-rse\n").unwrap_err();
        assert!(header[0].starts_with("loads.csv:1: column 2: there is no column \"source\"; name one of src-rse,"));
        assert_eq!(
            header[1],
            "loads.csv:1: column 3: \"src-rse\" is src-rse again; keep one of them"
        );
        assert!(read("src,rate\nCERN-PROD,1\n").unwrap_err()[0].contains("dest-rse: the column is missing"));
        assert!(read("src,dst\n").unwrap_err()[0].contains("the file has no load"));
        let twice = "src,dst,start,end\nCERN-PROD,RAL-LCG2,,\nRAL-LCG2,CERN-PROD,,\nCERN-PROD,RAL-LCG2,2026-11-28 11:59,2026-11-29 00:00\n";
        let twice = read(twice).unwrap_err();
        assert_eq!(twice.len(), 1);
        assert!(
            twice[0].starts_with(
                "loads.csv:4: column 2 (dest-rse): CERN-PROD → RAL-LCG2 has a load at that time in line 2"
            )
        );
    }

    proptest! {
        /// A malformed file would end the command with a panic instead of an error.
        #[test]
        fn no_text_is_a_panic(text in "(src,dst,rate,start\n)?[ -~,\n\"é]{0,200}") {
            if let Ok(loads) = read(&text) {
                prop_assert!(loads.iter().all(|load| load.rate > 0 && load.source != load.destination));
            }
        }
    }
}
