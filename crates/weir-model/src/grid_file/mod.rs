//! The grid file: its keys, how it is read, and how it is written.

mod keys;
mod place;
mod read;
mod services;
mod url;
mod write;

pub use keys::{GRID, GRID_TABLES};
pub(crate) use read::parse;
pub(crate) use write::to_toml;

use crate::file::Section;
use crate::grid::Grid;

impl Grid {
    /// Reads a grid from a table of another file, such as `[grid]` of a challenge; the table is [`GRID`].
    ///
    /// `None` if something is wrong, which the section's reader then knows.
    pub fn from_section(section: &Section<'_>) -> Option<Grid> {
        read::grid(section)
    }
}
