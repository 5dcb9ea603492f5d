//! `weir fault …`: faults of a run under way.

use std::path::Path;

use serde_json::json;
use toml::{Table, Value};
use weir_challenge::faults::orders::{self, FaultState, OrderError};
use weir_plan::FaultKind;
use weir_plan::fault::WAITING;

use crate::cli::{FaultAddArguments, FaultClearArguments, FaultCommand, FaultListArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: FaultCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        FaultCommand::List(arguments) => list(&arguments, output),
        FaultCommand::Add(arguments) => add(&arguments, output),
        FaultCommand::Clear(arguments) => clear(&arguments, output),
    }
}

fn list(arguments: &FaultListArguments, output: &Output) -> Result<Exit, Failure> {
    let Some(run) = &arguments.run else {
        kinds(output);
        return Ok(Exit::Done);
    };
    let states = orders::states(run).map_err(|error| failure(error, run))?;
    states.faults.iter().for_each(|fault| output.line(line(fault)));
    if states.faults.is_empty() {
        output.line("no faults");
    }
    output.done(&states);
    Ok(Exit::Done)
}

/// Every kind, with its places, its key and its effect.
fn kinds(output: &Output) {
    let places = |kind: &FaultKind| {
        kind.row()
            .places
            .iter()
            .map(|place| place.key())
            .collect::<std::collections::BTreeSet<_>>()
    };
    for kind in FaultKind::ALL {
        let row = kind.row();
        let key = row.gauge.key().unwrap_or("-");
        let places: Vec<&str> = places(kind).into_iter().collect();
        output.line(format!(
            "{:<17} {:<30} {:<7} {}",
            kind.as_str(),
            places.join(", "),
            key,
            row.meaning.replace('`', "")
        ));
    }
    for (kind, room) in WAITING {
        output.line(format!("{kind:<17} waits for {room}"));
    }
    let told = |kind: &FaultKind| {
        let row = kind.row();
        json!({ "kind": kind.as_str(), "places": places(kind), "key": row.gauge.key(), "meaning": row.meaning, "incidents": row.serves })
    };
    let waiting: Vec<_> = WAITING
        .iter()
        .map(|(kind, room)| json!({ "kind": kind, "needs": room }))
        .collect();
    output.done(&json!({ "kinds": FaultKind::ALL.iter().map(told).collect::<Vec<_>>(), "waiting": waiting }));
}

fn line(fault: &FaultState) -> String {
    let amount = fault
        .amount
        .as_ref()
        .map_or_else(String::new, |amount| format!(" {amount}"));
    let state = match (fault.level > 0.0, fault.next_s) {
        (true, Some(next)) => format!("on, changes at {next:.1} s"),
        (true, None) => "on".to_owned(),
        (false, Some(next)) => format!("off, changes at {next:.1} s"),
        (false, None) => "over".to_owned(),
    };
    let acted = fault
        .acted
        .as_ref()
        .map_or_else(String::new, |acted| format!("; {acted}"));
    format!(
        "{:<17} {} at {}{amount}: {state}{acted}",
        fault.name, fault.kind, fault.place
    )
}

fn add(arguments: &FaultAddArguments, output: &Output) -> Result<Exit, Failure> {
    let name = orders::add(&arguments.run, &table(arguments)).map_err(|error| failure(error, &arguments.run))?;
    output.line(format!(
        "{name} acts; weir fault clear {} {name} ends it",
        arguments.run.display()
    ));
    output.done(&json!({ "name": name }));
    Ok(Exit::Done)
}

/// The fault in the words of a challenge file.
fn table(arguments: &FaultAddArguments) -> Table {
    let mut table = Table::new();
    let texts = [
        ("kind", &Some(arguments.kind.clone())),
        ("name", &arguments.name),
        ("for", &arguments.length),
        ("rse", &arguments.rse),
        ("site", &arguments.site),
        ("link", &arguments.link),
        ("service", &arguments.service),
        ("workload", &arguments.workload),
        ("way", &arguments.way),
        ("rate", &arguments.rate),
        ("delay", &arguments.delay),
        ("size", &arguments.size),
        ("error", &arguments.error),
        ("shape", &arguments.shape),
        ("rise", &arguments.rise),
        ("period", &arguments.period),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            table.insert(key.to_owned(), Value::from(text.as_str()));
        }
    }
    for (key, number) in [
        ("share", arguments.share),
        ("factor", arguments.factor),
        ("on", arguments.on),
    ] {
        if let Some(number) = number {
            table.insert(key.to_owned(), Value::from(number));
        }
    }
    if let Some(limit) = arguments.limit {
        table.insert("limit".to_owned(), Value::from(i64::from(limit)));
    }
    table
}

fn clear(arguments: &FaultClearArguments, output: &Output) -> Result<Exit, Failure> {
    let ended = orders::clear(&arguments.run, &arguments.names).map_err(|error| failure(error, &arguments.run))?;
    if ended.is_empty() {
        output.line("no fault was on");
    }
    ended.iter().for_each(|name| output.line(format!("{name} is over")));
    output.done(&json!({ "cleared": ended }));
    Ok(Exit::Done)
}

fn failure(error: OrderError, run: &Path) -> Failure {
    match error {
        OrderError::Invalid(problems) => {
            // The file is the run's own: only the key and the text are the user's.
            let told: Vec<String> = problems
                .iter()
                .map(|problem| {
                    format!(
                        "{}: {}; {}",
                        problem.key.trim_start_matches("fault."),
                        problem.message,
                        problem.remedy
                    )
                })
                .collect();
            Failure::problems("the fault", &told)
        }
        OrderError::NoRun(_) => {
            Failure::bad_input(error).with_remedy("name the folder that weir challenge run has told")
        }
        OrderError::Over(_) => {
            Failure::could_not_run(error).with_remedy(format!("its report is {}/report.html", run.display()))
        }
        OrderError::Refused(_) => Failure::bad_input(error).with_remedy("see weir fault list"),
        OrderError::Silent(_) => {
            Failure::could_not_run(error).with_remedy("wait until its ramp begins, or see its run.log")
        }
        OrderError::Access { .. } => Failure::could_not_run(error),
    }
}
