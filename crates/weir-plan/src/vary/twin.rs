//! Faults that look alike: the same headline from another class.

use std::path::Path;

use toml::{Table, Value};

use super::cause::Cause;
use super::drawing::{tables, text};
use crate::spec::Challenge;

/// A kind, the kind that looks alike, and the key of its place; the direction of traffic at a site, if it has one.
const ALIKE: &[(&str, &str, &str, Option<&str>)] = &[
    ("slow-write", "capacity", "site", Some("in")),
    ("slow-read", "capacity", "site", Some("out")),
    ("connections", "slots", "rse", None),
    ("slots", "connections", "rse", None),
    ("slow-store", "slow-issuer", "service", None),
    ("slow-issuer", "slow-store", "service", None),
    ("packet-loss", "capacity", "link", None),
    ("slow-stream", "connections", "rse", None),
];

/// Swaps the one fault of a table for one that looks alike; gives both kinds, and the cause of the new one.
pub(super) fn swap(table: &mut Table) -> Option<(String, Cause)> {
    let [fault] = tables(table, "fault").try_into().ok()?;
    let old = text(fault, "kind")?.to_owned();
    let (_, new, key, way) = match (old.as_str(), text(fault, "way")) {
        ("capacity" | "foreign-load", way) if text(fault, "site").is_some() => {
            let new = if way == Some("out") { "slow-read" } else { "slow-write" };
            ("", new, "rse", None)
        }
        _ => *ALIKE.iter().find(|(kind, ..)| *kind == old)?,
    };
    if old == "slots" && text(fault, "link").is_some() {
        return None;
    }
    let place = ["rse", "site", "link", "service"]
        .iter()
        .find_map(|key| fault.remove(*key));
    let place = match new {
        "slow-issuer" => Value::String("issuer".to_owned()),
        "slow-store" => Value::String("transfer".to_owned()),
        _ => place?,
    };
    if !matches!(new, "slots" | "connections" | "capacity") {
        fault.remove("way");
    }
    let amount = match (old.as_str(), new) {
        ("slow-stream", _) => Some(("limit", Value::Integer(2))),
        ("packet-loss", _) => Some(("rate", Value::String("1 Gb/s".to_owned()))),
        _ => None,
    };
    if let Some((key, value)) = amount {
        fault.remove("rate");
        fault.remove("share");
        fault.insert(key.to_owned(), value);
    }
    fault.insert("kind".to_owned(), Value::String(new.to_owned()));
    fault.insert(key.to_owned(), place);
    if let Some(way) = way {
        fault.insert("way".to_owned(), Value::String(way.to_owned()));
    }
    let read = toml::to_string(table).ok()?;
    let challenge = Challenge::parse(&read, Path::new("twin")).ok()?;
    Some((format!("{new} for {old}"), Cause::of_fault(challenge.faults.first()?)))
}
