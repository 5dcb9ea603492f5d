//! Variants of incidents: cases on which a diagnosis is judged.
//!
//! A [`Draft`] is drawn from a template, the text of an incident. It has other names, magnitudes, shapes, loads and signals, and more sites.
//! It may have a fault that looks alike, a second fault, or none. The text alone decides nothing: a simulation of the draft and
//! of its twin without the fault says whether the fault matters, and where and when it does.
//!
//! Everything is drawn from one seed, by the name of the case: the same seed gives the same drafts.

mod axes;
mod cause;
mod drawing;
mod grid;
mod names;
mod purpose;
mod twin;

use std::collections::BTreeMap;

use toml::{Table, Value};

pub use cause::Cause;
pub use purpose::Purpose;

use crate::incident::Incident;
use drawing::Drawing;

/// An incident, and the text of its file.
#[derive(Debug, Clone)]
pub struct Template {
    /// The incident.
    pub incident: Incident,
    /// Its file.
    pub text: String,
}

/// A case that has been drawn, and not been tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The challenge, as the text of its file.
    pub text: String,
    /// The drawn values, by the name of the axis.
    pub axes: BTreeMap<String, String>,
    /// The causes that its faults stand for; none if it is healthy.
    pub causes: Vec<Cause>,
}

/// Draws a case. `attempt` counts the drafts that came to nothing before.
pub fn draw(template: &Template, purpose: Purpose, seed: u64, case: &str, attempt: u32) -> Draft {
    let mut drawing = Drawing::new(seed, &format!("{case} {attempt}"));
    let mut table: Table = toml::from_str(&template.text).expect("the text was read as TOML before");
    for key in ["incident", "expect", "remedy"] {
        table.remove(key);
    }
    table.insert("name".to_owned(), Value::String(case.to_lowercase()));
    table.insert("seed".to_owned(), Value::Integer(drawing.number()));
    table.insert("description".to_owned(), Value::String("a drawn case".to_owned()));
    let mut axes = BTreeMap::new();
    let mut causes = match purpose {
        Purpose::Healthy => {
            table.remove("fault");
            Vec::new()
        }
        _ if template.incident.expect.is_silent => Vec::new(),
        _ => vec![Cause::of_incident(&template.incident)],
    };
    if purpose == Purpose::Twin
        && let Some((said, cause)) = twin::swap(&mut table)
    {
        axes.insert("twin".to_owned(), said);
        causes = vec![cause];
    }
    grid::spread(&mut table, &mut drawing, purpose == Purpose::Pair, &mut axes);
    axes::turn(&mut table, &mut drawing, purpose, &mut axes);
    if purpose == Purpose::Pair
        && let Some((said, cause)) = grid::second(&mut table, &mut drawing, &causes)
    {
        axes.insert("second".to_owned(), said);
        causes.push(cause);
    }
    let names = names::change(&mut table, &mut drawing);
    causes.iter_mut().for_each(|cause| cause.rename(&names));
    Draft {
        text: toml::to_string(&table).expect("a table that was read can be written"),
        axes,
        causes,
    }
}

#[cfg(test)]
mod tests;
