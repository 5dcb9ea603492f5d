//! The result of an incident, for people and for programs.

use serde::Serialize;
use weir_measure::Report;
use weir_measure::diagnosis::{Truth, named};
use weir_measure::expectation::Signs;
use weir_plan::Incident;

/// The two runs of an incident, as programs read them.
#[derive(Debug, Serialize)]
pub(super) struct Ran {
    pub(super) id: String,
    pub(super) world: &'static str,
    pub(super) ok: bool,
    pub(super) with: Signs,
    pub(super) remedy: Signs,
    pub(super) diagnosis: Diagnosed,
}

/// The diagnosis of the run with the incident.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosed {
    /// Whether its surest statement names the cause, its place, its time and the rate that was left.
    pub(super) right: bool,
    /// The part of it that is wrong.
    pub(super) wrong: Option<String>,
    /// Its sentences, the surest first.
    pub(super) said: Vec<String>,
}

impl Diagnosed {
    pub(super) fn of(incident: &Incident, truths: Vec<Truth>, report: &Report) -> Self {
        let judged = named(incident, truths, report);
        Self {
            right: judged.is_right,
            wrong: judged.wrong,
            said: report
                .statements
                .iter()
                .map(|statement| statement.text.clone())
                .collect(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let said = self.said.first().map_or("nothing", String::as_str);
        let mut lines = vec![format!("    diagnosis: {said}")];
        lines.extend(self.wrong.iter().map(|wrong| format!("    not as expected: {wrong}")));
        lines
    }
}

pub(super) fn lines(ran: &Ran) -> Vec<String> {
    let percent = |ratio: Option<f64>| {
        ratio.map_or_else(
            || "nothing asked".to_owned(),
            |ratio| format!("{:.0} %", ratio.max(0.0) * 100.0),
        )
    };
    let cause = ran.with.causes.first().filter(|(_, share)| *share >= 0.01);
    let cause = cause.map_or_else(String::new, |(cause, _)| format!(", most of it: {cause}"));
    let mark = if ran.ok { '✓' } else { '✗' };
    let mut lines = vec![format!(
        "{mark} {:<8} missed {}{cause}; with the remedy {}",
        ran.id,
        percent(ran.with.missed_ratio),
        percent(ran.remedy.missed_ratio)
    )];
    let wrong = ran.with.wrong.iter().chain(&ran.remedy.wrong);
    lines.extend(wrong.map(|wrong| format!("    {wrong}")));
    lines.extend(ran.diagnosis.lines());
    lines
}
