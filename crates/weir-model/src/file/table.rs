//! The keys of a table: one list for the parser and the handbook.

use std::fmt::Write as _;

/// One key of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key as it is written in the file.
    pub name: &'static str,
    /// The kind of its value: `size`, `rate`, `text`, …
    pub kind: &'static str,
    /// Its default; `required` where it has none.
    pub default: &'static str,
    /// Its meaning, in one sentence of Markdown.
    pub meaning: &'static str,
}

impl Key {
    /// Lists a key.
    pub const fn new(name: &'static str, kind: &'static str, default: &'static str, meaning: &'static str) -> Key {
        Key {
            name,
            kind,
            default,
            meaning,
        }
    }
}

/// One table of a file, with every key that it may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// The table as a reader finds it in the file: `[phases]`, `[[rse]]`; for the file itself a phrase.
    pub title: &'static str,
    /// Every key, in the order of the handbook.
    pub keys: &'static [Key],
}

impl Table {
    /// Finds a key by name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Writes the table of keys for the handbook, in Markdown, without the heading.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for Key {
            name,
            kind,
            default,
            meaning,
        } in self.keys
        {
            let _ = writeln!(text, "| `{name}` | {kind} | {default} | {meaning} |");
        }
        text
    }
}
