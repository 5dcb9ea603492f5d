//! Larger grids, and a second fault in them.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};
use weir_units::BitRate;

use super::axes::rate_text;
use super::cause::{Cause, class_of};
use super::drawing::{Drawing, tables, text};
use crate::spec::Challenge;

/// Rate of the links of new sites.
const ASKED: BitRate = BitRate(2_000_000_000);

/// Adds sites with links of their own: none, a few or many, around the grid of the template.
pub(super) fn spread(table: &mut Table, drawing: &mut Drawing, is_pair: bool, axes: &mut BTreeMap<String, String>) {
    let more = if is_pair {
        drawing.one(&[3, 4, 6])
    } else {
        drawing.one(&[0, 0, 3, 6, 9])
    };
    let form = drawing.one(&["ring", "star", "pairs"]);
    axes.insert("sites".to_owned(), format!("{more} more, {form}"));
    let new: Vec<String> = (0..more).map(|number| format!("MORE{number}")).collect();
    let Some(grid) = table.get_mut("grid").and_then(Value::as_table_mut) else {
        return;
    };
    if let Some(rses) = grid.get_mut("rse").and_then(Value::as_array_mut) {
        rses.extend(new.iter().map(|name| Value::Table(pairs(&[("name", name)]))));
    }
    let links: Vec<(usize, usize)> = match form {
        "ring" => (0..more).map(|at| (at, (at + 1) % more)).collect(),
        "star" => (1..more).map(|at| (0, at)).collect(),
        _ => (0..more / 2).map(|at| (2 * at, 2 * at + 1)).collect(),
    };
    let Some(workload) = tables(table, "workload").into_iter().next() else {
        return;
    };
    if let Some(rates) = workload.get_mut("rates").and_then(Value::as_array_mut) {
        let asked = rate_text(ASKED);
        rates.extend(links.iter().map(|(from, to)| {
            let link = [
                ("source", new[*from].as_str()),
                ("destination", new[*to].as_str()),
                ("rate", asked.as_str()),
            ];
            Value::Table(pairs(&link))
        }));
    }
}

/// Adds a second fault, of another class, at another link or at a storage of the first; gives what it is, and its cause.
pub(super) fn second(table: &mut Table, drawing: &mut Drawing, causes: &[Cause]) -> Option<(String, Cause)> {
    let links = asked(table);
    let is_new = |name: &str| name.starts_with("MORE");
    let same_site = drawing.unit() < 0.2;
    let there: Vec<&(String, String, BitRate)> = links
        .iter()
        .filter(|(source, _, _)| is_new(source) != same_site)
        .collect();
    if there.is_empty() {
        return None;
    }
    let (source, destination, rate) = drawing.one(&there);
    let (source, destination) = (source.as_str(), destination.as_str());
    let link = format!("{source}->{destination}");
    let out: u64 = links
        .iter()
        .filter(|(from, ..)| from == source)
        .map(|(.., rate)| rate.0)
        .sum();
    let into: u64 = links
        .iter()
        .filter(|(_, to, _)| to == destination)
        .map(|(.., rate)| rate.0)
        .sum();
    let part = drawing.between(0.3, 0.6);
    let of = |bits: u64| rate_text(BitRate(bits).scale(part));
    let (read, write, alone) = (of(out), of(into), of(rate.0));
    let palette: [&[(&str, &str)]; 9] = [
        &[("kind", "slow-read"), ("rse", source), ("rate", &read)],
        &[("kind", "slow-write"), ("rse", destination), ("rate", &write)],
        &[
            ("kind", "capacity"),
            ("site", destination),
            ("way", "in"),
            ("rate", &write),
        ],
        &[("kind", "capacity"), ("link", &link), ("rate", &alone)],
        &[
            ("kind", "connections"),
            ("rse", destination),
            ("way", "in"),
            ("limit", "1"),
        ],
        &[("kind", "slots"), ("link", &link), ("limit", "1")],
        &[("kind", "slow-close"), ("rse", destination), ("delay", "90 s")],
        &[
            ("kind", "failures"),
            ("link", &link),
            ("error", "network"),
            ("share", "0.7"),
        ],
        &[("kind", "mtu"), ("link", &link), ("size", "1 MB")],
    ];
    let mut fault = pairs(drawing.one(&palette));
    for (key, number) in [("limit", Value::Integer(1)), ("share", Value::Float(0.7))] {
        if fault.contains_key(key) {
            fault.insert(key.to_owned(), number);
        }
    }
    fault.insert("name".to_owned(), Value::String("second".to_owned()));
    let at = drawing.between(150.0, 300.0).round();
    fault.insert("at".to_owned(), Value::String(format!("{at} s")));
    let said = format!("{} at {link}", text(&fault, "kind").unwrap_or_default());
    let mut both = table.clone();
    both.get_mut("fault")?.as_array_mut()?.push(Value::Table(fault));
    let read = toml::to_string(&both).ok()?;
    let challenge = Challenge::parse(&read, Path::new("pair")).ok()?;
    let fault = challenge.faults.iter().find(|fault| fault.name == "second")?;
    let cause = Cause::of_fault(fault);
    let is_known = causes
        .iter()
        .flat_map(|cause| &cause.classes)
        .any(|class| class == class_of(fault));
    if is_known {
        return None;
    }
    *table = both;
    Some((said, cause))
}

/// The links of the workloads with their rates.
fn asked(table: &mut Table) -> Vec<(String, String, BitRate)> {
    let mut links = Vec::new();
    for workload in tables(table, "workload") {
        for rate in tables(workload, "rates") {
            let of = |key| text(rate, key).map(str::to_owned);
            if let (Some(source), Some(destination), Some(Ok(asked))) =
                (of("source"), of("destination"), of("rate").map(|text| text.parse()))
            {
                links.push((source, destination, asked));
            }
        }
    }
    links
}

fn pairs(keys: &[(&str, &str)]) -> Table {
    let value = |(key, value): &(&str, &str)| ((*key).to_owned(), Value::String((*value).to_owned()));
    keys.iter().map(value).collect()
}
