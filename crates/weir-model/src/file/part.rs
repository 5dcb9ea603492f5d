//! A table that another reader understands.

use super::document::Document;

/// A table of a file that its reader passes on: the text with the place of the table in it. So problems found later
/// still name file, line and key.
#[derive(Debug, Clone)]
pub struct Part {
    pub(super) document: Document,
    /// The key under which it stands; `None` if it is the whole file.
    pub(super) key: Option<String>,
    pub(super) content: toml::Table,
}

impl Part {
    /// The table under a key of a document.
    pub(super) fn under(document: &Document, key: &str, content: toml::Table) -> Self {
        Self {
            document: document.clone(),
            key: Some(key.to_owned()),
            content,
        }
    }

    /// Gives the table as it was written, without positions.
    pub fn content(&self) -> &toml::Table {
        &self.content
    }
}

/// Equal if they say the same, wherever that stands.
impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}
