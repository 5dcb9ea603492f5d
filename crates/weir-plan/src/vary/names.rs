//! Other names for storage elements, sites and segments: none may carry a meaning that a diagnosis has learned.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::drawing::{Drawing, tables, text};

/// Keys whose text names no place.
const WORDS: [&str; 10] = [
    "kind",
    "metric",
    "error",
    "shape",
    "mode",
    "description",
    "activity",
    "inject",
    "service",
    "way",
];

/// Gives everything another name; returns the new ones by the old.
pub(super) fn change(table: &mut Table, drawing: &mut Drawing) -> BTreeMap<String, String> {
    let mut old = BTreeSet::new();
    if let Some(grid) = table.get_mut("grid").and_then(Value::as_table_mut) {
        for rse in tables(grid, "rse") {
            old.extend(
                [text(rse, "name"), text(rse, "site")]
                    .into_iter()
                    .flatten()
                    .map(str::to_owned),
            );
        }
    }
    if let Some(sim) = table.get_mut("sim").and_then(Value::as_table_mut) {
        for segment in tables(sim, "segment") {
            old.extend(text(segment, "name").map(str::to_owned));
        }
    }
    let mut taken = old.clone();
    let mut names = BTreeMap::new();
    for name in old {
        let new = loop {
            let new = word(drawing);
            if taken.insert(new.clone()) {
                break new;
            }
        };
        names.insert(name, new);
    }
    rename(table, &names);
    names
}

/// A word without meaning.
fn word(drawing: &mut Drawing) -> String {
    const HEADS: [&str; 12] = ["B", "D", "F", "G", "K", "L", "M", "N", "P", "R", "T", "V"];
    const VOWELS: [&str; 5] = ["A", "E", "I", "O", "U"];
    (0..3)
        .map(|_| format!("{}{}", drawing.one(&HEADS), drawing.one(&VOWELS)))
        .collect()
}

fn rename(table: &mut Table, names: &BTreeMap<String, String>) {
    for (key, value) in table.iter_mut() {
        if !WORDS.contains(&key.as_str()) {
            in_value(value, names);
        }
    }
}

fn in_value(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::String(text) => *text = renamed(text, names),
        Value::Array(values) => values.iter_mut().for_each(|value| in_value(value, names)),
        Value::Table(table) => rename(table, names),
        _ => {}
    }
}

/// A text with the new names in place of the old ones, where these are whole words.
pub(super) fn renamed(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let end = rest
            .find(|letter| is_word(letter) != is_word(first))
            .unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        new.push_str(names.get(piece).map_or(piece, String::as_str));
        rest = behind;
    }
    new
}
