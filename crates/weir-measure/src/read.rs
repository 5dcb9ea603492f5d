//! Reading the files of a run back, row by row, as far as they are whole.
//!
//! A run that was killed, or whose machine lost its power, leaves files whose last row may be cut off or missing on
//! disk. A reader takes every row before the first unreadable one, and returns the position of that row.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

/// A file of a run that is not one of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct ReadError {
    /// Name of the file.
    pub file: &'static str,
    /// The line, counted from one.
    pub line: u64,
    /// The problem.
    pub message: String,
}

/// The rows of a file.
pub(crate) struct Rows<R: Read> {
    file: &'static str,
    reader: csv::Reader<WholeLines<BufReader<R>>>,
    columns: &'static [&'static str],
    record: csv::StringRecord,
}

/// One row of a file.
pub(crate) struct Fields<'r> {
    record: &'r csv::StringRecord,
    columns: &'static [&'static str],
}

impl<R: Read> Rows<R> {
    /// Reads the heading. A file of an older version may lack the last columns: their fields are empty then.
    pub(crate) fn of(file: &'static str, columns: &'static [&'static str], from: R) -> Result<Self, ReadError> {
        let lines = WholeLines {
            from: BufReader::new(from),
            line: Vec::new(),
            taken: 0,
            is_cut: false,
        };
        let mut reader = csv::ReaderBuilder::new().from_reader(lines);
        let wrong = |message: String| ReadError { file, line: 1, message };
        let heading = reader.headers().map_err(|error| wrong(error.to_string()))?;
        // A run that was killed right after it began has a file without a whole heading, and so without rows.
        let has_begun = !heading.is_empty();
        let is_known = heading.iter().eq(columns.iter().copied().take(heading.len()));
        if has_begun && !is_known {
            let message = format!(
                "its columns are not those that weir {} writes",
                env!("CARGO_PKG_VERSION")
            );
            return Err(wrong(message));
        }
        Ok(Self {
            file,
            reader,
            columns,
            record: csv::StringRecord::new(),
        })
    }

    /// Hands over every row, up to the first that is cut off or that `take` cannot read.
    pub(crate) fn each(mut self, mut take: impl FnMut(&Fields<'_>) -> Result<(), String>) -> Result<(), ReadError> {
        loop {
            let line = self.reader.position().line();
            let wrong = |message: String| ReadError {
                file: self.file,
                line,
                message,
            };
            match self.reader.read_record(&mut self.record) {
                Ok(false) if self.reader.get_ref().is_cut => return Err(wrong("its end is missing".to_owned())),
                Ok(false) => return Ok(()),
                Ok(true) => {
                    let fields = Fields {
                        record: &self.record,
                        columns: self.columns,
                    };
                    take(&fields).map_err(wrong)?;
                }
                Err(error) => return Err(wrong(error.to_string())),
            }
        }
    }
}

/// The lines of a file up to its last line break: a number at the end of a row that was cut off would be another
/// number.
struct WholeLines<R> {
    from: R,
    line: Vec<u8>,
    /// Bytes of the line that were handed over.
    taken: usize,
    /// Whether something follows the last line break.
    is_cut: bool,
}

impl<R: BufRead> Read for WholeLines<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.line.len() && !self.is_cut {
            self.line.clear();
            self.taken = 0;
            self.from.read_until(b'\n', &mut self.line)?;
            if self.line.last().is_some_and(|byte| *byte != b'\n') {
                self.is_cut = true;
                self.line.clear();
            }
        }
        let count = to.len().min(self.line.len() - self.taken);
        to[..count].copy_from_slice(&self.line[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Fields<'_> {
    /// The text of a column.
    pub(crate) fn text(&self, column: &str) -> &str {
        let at = self.columns.iter().position(|name| *name == column);
        let field = at.and_then(|at| self.record.get(at)).unwrap_or_default();
        crate::csv::unguarded(field)
    }

    /// The text of a column, unless it is empty.
    pub(crate) fn filled(&self, column: &str) -> Option<&str> {
        Some(self.text(column)).filter(|text| !text.is_empty())
    }

    /// The number of a column.
    pub(crate) fn number<T: std::str::FromStr>(&self, column: &str) -> Result<T, String> {
        let text = self.text(column);
        text.parse().map_err(|_| format!("{column}: \"{text}\" is no number"))
    }

    /// The number of a column, if there is one.
    pub(crate) fn count<T: std::str::FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        match self.filled(column) {
            Some(_) => self.number(column).map(Some),
            None => Ok(None),
        }
    }

    /// The time of a column, if there is one: whole seconds, a point, six digits.
    pub(crate) fn time(&self, column: &str) -> Result<Option<Duration>, String> {
        let Some(text) = self.filled(column) else {
            return Ok(None);
        };
        let parts = text.split_once('.').filter(|(_, fraction)| fraction.len() == 6);
        let time = parts.and_then(|(seconds, micros)| {
            let micros: u64 = micros.parse().ok()?;
            Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_micros(micros))
        });
        let wrong = || format!("{column}: \"{text}\" is no time in seconds with six digits behind the point");
        time.map(Some).ok_or_else(wrong)
    }

    /// The time of a column that is never empty.
    pub(crate) fn moment(&self, column: &str) -> Result<Duration, String> {
        self.time(column)?.ok_or_else(|| format!("{column}: is empty"))
    }

    /// The value with the word of a column, if there is one.
    pub(crate) fn word<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> Result<Option<T>, String> {
        let Some(text) = self.filled(column) else {
            return Ok(None);
        };
        parse(text)
            .map(Some)
            .ok_or_else(|| format!("{column}: \"{text}\" is unknown"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[&str] = &["file", "bytes"];

    fn rows(text: &str) -> Result<usize, ReadError> {
        let mut count = 0;
        Rows::of("files.csv", COLUMNS, text.as_bytes())?.each(|_| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    #[test]
    fn a_file_that_was_just_begun_has_no_rows() {
        // Wrong: the files of a run that was killed in its first moment cannot be listed, and stay.
        assert_eq!(rows(""), Ok(0));
        let cut = rows("file,by").map_err(|error| error.to_string());
        assert_eq!(cut, Err("files.csv, line 1: its end is missing".to_owned()));
        assert_eq!(rows("file,bytes\na,1\n"), Ok(1));
        assert!(rows("file,size\na,1\n").is_err_and(|error| error.message.contains("columns")));
    }
}
