//! Parsing of a text into the content of its tables.

use super::document::Document;
use super::part::Part;
use super::problem::Problem;
use super::section::Section;
use super::table::Table;

impl Document {
    /// Reads the text as TOML: `read` takes the file's own table and returns its content, or `None` after it has reported a problem.
    ///
    /// # Errors
    /// Every problem found, in the order of the lines. Errors of syntax are reported alone, since their consequences would mislead.
    pub fn parse<T>(
        &self,
        table: &'static Table,
        read: impl FnOnce(&Section<'_>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        self.read_with(|reader, root| read(&Section::new(reader, table, String::new(), None, root)))
    }

    /// Parses only the table under a key; the rest of the file is skipped.
    pub(super) fn parse_under<T>(
        &self,
        key: &str,
        table: &'static Table,
        read: impl FnOnce(&Section<'_>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        self.read_with(|reader, root| {
            let value = root.get(key).expect("the key was there when the file was read");
            let content = value.get_ref().as_table().expect("it was a table then");
            let section = Section::new(reader, table, key.to_owned(), Some(value.span()), content);
            read(&section)
        })
    }
}

impl Part {
    /// Reads it, as [`Document::parse`] reads a whole file.
    ///
    /// # Errors
    /// Every problem found, in the order of the lines.
    pub fn parse<T>(
        &self,
        table: &'static Table,
        read: impl FnOnce(&Section<'_>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        match &self.key {
            Some(key) => self.document.parse_under(key, table, read),
            None => self.document.parse(table, read),
        }
    }
}
