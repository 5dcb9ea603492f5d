//! The grid file: its keys, how it is read, and how it is written.

mod keys;
mod place;
mod read;
mod services;
mod url;
mod write;

pub use keys::{GRID, GRID_TABLES};

use std::path::Path;

use crate::file::{Document, Problem, Section};
use crate::grid::Grid;

impl Grid {
    /// Reads the text of a grid file; `file` names it in problems, and its folder is joined with the paths in it.
    ///
    /// # Errors
    /// Every problem found, in the order of the lines.
    pub fn parse(text: &str, file: &Path) -> Result<Grid, Vec<Problem>> {
        read::parse(&Document::new(text, file))
    }

    /// Reads a grid file; the files that it names must exist.
    ///
    /// # Errors
    /// Every problem found, in the order of the lines.
    pub fn load(file: &Path) -> Result<Grid, Vec<Problem>> {
        let document = Document::read(file).map_err(|problem| vec![problem])?;
        read::parse(&document)
    }

    /// Writes the grid as TOML that reads back to the same grid; the table may also stand under `[grid]`.
    pub fn to_toml(&self) -> toml::Table {
        write::to_toml(self)
    }

    /// Reads a grid from a table of another file, such as `[grid]` of a challenge; the table is [`GRID`].
    ///
    /// `None` if something is wrong, which the section's reader then knows.
    pub fn from_section(section: &Section<'_>) -> Option<Grid> {
        read::grid(section)
    }
}
