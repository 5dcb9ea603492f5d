//! The run folder: `weir-runs/<challenge>-<YYYYMMDD-HHMMSS>/`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weir_auth::files;

use crate::RunError;

/// The folder of one run. What is in it appears whole or not at all, the log apart.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    log: Mutex<File>,
}

impl RunFolder {
    /// Makes a new folder below `parent`, with the moment in its name and a number behind it if there is one already.
    pub(crate) fn create(parent: &Path, challenge: &str, moment: jiff::Timestamp) -> Result<Self, RunError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| RunError::Folder { path, source }
        };
        fs::create_dir_all(parent).map_err(failed(parent))?;
        files::shared_folder(parent).map_err(failed(parent))?;
        let stem = format!("{challenge}-{}", moment.strftime("%Y%m%d-%H%M%S"));
        for number in 1.. {
            let name = if number == 1 {
                stem.clone()
            } else {
                format!("{stem}-{number}")
            };
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    let file = path.join("run.log");
                    let log = File::options()
                        .create_new(true)
                        .append(true)
                        .open(&file)
                        .map_err(failed(&file))?;
                    return Ok(Self {
                        path,
                        log: Mutex::new(log),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// Returns where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line to the log, with the time and without secrets. A log that cannot be written does not stop a run.
    pub(crate) fn log(&self, text: &str) {
        let line = format!(
            "{:.3} {}\n",
            jiff::Timestamp::now(),
            weir_auth::redact(text).replace('\n', " ")
        );
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = log.write_all(line.as_bytes()) {
            tracing::warn!(%error, "could not write the run's log");
        }
    }

    /// Writes a file so that it appears whole or not at all.
    pub(crate) fn write(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<PathBuf, RunError> {
        let path = self.path.join(name);
        write_atomically(&path, write).map_err(|source| RunError::Folder {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

/// Writes a file under another name beside it, then renames it.
pub fn write_atomically(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = File::create(&temporary).and_then(|file| {
        let mut buffer = BufWriter::new(file);
        write(&mut buffer)?;
        buffer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    });
    let outcome = written.and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        let _not_there = fs::remove_file(&temporary);
    }
    outcome
}

/// Writes one line of CSV (RFC 4180): fields with comma, quote or line break are quoted.
pub(crate) fn csv_line(to: &mut dyn Write, fields: &[&str]) -> io::Result<()> {
    for (number, field) in fields.iter().enumerate() {
        if number > 0 {
            to.write_all(b",")?;
        }
        write_field(to, field)?;
    }
    to.write_all(b"\n")
}

fn write_field(to: &mut dyn Write, field: &str) -> io::Result<()> {
    if field.contains([',', '"', '\n', '\r']) {
        write!(to, "\"{}\"", field.replace('"', "\"\""))
    } else {
        to.write_all(field.as_bytes())
    }
}

/// One line of CSV, field by field: where there are millions of lines, without a string for each field.
pub(crate) struct CsvLine<'w> {
    to: &'w mut dyn Write,
    separator: &'static str,
}

impl<'w> CsvLine<'w> {
    pub(crate) fn new(to: &'w mut dyn Write) -> Self {
        Self { to, separator: "" }
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator = std::mem::replace(&mut self.separator, ",");
        self.to.write_all(separator.as_bytes())
    }

    pub(crate) fn text(&mut self, field: &str) -> io::Result<&mut Self> {
        self.separate()?;
        write_field(self.to, field)?;
        Ok(self)
    }

    pub(crate) fn number(&mut self, number: u64) -> io::Result<&mut Self> {
        self.separate()?;
        write!(self.to, "{number}")?;
        Ok(self)
    }

    /// A time in seconds with microseconds; nothing if there is none.
    pub(crate) fn time(&mut self, time: Option<Duration>) -> io::Result<&mut Self> {
        self.separate()?;
        if let Some(time) = time {
            write!(self.to, "{}.{:06}", time.as_secs(), time.subsec_micros())?;
        }
        Ok(self)
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use super::*;

    #[test]
    fn csv_lines_of_both_makers_are_alike() {
        // Wrong: a simulated run's rows differ in form from a real one's.
        let mut line = Vec::new();
        let mut fields = CsvLine::new(&mut line);
        fields.text("a").unwrap().text("b,c").unwrap().number(7).unwrap();
        fields
            .time(Some(Duration::from_millis(1_250)))
            .unwrap()
            .time(None)
            .unwrap();
        fields.end().unwrap();
        let mut other = Vec::new();
        let time = crate::record::seconds(Duration::from_millis(1_250));
        csv_line(&mut other, &["a", "b,c", "7", &time, ""]).unwrap();
        assert_eq!(String::from_utf8(line).unwrap(), String::from_utf8(other).unwrap());
    }

    #[test]
    fn csv_fields_are_quoted_where_needed() {
        // Wrong: an error text with a comma or a quote moves the columns of its row.
        let mut line = Vec::new();
        csv_line(&mut line, &["a", "b,c", "say \"no\"", ""]).unwrap();
        assert_eq!(String::from_utf8(line).unwrap(), "a,\"b,c\",\"say \"\"no\"\"\",\n");
    }

    #[test]
    fn two_runs_of_one_second_have_two_folders() {
        // Wrong: a run writes into the folder of another.
        let parent = tempfile::tempdir().unwrap();
        let moment = jiff::Timestamp::UNIX_EPOCH;
        let first = RunFolder::create(parent.path(), "c", moment).unwrap();
        let second = RunFolder::create(parent.path(), "c", moment).unwrap();
        assert_eq!(first.path().file_name().unwrap(), "c-19700101-000000");
        assert_eq!(second.path().file_name().unwrap(), "c-19700101-000000-2");
    }

    #[test]
    fn a_file_that_fails_half_way_leaves_nothing() {
        // Wrong: a report that could not be written whole is taken for one.
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("report.json");
        write_atomically(&path, |to| to.write_all(b"whole")).unwrap();
        let failed = write_atomically(&path, |to| {
            to.write_all(b"half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
