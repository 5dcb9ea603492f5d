//! `weir why`: the causes that held the links of a run back.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::json;
use weir_challenge::{WHY_FILE, WhySoFar};
use weir_measure::Report;
use weir_measure::diagnosis::{Diagnosis, Evidence, LinkLedger, Statement, diagnose};
use weir_units::{BitRate, duration};

use crate::cli::WhyArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::report::read_run;

/// Causes of one link that are shown.
const SHOWN: usize = 8;

/// Prints the statements about a run, or about one of its links.
pub(crate) fn run(arguments: &WhyArguments, output: &Output) -> Result<Exit, Failure> {
    let report = read_run(&arguments.run)?;
    let link = arguments.link.as_deref().map(|link| known(link, &report)).transpose()?;
    let Diagnosis { statements, ledger } = of(&report);
    let so_far = so_far(&arguments.run, &report);
    let (statements, withdrawn) = so_far.map_or((statements, report.withdrawn.clone()), |why| {
        (why.statements, why.withdrawn)
    });
    let at = arguments.at.map(|at| at.as_secs_f64());
    let is_meant = |statement: &&Statement| {
        let has_link = link.as_ref().is_none_or(|link| statement.links.contains(link));
        has_link && at.is_none_or(|at| (statement.from_s..statement.until_s).contains(&at))
    };
    let statements: Vec<&Statement> = statements.iter().filter(is_meant).collect();
    let ledger: Vec<&LinkLedger> = ledger
        .iter()
        .filter(|of| link.as_ref().is_none_or(|link| of.link == *link))
        .collect();
    if statements.is_empty() {
        let what = link.clone().unwrap_or_else(|| report.challenge.clone());
        let when = at.map_or_else(String::new, |at| format!(" at {}", moment(at)));
        output.line(format!("{what}{when}: nothing is named that held it back"));
    }
    for (number, statement) in statements.iter().enumerate() {
        if number > 0 {
            output.line("");
        }
        lines(statement).iter().for_each(|line| output.line(line));
    }
    if link.is_some() {
        ledger.iter().for_each(|of| balance(of, at, output));
    }
    if link.is_none() && at.is_none() {
        for change in &withdrawn {
            output.line(format!("{} {}", moment(change.at_s), change.sentence()));
        }
    }
    output.done(&json!({ "statements": statements, "withdrawn": withdrawn, "ledger": ledger }));
    Ok(Exit::Done)
}

/// The diagnosis that a run under way keeps.
fn so_far(run: &Path, report: &Report) -> Option<WhySoFar> {
    let text = std::fs::read(run.join(WHY_FILE)).ok().filter(|_| report.incomplete)?;
    serde_json::from_slice(&text).ok()
}

/// The diagnosis of a report; one of an earlier build is made now.
pub(crate) fn of(report: &Report) -> Diagnosis {
    if report.statements.is_empty() && report.ledger.is_empty() {
        return diagnose(report);
    }
    Diagnosis {
        statements: report.statements.clone(),
        ledger: report.ledger.clone(),
    }
}

/// The name of a link as reports have it.
fn known(link: &str, report: &Report) -> Result<String, Failure> {
    let name = link.replace("->", "→").replace(" → ", "→");
    if report.series.links.contains_key(&name) {
        return Ok(name);
    }
    let some: Vec<&str> = report.series.links.keys().take(SHOWN).map(String::as_str).collect();
    let error = anyhow!("the run has no link {link}");
    Err(Failure::bad_input(error).with_remedy(format!("one of {}", some.join(", "))))
}

/// A statement with its evidence.
fn lines(statement: &Statement) -> Vec<String> {
    let mut lines = vec![statement.text.clone()];
    let evidence = statement
        .evidence
        .iter()
        .map(|evidence| format!("  {}", figure(evidence)));
    lines.extend(evidence);
    for place in &statement.via {
        lines.push(format!("  they waited for slots of {place}; the cause is behind them"));
    }
    if statement.links.len() > 2 {
        lines.push(format!("  links: {}", statement.links.join(", ")));
    }
    lines.push(format!("  to settle: {}", statement.settle));
    lines.push(format!("  to do: {}", statement.advice));
    lines
}

fn figure(evidence: &Evidence) -> String {
    let place = evidence
        .place
        .as_ref()
        .map_or_else(String::new, |place| format!(" at {place}"));
    let show = |value: f64| match evidence.unit.as_str() {
        "bit/s" => format!("{:.2}", BitRate(value.max(0.0) as u64)),
        _ => value.to_string(),
    };
    let unit = if evidence.unit == "bit/s" { "" } else { &evidence.unit };
    let usual = evidence
        .usual
        .map_or_else(String::new, |usual| format!(", usually {}", show(usual)));
    let value = show(evidence.value);
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{place}: {value}{space}{unit}{usual}", evidence.signal)
}

/// The missing bits of a link, by cause: of the hold, or of one bin.
fn balance(ledger: &LinkLedger, at: Option<f64>, output: &Output) {
    let bin = |at: f64| ((at / ledger.bin_s) as usize).checked_sub(ledger.first_bin as usize);
    let sum = |bits: &[i64]| match at {
        None => bits.iter().sum::<i64>(),
        Some(at) => bin(at).and_then(|bin| bits.get(bin)).copied().unwrap_or_default(),
    };
    let seconds = if at.is_some() {
        1.0
    } else {
        ledger.asked_bits.len() as f64
    } * ledger.bin_s;
    let rate = |bits: i64| format!("{:.2}", BitRate((bits.max(0) as f64 / seconds) as u64));
    let (asked, achieved) = (sum(&ledger.asked_bits), sum(&ledger.achieved_bits));
    let when = at.map_or_else(|| "in the hold".to_owned(), |at| format!("at {}", moment(at)));
    output.line("");
    output.line(format!(
        "{} {when}: asked {}, got {}",
        ledger.link,
        rate(asked),
        rate(achieved)
    ));
    for cause in ledger.causes.iter().take(SHOWN) {
        let bits = sum(&cause.bits);
        if bits > 0 {
            let place = cause
                .place
                .as_ref()
                .map_or_else(String::new, |place| format!(" at {place}"));
            output.line(format!("  {:>14}  {}{place}", rate(bits), cause.class));
        }
    }
    let rest = sum(&ledger.rest_bits);
    let word = if rest < 0 { "made up for" } else { "unexplained" };
    output.line(format!("  {:>14}  {word}", rate(rest.abs())));
}

fn moment(seconds: f64) -> String {
    duration::format(Duration::from_secs(seconds.max(0.0) as u64))
}
