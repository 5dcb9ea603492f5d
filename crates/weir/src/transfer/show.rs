//! Jobs and files as text: columns, states in colour, counts, bytes.

use serde_json::Value;
use weir_fts_api::{File, Job};
use weir_units::Bytes;

use crate::output::Output;

const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";

/// A state, padded, in its colour.
pub(super) fn state(state: &str, width: usize, output: &Output) -> String {
    let padded = format!("{state:width$}");
    let color = match state {
        "FINISHED" => GREEN,
        "FAILED" | "FINISHEDDIRTY" => RED,
        "CANCELED" => YELLOW,
        _ => return padded,
    };
    if output.color() {
        format!("\x1b[{color}m{padded}\x1b[0m")
    } else {
        padded
    }
}

/// Whether nothing changes any more.
pub(super) fn is_terminal(state: &str) -> bool {
    matches!(state, "FINISHED" | "FAILED" | "FINISHEDDIRTY" | "CANCELED")
}

/// The id of a job.
pub(super) fn id(job: &Job<'_>) -> String {
    job.job_id.map(|id| id.to_string()).unwrap_or_default()
}

fn state_of<'a>(file: &'a File<'_>) -> &'a str {
    file.file_state.as_deref().unwrap_or_default()
}

/// A text of an object; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// How a job's files stand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(super) struct Tally {
    pub(super) files: u64,
    pub(super) finished: u64,
    pub(super) failed: u64,
    pub(super) canceled: u64,
    pub(super) active: u64,
    /// Hops whose turn has not come, or never will.
    pub(super) unused: u64,
    /// Bytes of finished files, and reported progress of the others.
    pub(super) bytes: u64,
    /// As far as sizes are known.
    pub(super) bytes_total: u64,
}

impl Tally {
    pub(super) fn of(files: &[File<'_>]) -> Self {
        let mut tally = Self::default();
        for file in one_of_each(files) {
            let size = file.filesize.or(file.user_filesize).unwrap_or(0);
            let moved = file.weir.as_ref().and_then(|weir| weir.bytes_moved);
            let moved = moved.or(file.transferred).unwrap_or(0);
            tally.files += 1;
            tally.bytes_total += size;
            tally.bytes += if state_of(file) == "FINISHED" {
                size
            } else {
                moved.min(size)
            };
            match state_of(file) {
                "FINISHED" => tally.finished += 1,
                "FAILED" => tally.failed += 1,
                "CANCELED" => tally.canceled += 1,
                "ACTIVE" => tally.active += 1,
                "NOT_USED" => tally.unused += 1,
                _ => {}
            }
        }
        tally
    }

    /// `12 of 20 finished, 1 failed, 3 active, 4 waiting; 1.2 GB of 2 GB`
    pub(super) fn sentence(&self) -> String {
        let waiting = self.files - self.finished - self.failed - self.canceled - self.active - self.unused;
        let mut words = vec![format!("{} of {} finished", self.finished, self.files)];
        for (count, word) in [
            (self.failed, "failed"),
            (self.canceled, "cancelled"),
            (self.active, "active"),
            (waiting, "waiting"),
            (self.unused, "not used"),
        ] {
            if count > 0 {
                words.push(format!("{count} {word}"));
            }
        }
        let bytes = if self.bytes_total > 0 {
            format!("; {} of {}", Bytes(self.bytes), Bytes(self.bytes_total))
        } else {
            String::new()
        };
        format!("{}{bytes}", words.join(", "))
    }

    /// From 0 to 1: by bytes where sizes are known, else by files.
    pub(super) fn share(&self) -> f64 {
        let ended = self.finished + self.failed + self.canceled;
        match (self.bytes_total, self.files) {
            _ if ended == self.files => 1.0,
            (0, 0) => 0.0,
            (0, files) => ended as f64 / files as f64,
            (total, _) => self.bytes as f64 / total as f64,
        }
    }
}

/// Each file once: of several sources of one, that which tells most of how the file stands.
fn one_of_each<'a>(files: &'a [File<'a>]) -> impl Iterator<Item = &'a File<'a>> {
    let rank = |file: &File<'_>| match state_of(file) {
        "FINISHED" => 0,
        "ACTIVE" => 1,
        "FAILED" => 3,
        "CANCELED" => 4,
        "NOT_USED" => 5,
        _ => 2,
    };
    let mut best: Vec<&File<'_>> = Vec::new();
    for file in files {
        match best.last_mut() {
            Some(last) if file.file_index.is_some() && last.file_index == file.file_index => {
                if rank(file) < rank(last) {
                    *last = file;
                }
            }
            _ => best.push(file),
        }
    }
    best.into_iter()
}

/// Sources and hops shown without being asked for: more fill the screen.
const ROUTE_SHOWN: usize = 20;

/// The lines of a job: itself, and files that are not simply finished, or all. Of sources and hops, it matters which they are.
pub(super) fn job(job: &Job<'_>, all: bool, output: &Output) {
    let files = job.files.as_deref().unwrap_or_default();
    let head = format!(
        "{}  {}  {}",
        id(job),
        state(job.job_state.as_deref().unwrap_or_default(), 0, output),
        Tally::of(files).sentence()
    );
    output.line(head);
    let priority = job.priority.map(|priority| priority.to_string());
    let more = [(job.submit_time, "submitted"), (job.job_finished, "ended")];
    let times = more
        .iter()
        .filter_map(|(time, word)| Some(format!("{word} {}Z", (*time)?)));
    output.line(format!(
        "  priority {}, {}",
        priority.as_deref().unwrap_or("unknown"),
        times.collect::<Vec<_>>().join(", ")
    ));
    let route = matches!(job.job_type.as_deref(), Some("R" | "H"));
    let all = all || (route && files.len() <= ROUTE_SHOWN);
    for file in files {
        if all || (state_of(file) != "FINISHED" && !reason(file).is_empty()) {
            file_lines(file, route, output);
        }
    }
}

fn reason<'a>(file: &'a File<'_>) -> &'a str {
    file.reason.as_deref().unwrap_or_default()
}

fn file_lines(file: &File<'_>, with_source: bool, output: &Output) {
    let size = file.filesize.or(file.user_filesize).filter(|size| *size > 0);
    let source = if with_source {
        format!("{} → ", file.source_surl.as_deref().unwrap_or_default())
    } else {
        String::new()
    };
    output.line(format!(
        "  {:>8}  {}  {:>9}  {source}{}",
        file.file_id.map(|id| id.to_string()).unwrap_or_default(),
        state(state_of(file), 9, output),
        size.map(|size| Bytes(size).to_string()).unwrap_or_default(),
        file.dest_surl.as_deref().unwrap_or_default(),
    ));
    if !reason(file).is_empty() {
        output.line(format!("            {}", reason(file)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_of_one_file_count_as_one() {
        // Three sources that are told as three files look like two that never arrive.
        let source = |index: u32, state: &'static str| File {
            file_index: Some(index),
            file_state: Some(state.into()),
            user_filesize: Some(100),
            ..File::default()
        };
        let check = |files: &[File<'_>], sentence: &str| assert_eq!(Tally::of(files).sentence(), sentence);
        let (used, unused) = (source(0, "FINISHED"), source(0, "NOT_USED"));
        check(
            &[source(0, "FAILED"), used, unused.clone()],
            "1 of 1 finished; 100 B of 100 B",
        );
        check(
            &[source(0, "FAILED"), source(0, "SUBMITTED"), unused],
            "0 of 1 finished, 1 waiting; 0 B of 100 B",
        );
        check(
            &[source(0, "FINISHED"), source(1, "ACTIVE"), source(2, "NOT_USED")],
            "1 of 3 finished, 1 active, 1 not used; 100 B of 300 B",
        );
    }

    #[test]
    fn a_tally_counts_files_and_bytes() {
        let files = [
            json!({ "file_state": "FINISHED", "filesize": 100, "weir": { "bytes_moved": 0 } }),
            json!({ "file_state": "ACTIVE", "user_filesize": 100, "weir": { "bytes_moved": 50 } }),
            json!({ "file_state": "SUBMITTED" }),
        ];
        let files = files.map(|file| serde_json::from_value::<File<'_>>(file).unwrap_or_default());
        let tally = Tally::of(&files);
        assert_eq!(tally.sentence(), "1 of 3 finished, 1 active, 1 waiting; 150 B of 200 B");
        assert!((tally.share() - 0.75).abs() < 1e-9);
        assert!(
            (Tally::default().share() - 1.0).abs() < 1e-9,
            "a job without files is over"
        );
    }
}
