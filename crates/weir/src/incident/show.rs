//! `weir incident show`

use serde_json::json;
use weir_plan::{Expect, Fault, Incident};
use weir_units::duration::format as time;

use super::library;
use crate::cli::IncidentShowArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Prints an incident for people, or its file.
pub(super) fn run(arguments: &IncidentShowArguments, output: &Output) -> Result<Exit, Failure> {
    let (_, text) = library::text(&arguments.id)?;
    let incident = library::find(&arguments.id)?;
    if arguments.toml {
        output.line(text.trim_end());
    } else {
        lines(&incident).iter().for_each(|line| output.line(line));
    }
    output.done(&json!({
        "id": incident.id,
        "title": incident.title,
        "story": incident.story,
        "source": incident.source,
        "class": incident.expect.classes,
        "signs": signs(&incident.expect),
        "faults": incident.challenge.faults,
        "remedy": incident.remedy,
        "toml": text,
    }));
    Ok(Exit::Done)
}

fn lines(incident: &Incident) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", incident.id, incident.title), String::new()];
    lines.extend(incident.story.lines().map(str::to_owned));
    lines.push(format!("({})", incident.source));
    lines.push(String::new());
    lines.extend(
        incident
            .challenge
            .faults
            .iter()
            .map(|of| format!("fault   {}", fault(of))),
    );
    lines.push(format!("class   {}", classes(&incident.expect)));
    lines.extend(
        signs(&incident.expect)
            .into_iter()
            .map(|sign| format!("sign    {sign}")),
    );
    lines.push(format!("remedy  {}", incident.remedy));
    lines
}

fn classes(expect: &Expect) -> String {
    if expect.classes.is_empty() {
        "none: a diagnosis must stay silent".to_owned()
    } else {
        expect.classes.join(" or ")
    }
}

fn fault(fault: &Fault) -> String {
    let amount = fault
        .amount_text()
        .map_or_else(String::new, |amount| format!(" {amount}"));
    let until = fault.until().map_or_else(|| "the end".to_owned(), time);
    format!(
        "{} at {}{amount}, from {} to {until}",
        fault.kind,
        fault.place,
        time(fault.at)
    )
}

/// The signs that a run must show, one sentence each.
fn signs(expect: &Expect) -> Vec<String> {
    let span = format!("from {} to {}", time(expect.from), time(expect.until));
    let mut signs = Vec::new();
    if let Some(wait) = &expect.wait {
        let place = expect
            .place
            .as_ref()
            .map_or_else(String::new, |place| format!(" {place}"));
        signs.push(format!("a deficit {span}, the largest part of it: {wait}{place}"));
    } else if let Some(place) = &expect.place {
        signs.push(format!("a deficit {span} at {place}"));
    }
    signs.extend(expect.held.map(|rate| format!("{rate} are left")));
    signs.extend(
        expect
            .error
            .as_ref()
            .map(|class| format!("transfers that fail with {class}")),
    );
    signs.extend(
        expect
            .finding
            .map(|finding| format!("a finding of the report: {}", finding.as_str())),
    );
    if expect.is_silent {
        signs.push("none: the challenge passes".to_owned());
    }
    signs
}
