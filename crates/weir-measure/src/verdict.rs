//! Comes to the verdict on a run.
//!
//! `fail` when a threshold does not hold (and the hold window is steady enough to say so), when independent counters
//! disagree, when an audited file differs, or when nothing was delivered at all. Else `unstable` when a threshold cannot
//! be believed or, in a run that was cut short, not be measured, when the total varies beyond
//! [`stability::CV_TOTAL_LIMIT_PERCENT`], or when the run was interrupted.
//! Else `pass`.

use crate::report::{Audit, CrossCheck, ThresholdReport, Verdict};
use crate::stability::{self, CV_TOTAL_LIMIT_PERCENT};
use crate::threshold::Evaluated;

/// What the verdict rests on.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The thresholds, evaluated.
    pub thresholds: &'a [Evaluated],
    /// The cross-checks.
    pub crosschecks: &'a [CrossCheck],
    /// The audit, if one was made.
    pub audit: Option<&'a Audit>,
    /// What was cut short and when, if the run was interrupted.
    pub interrupted: Option<&'a str>,
    /// Transfers that finished.
    pub finished: u64,
    /// Bytes of the whole run per part of the hold window, for workloads that ask for a rate; empty otherwise.
    pub parts: &'a [u64],
}

/// Returns the verdict and its reasons, at least one, the weightiest first.
pub fn decide(evidence: &Evidence<'_>) -> (Verdict, Vec<String>) {
    let mut failing = Vec::new();
    let mut doubts = Vec::new();
    let cut_short = evidence.interrupted.is_some();
    if evidence.finished == 0 && !cut_short {
        failing.push("not a single transfer finished".to_owned());
    }
    for threshold in evidence.thresholds {
        match (threshold.unstable, threshold.report.pass) {
            (true, _) => doubts.push(format!(
                "{}: parts of the hold window contradict each other, {} overall",
                threshold.report.name,
                value(threshold.report.measured, &threshold.report.unit)
            )),
            // Cut short before there was anything to measure: nobody failed.
            (false, false) if cut_short && threshold.report.measured.is_none() => {
                doubts.push(shortfall(&threshold.report));
            }
            (false, false) => failing.push(shortfall(&threshold.report)),
            (false, true) => {}
        }
    }
    for check in evidence.crosschecks.iter().filter(|check| !check.pass) {
        let difference = check.difference_ratio.unwrap_or_default() * 100.0;
        failing.push(format!(
            "{} {}: counters differ by {difference:.2} %",
            check.subject, check.quantity
        ));
    }
    if let Some(audit) = evidence.audit.filter(|audit| audit.failed > 0) {
        failing.push(format!(
            "{} of {} audited files differ from what was sent",
            audit.failed, audit.files
        ));
    }
    if let Some(text) = evidence.interrupted {
        doubts.push(text.to_owned());
    }
    if stability::varies(evidence.parts, CV_TOTAL_LIMIT_PERCENT) {
        doubts.push("the total varies too much over the hold window to be believed; repeat the run".to_owned());
    }
    if !failing.is_empty() {
        failing.append(&mut doubts);
        return (Verdict::Fail, failing);
    }
    if !doubts.is_empty() {
        return (Verdict::Unstable, doubts);
    }
    (Verdict::Pass, strengths(evidence))
}

/// Says why a run passed.
fn strengths(evidence: &Evidence<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    match evidence.thresholds.len() {
        0 => reasons.push("no threshold was set, and nothing went wrong that would make one needless".to_owned()),
        1 => reasons.push("the threshold holds".to_owned()),
        count => reasons.push(format!("all {count} thresholds hold")),
    }
    let compared = evidence.crosschecks.iter().filter_map(|check| check.difference_ratio);
    if let Some(largest) = compared.max_by(f64::total_cmp) {
        reasons.push(format!("independent counters agree within {:.3} %", largest * 100.0));
    }
    if let Some(audit) = evidence.audit {
        reasons.push(format!("all {} audited files are what was sent", audit.files));
    }
    reasons
}

fn shortfall(threshold: &ThresholdReport) -> String {
    let ThresholdReport {
        name,
        measured,
        comparison,
        asked,
        unit,
        ..
    } = threshold;
    let asked = value(Some(*asked), unit);
    match measured {
        Some(_) => format!("{name} is {}, asked {comparison} {asked}", value(*measured, unit)),
        None => format!("{name} could not be measured, asked {comparison} {asked}"),
    }
}

/// Writes a value with its unit: rates in the unit that fits, numbers with three digits.
fn value(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "no data".to_owned(),
        (Some(value), "bit/s") => crate::advice::rate(value.max(0.0) as u64),
        (Some(value), "") => digits(value),
        (Some(value), unit) => format!("{} {unit}", digits(value)),
    }
}

/// Writes at most three decimals, without needless zeros.
fn digits(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
