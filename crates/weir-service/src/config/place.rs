//! Keys and their places in a TOML text.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// The line of a position, from 1.
pub(super) fn line_at(text: &str, position: usize) -> usize {
    1 + text.bytes().take(position).filter(|byte| *byte == b'\n').count()
}

/// A key with its tables (`area[1].quota`), and where it and its value stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// The innermost key whose name or value stands at a position. `None`: it is the file's own table.
pub(super) fn place_at(table: &DeTable<'_>, position: usize) -> Option<Place> {
    table.iter().find_map(|(key, value)| {
        let below = match value.get_ref() {
            DeValue::Table(table) => place_at(table, position),
            DeValue::Array(items) => place_in_array(items.iter().map(|item| (item.span(), item.get_ref())), position),
            _ => None,
        };
        let name = key.get_ref();
        match below {
            Some(Place { key, span }) => {
                let dot = if key.starts_with('[') { "" } else { "." };
                Some(Place {
                    key: format!("{name}{dot}{key}"),
                    span,
                })
            }
            None if key.span().contains(&position) || value.span().contains(&position) => Some(Place {
                key: name.to_string(),
                span: key.span().start.min(value.span().start)..key.span().end.max(value.span().end),
            }),
            None => None,
        }
    })
}

fn place_in_array<'a, 'i: 'a>(
    mut items: impl Iterator<Item = (Range<usize>, &'a DeValue<'i>)>,
    position: usize,
) -> Option<Place> {
    let mut index = 0;
    items.find_map(|(span, item)| {
        let at = format!("[{index}]");
        index += 1;
        match item.as_table().and_then(|table| place_at(table, position)) {
            Some(below) => Some(Place {
                key: format!("{at}.{}", below.key),
                span: below.span,
            }),
            None => span.contains(&position).then_some(Place { key: at, span }),
        }
    })
}

/// The line where a key stands; of its table if it stands nowhere itself.
pub(super) fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut found = None;
    for part in key.split('.') {
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((word, value)) = table.iter().find(|(word, _)| word.get_ref() == name) else {
            break;
        };
        found = Some(word.span().start);
        let value = match (value.get_ref(), index) {
            (DeValue::Array(items), Some(index)) => {
                let Some(item) = items.get(index) else { break };
                found = Some(item.span().start);
                item.get_ref()
            }
            (value, _) => value,
        };
        let Some(below) = value.as_table() else { break };
        table = below;
    }
    found.map(|position| line_at(text, position))
}
