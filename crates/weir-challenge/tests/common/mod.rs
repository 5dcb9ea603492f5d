//! Runs small challenges on an embedded grid, and reads what they leave.
#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test may fail by panicking, and no test file uses everything"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_challenge::{Options, Progress, RunOutcome, Silent, Stop};
use weir_plan::{Challenge, Overrides};

/// A row of a CSV file by the names of its columns.
pub(crate) type Row = BTreeMap<String, String>;

/// The files that a run left.
pub(crate) struct Run {
    /// Holds the run folder.
    pub(crate) directory: tempfile::TempDir,
    pub(crate) outcome: RunOutcome,
    pub(crate) transfers: Vec<Row>,
    pub(crate) ledger: Vec<Row>,
}

/// Two RSEs, or more, and how a test wants them.
pub(crate) fn grid(rses: &str) -> String {
    format!("[grid]\nname = \"test\"\n[grid.storage]\nquota = \"1 GB\"\ndurability = \"cache\"\n{rses}\n")
}

/// Runs a challenge; `stop` is called with every update and may stop the run.
pub(crate) fn run_watched(text: &str, audit: Option<f64>, keep: bool, progress: Arc<dyn Progress>, stop: Stop) -> Run {
    let directory = tempfile::tempdir().unwrap();
    let challenge = Challenge::parse(text, "test.toml".as_ref());
    let challenge = challenge.unwrap_or_else(|problems| panic!("{}", problems[0]));
    let plan = challenge.resolve(&Overrides::default()).unwrap();
    let options = Options {
        out: directory.path().join("runs"),
        keep,
        audit,
        command: "weir challenge run test.toml".to_owned(),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(weir_challenge::run(plan, options, progress, stop));
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    let read = |name: &str| csv(&outcome.folder.join(name));
    Run {
        transfers: read("transfers.csv"),
        ledger: read("ledger.csv"),
        outcome,
        directory,
    }
}

/// Runs a challenge to its end.
pub(crate) fn run(text: &str) -> Run {
    run_watched(text, None, false, Arc::new(Silent), Stop::default())
}

/// Reads a CSV file whose fields hold no line breaks.
pub(crate) fn csv(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(fields);
    let heading = lines.next().unwrap();
    lines
        .map(|fields| {
            assert_eq!(fields.len(), heading.len(), "{fields:?}");
            heading.iter().cloned().zip(fields).collect()
        })
        .collect()
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quoted) {
            ('"', true) if letters.peek() == Some(&'"') => field.push(letters.next().unwrap()),
            ('"', _) => quoted = !quoted,
            (',', false) => fields.push(std::mem::take(&mut field)),
            _ => field.push(letter),
        }
    }
    fields.push(field);
    fields
}

/// Adds up a column over the rows that a test picks.
pub(crate) fn sum(rows: &[Row], column: &str, pick: impl Fn(&Row) -> bool) -> u64 {
    rows.iter()
        .filter(|row| pick(row))
        .map(|row| row[column].parse::<u64>().unwrap())
        .sum()
}

/// Lists all files below a directory.
pub(crate) fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
