//! Problems in a file: place, cause and remedy.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// One thing that is wrong in a file. Prints as `file:line: key: message; remedy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as its reader named it.
    pub file: PathBuf,
    /// The line, from 1; `None` where the file as a whole is meant.
    pub line: Option<usize>,
    /// The key with its tables, such as `rse.quota`; empty where no key is meant.
    pub key: String,
    /// The problem, in lower case, without a full stop.
    pub message: String,
    /// The remedy, in lower case, without a full stop.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Problem {}
