//! `weir incident list`

use serde_json::json;
use weir_plan::Incident;
use weir_plan::incident::WAITING;

use super::library;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Prints a line for each incident.
pub(super) fn run(output: &Output) -> Result<Exit, Failure> {
    let incidents = library::all()?;
    for incident in &incidents {
        output.line(format!(
            "{:<8} {:<22} {}",
            incident.id,
            incident.expect.classes.join(" or "),
            incident.title
        ));
    }
    let waiting: Vec<String> = WAITING.iter().map(|(id, room)| format!("{id} ({room})")).collect();
    output.line(format!(
        "{} incidents; waiting: {}",
        incidents.len(),
        waiting.join(", ")
    ));
    let told = |incident: &Incident| {
        json!({
            "id": incident.id,
            "title": incident.title,
            "source": incident.source,
            "class": incident.expect.classes,
            "faults": incident.challenge.faults,
            "remedy": incident.remedy,
        })
    };
    let waiting: Vec<_> = WAITING
        .iter()
        .map(|(id, room)| json!({ "id": id, "needs": room }))
        .collect();
    output.done(&json!({ "incidents": incidents.iter().map(told).collect::<Vec<_>>(), "waiting": waiting }));
    Ok(Exit::Done)
}
