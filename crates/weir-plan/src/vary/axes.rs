//! The circumstances of a case: magnitude, time and shape of its faults, load, and what the services tell.

use std::collections::BTreeMap;

use toml::{Table, Value};
use weir_units::{BitRate, Bytes, duration};

use super::drawing::{Drawing, tables, text};
use super::purpose::Purpose;
use crate::fault::{FaultKind, Gauge};

/// Kinds that are there or not, and do not come and go.
const STANDING: [FaultKind; 7] = [
    FaultKind::Fifo,
    FaultKind::Quota,
    FaultKind::Vanish,
    FaultKind::Corrupt,
    FaultKind::WrongCounters,
    FaultKind::MissingCounters,
    FaultKind::LateCounters,
];

/// Draws every axis and changes the table.
pub(super) fn turn(table: &mut Table, drawing: &mut Drawing, purpose: Purpose, axes: &mut BTreeMap<String, String>) {
    // About even on a logarithmic scale.
    let magnitude = drawing.one(&[0.3, 0.53, 0.95, 1.68]) * drawing.between(1.0, 1.78);
    let shape = drawing.one(&["step", "step", "ramp", "periodic", "flapping", "from the start"]);
    let at = drawing.between(150.0, 300.0).round();
    let length = (drawing.unit() < 0.3).then(|| drawing.between(180.0, 300.0).round());
    if purpose != Purpose::Healthy {
        axes.insert("magnitude".to_owned(), format!("{magnitude:.2}"));
        axes.insert("shape".to_owned(), shape.to_owned());
        for fault in tables(table, "fault") {
            let Some(kind) = text(fault, "kind").and_then(kind) else {
                continue;
            };
            scale(fault, kind, magnitude);
            // A template with a shape of its own keeps it, and a fault that is there from the start stays there.
            if text(fault, "at").is_some() && text(fault, "shape").is_none() && !STANDING.contains(&kind) {
                put(fault, shape, (at, length));
            }
        }
    }
    load(table, drawing, purpose, axes);
    orders(table, drawing);
    tell(table, drawing, axes);
}

fn kind(word: &str) -> Option<FaultKind> {
    FaultKind::ALL.iter().copied().find(|kind| kind.as_str() == word)
}

/// Multiplies the amount of a fault.
fn scale(fault: &mut Table, kind: FaultKind, by: f64) {
    let key = match kind.row().gauge {
        Gauge::Whole | Gauge::Factor => return,
        Gauge::Rate => "rate",
        Gauge::Delay => "delay",
        Gauge::Share => "share",
        Gauge::Limit => "limit",
        Gauge::Size => "size",
    };
    let Some(value) = fault.get_mut(key) else { return };
    let new = match (key, &*value) {
        ("rate", Value::String(text)) => text
            .parse()
            .ok()
            .map(|rate: BitRate| Value::String(rate_text(rate.scale(by)))),
        ("size", Value::String(text)) => text.parse().ok().map(|size: Bytes| {
            let bytes = (size.0 as f64 * by).round().max(1.0);
            Value::String(format!("{bytes} B"))
        }),
        ("delay", Value::String(text)) => duration::parse(text).ok().map(|delay| {
            let millis = (delay.as_secs_f64() * 1e3 * by).round().max(1.0);
            Value::String(format!("{millis} ms"))
        }),
        ("limit", Value::Integer(limit)) => Some(Value::Integer((*limit as f64 * by).round().max(1.0) as i64)),
        ("share", Value::Float(share)) => Some(Value::Float((share * by).min(1.0))),
        ("share", Value::Integer(share)) => Some(Value::Float((*share as f64 * by).min(1.0))),
        _ => None,
    };
    if let Some(new) = new {
        *value = new;
    }
}

/// A rate as a challenge file has it.
pub(super) fn rate_text(rate: BitRate) -> String {
    format!("{} b/s", rate.0.max(1))
}

/// Gives a fault its time and its shape.
fn put(fault: &mut Table, shape: &str, (at, length): (f64, Option<f64>)) {
    let at = if shape == "from the start" { 0.0 } else { at };
    let mut set = |key: &str, value: Value| fault.insert(key.to_owned(), value);
    set("at", Value::String(format!("{at} s")));
    if let Some(length) = length {
        set("for", Value::String(format!("{length} s")));
    }
    match shape {
        "ramp" => {
            set("shape", Value::String("ramp".to_owned()));
            set("rise", Value::String("60 s".to_owned()));
        }
        "periodic" => {
            set("shape", Value::String("periodic".to_owned()));
            set("period", Value::String("120 s".to_owned()));
            set("on", Value::Float(0.7));
        }
        "flapping" => {
            set("shape", Value::String("flapping".to_owned()));
            set("period", Value::String("60 s".to_owned()));
        }
        _ => {}
    }
}

/// Asks for more or less of every link.
fn load(table: &mut Table, drawing: &mut Drawing, purpose: Purpose, axes: &mut BTreeMap<String, String>) {
    let by = match purpose {
        Purpose::Healthy => drawing.between(0.6, 2.0),
        _ => drawing.one(&[0.7, 0.85, 1.0, 1.0, 1.15]),
    };
    axes.insert("load".to_owned(), format!("{by:.2}"));
    for workload in tables(table, "workload") {
        for rate in tables(workload, "rates") {
            let Some(asked) = text(rate, "rate").and_then(|text| text.parse::<BitRate>().ok()) else {
                continue;
            };
            rate.insert("rate".to_owned(), Value::String(rate_text(asked.scale(by))));
        }
    }
}

/// Puts storage elements and links into another order.
fn orders(table: &mut Table, drawing: &mut Drawing) {
    if let Some(rses) = table
        .get_mut("grid")
        .and_then(|grid| grid.get_mut("rse"))
        .and_then(Value::as_array_mut)
    {
        drawing.shuffle(rses);
    }
    for workload in tables(table, "workload") {
        if let Some(rates) = workload.get_mut("rates").and_then(Value::as_array_mut) {
            drawing.shuffle(rates);
        }
    }
}

/// Draws how much the services tell.
fn tell(table: &mut Table, drawing: &mut Drawing, axes: &mut BTreeMap<String, String>) {
    let silent = drawing.one(&[0.0, 0.0, 0.25, 0.5]);
    let error = drawing.one(&[0.0, 0.1, 0.2]);
    let delay = drawing.one(&[0, 5, 30]);
    axes.insert("silent".to_owned(), format!("{silent}"));
    axes.insert("error".to_owned(), format!("{error}"));
    axes.insert("markers".to_owned(), format!("{delay} s"));
    let sim = table.entry("sim").or_insert_with(|| Value::Table(Table::new()));
    let Some(sim) = sim.as_table_mut() else { return };
    let mut signals = Table::new();
    signals.insert("silent".to_owned(), Value::Float(silent));
    signals.insert("error".to_owned(), Value::Float(error));
    signals.insert("delay".to_owned(), Value::String(format!("{delay} s")));
    sim.insert("signals".to_owned(), Value::Table(signals));
}
