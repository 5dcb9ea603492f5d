//! The settings of the checks.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::text;

/// `xtask/tidy.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// The rooms in the order in which data meets them: each may use those before it.
    pub(super) rooms: Vec<String>,
    /// The rooms that decide and never act.
    pub(super) pure: Vec<String>,
    /// Packages that no pure room may have in its dependency tree.
    pub(super) impure_packages: Vec<String>,
    /// A source file of more lines than this divides.
    pub(super) lines_max: usize,
    /// Crates with import cycles among their modules: how many files are in them.
    pub(super) cycles: BTreeMap<String, usize>,
    /// A crate of more lines without tests than this divides.
    pub(super) crate_lines_max: usize,
    /// Larger crates, with the lines that they may have.
    pub(super) large: BTreeMap<String, usize>,
    /// Files that make text of bytes without `weir_auth::peer_text`, with the reason.
    pub(super) peer_bytes: BTreeMap<String, String>,
    /// Unclear sentences that a crate may have for 1,000 lines of doc comments.
    pub(super) unclear_per_thousand: usize,
    /// Words that a sentence of a doc comment may have.
    pub(super) words_max: usize,
    /// Words of a page of the handbook.
    pub(super) page_words_max: usize,
    /// Words of a cell of a table.
    pub(super) cell_words_max: usize,
    /// Words that do not belong in tracked files.
    pub(super) word: Vec<text::Word>,
}
