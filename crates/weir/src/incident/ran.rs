//! The result of an incident, for people and for programs.

use serde::Serialize;
use weir_measure::expectation::Signs;

/// The two runs of an incident, as programs read them.
#[derive(Debug, Serialize)]
pub(super) struct Ran {
    pub(super) id: String,
    pub(super) world: &'static str,
    pub(super) ok: bool,
    pub(super) with: Signs,
    pub(super) remedy: Signs,
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
    lines
}
