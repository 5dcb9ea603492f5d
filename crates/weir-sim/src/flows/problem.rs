//! A problem of a scenario of flows.

use std::fmt;

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line from 1, if it is known.
    pub line: Option<usize>,
    /// Entry and key, such as `links[3].bandwidth_bps`; may be empty.
    pub key: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "{line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}
