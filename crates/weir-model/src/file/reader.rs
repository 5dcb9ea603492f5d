//! The problems that are collected while a document is read.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use super::document::Document;
use super::part::Part;
use super::problem::Problem;

/// One reading of a document: the document and the problems found so far.
#[derive(Debug)]
pub struct Reader<'d> {
    pub(super) document: &'d Document,
    pub(super) problems: RefCell<Vec<Problem>>,
}

impl Reader<'_> {
    /// Notes a problem at a position.
    pub(super) fn report(
        &self,
        span: Option<&Range<usize>>,
        key: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Problem {
            file: self.document.file().to_owned(),
            line: span.map(|span| self.document.line(span.start)),
            key: key.to_owned(),
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    pub(super) fn add(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }
}

impl Document {
    /// Gives the file's own table as written, with any keys.
    ///
    /// # Errors
    /// The errors of its syntax.
    pub fn content(&self) -> Result<toml::Table, Vec<Problem>> {
        self.read_with(|_, root| Some(super::value::table(root)))
    }

    /// Parses the text as TOML, and returns the result of `read` on its own table.
    pub(super) fn read_with<T>(
        &self,
        read: impl for<'d> FnOnce(&'d Reader<'d>, &'d DeTable<'d>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let reader = Reader {
            document: self,
            problems: RefCell::default(),
        };
        let (root, errors) = DeTable::parse_recoverable(self.text());
        for error in &errors {
            let message = error.message().lines().next().unwrap_or("is not TOML").to_owned();
            let remedy = if message.contains("duplicate key") {
                "keep one of the two"
            } else {
                "correct the TOML"
            };
            reader.report(error.span().as_ref(), "", message, remedy);
        }
        let value = if errors.is_empty() {
            read(&reader, root.get_ref())
        } else {
            None
        };
        let mut problems = reader.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        match value {
            Some(value) if problems.is_empty() => Ok(value),
            _ => {
                assert!(!problems.is_empty(), "a reader that gives nothing has reported why");
                Err(problems)
            }
        }
    }
}

impl Part {
    /// The table that a file holds.
    pub(super) fn of_file(file: &Path) -> Result<Self, Vec<Problem>> {
        let document = Document::read(file).map_err(|problem| vec![problem])?;
        let content = document.content()?;
        Ok(Self {
            document,
            key: None,
            content,
        })
    }
}
