//! The verdict on a run.
//!
//! - `fail`: a threshold does not hold in a steady hold window, independent counters disagree, an audited file differs,
//!   an audit read no file, or nothing was delivered at all.
//! - `unstable`: a threshold is unstable or, in a run that was cut short, not measured; the total varies beyond
//!   [`stability::CV_TOTAL_LIMIT_PERCENT`]; or the run was interrupted.
//! - `none`: there is no threshold.
//! - `pass`: every other run.

use weir_plan::Metric;
use weir_units::BitRate;

use crate::crosscheck::TOLERANCE;
use crate::report::{Audit, CrossCheck, ThresholdReport, Verdict};
use crate::stability::{self, CV_TOTAL_LIMIT_PERCENT};
use crate::threshold::Evaluated;

/// The evidence of a verdict.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The thresholds, evaluated.
    pub thresholds: &'a [Evaluated],
    /// The cross-checks.
    pub crosschecks: &'a [CrossCheck],
    /// The audit, if one was made.
    pub audit: Option<&'a Audit>,
    /// The phase that was cut short and the time, if the run was interrupted.
    pub interrupted: Option<&'a str>,
    /// Cells of copy matrices that did not work, and all of them.
    pub cells: (u64, u64),
    /// Transfers that finished.
    pub finished: u64,
    /// Bytes of the whole run per part of the hold window, for workloads that ask for a rate; empty otherwise.
    pub parts: &'a [u64],
}

/// Returns the verdict and its reasons, at least one, the weightiest first. Failed cells of a copy matrix come before
/// all else, whatever the verdict.
pub fn decide(evidence: &Evidence<'_>) -> (Verdict, Vec<String>) {
    let (verdict, mut reasons) = weigh(evidence);
    let (failed, all) = evidence.cells;
    if failed > 0 {
        reasons.insert(0, format!("{failed} of {all} cells of the copy matrix failed"));
    }
    (verdict, reasons)
}

fn weigh(evidence: &Evidence<'_>) -> (Verdict, Vec<String>) {
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
            // The run was cut short before the first measurement: the threshold did not fail.
            (false, false) if cut_short && threshold.report.measured.is_none() => {
                doubts.push(shortfall(&threshold.report, evidence.crosschecks));
            }
            (false, false) => failing.push(shortfall(&threshold.report, evidence.crosschecks)),
            (false, true) => {}
        }
    }
    for check in evidence.crosschecks.iter().filter(|check| check.pass == Some(false)) {
        failing.push(format!("{} {}: {}", check.subject, check.quantity, disagreement(check)));
    }
    match evidence.audit {
        Some(audit) if audit.failed > 0 => failing.push(format!(
            "{} of {} audited files differ from the sent ones",
            audit.failed, audit.files
        )),
        Some(audit) if audit.files == 0 => {
            let text = format!("the audit of {} % read no file back", digits(audit.asked_percent));
            let list = if cut_short { &mut doubts } else { &mut failing };
            list.push(text);
        }
        _ => {}
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
    let verdict = if evidence.thresholds.is_empty() {
        Verdict::None
    } else {
        Verdict::Pass
    };
    (verdict, strengths(evidence))
}

/// The reasons why a run passed, or the figures of a run without verdict.
fn strengths(evidence: &Evidence<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    match evidence.thresholds.len() {
        0 => reasons.push("no verdict: nothing was asked, for there is no threshold".to_owned()),
        1 => reasons.push("the threshold holds".to_owned()),
        count => reasons.push(format!("all {count} thresholds hold")),
    }
    reasons.extend(agreement(evidence.crosschecks));
    if let Some(audit) = evidence.audit {
        reasons.push(format!("all {} audited files equal the sent ones", audit.files));
    }
    reasons
}

/// Says which of the counters of a comparison disagree.
fn disagreement(check: &CrossCheck) -> String {
    if check.unexplained_ratio.is_some_and(|ratio| ratio > TOLERANCE) {
        let difference = check.difference_ratio.unwrap_or_default() * 100.0;
        return format!("counters differ by {difference:.2} %");
    }
    let difference = check.sockets_difference_ratio.unwrap_or_default() * 100.0;
    let tolerance = check.sockets_tolerance_ratio.unwrap_or_default() * 100.0;
    format!(
        "what the sockets carried differs from the storage's counter by {difference:.2} %, more than {tolerance:.2} %"
    )
}

/// Describes the agreement of independent counters, with the number of comparisons. Undecided and empty comparisons do
/// not count.
fn agreement(crosschecks: &[CrossCheck]) -> Option<String> {
    let agreed = crosschecks.iter().filter(|check| check.pass == Some(true));
    let compared: Vec<f64> = agreed.filter_map(|check| check.difference_ratio).collect();
    let (count, all) = (compared.len(), crosschecks.len());
    let largest = compared.into_iter().max_by(f64::total_cmp)? * 100.0;
    let of = if count == all {
        String::new()
    } else {
        format!(" in {count} of {all} comparisons; the others are open or have fewer than two")
    };
    Some(format!("independent counters agree within {largest:.3} %{of}"))
}

fn shortfall(threshold: &ThresholdReport, crosschecks: &[CrossCheck]) -> String {
    let ThresholdReport {
        name,
        measured,
        comparison,
        asked,
        unit,
        ..
    } = threshold;
    let asked = value(Some(*asked), unit);
    if measured.is_some() {
        return format!("{name} is {}, asked {comparison} {asked}", value(*measured, unit));
    }
    let is_of_counters = threshold.metric == Metric::CrosscheckDifference.as_str();
    let lone = crosschecks
        .iter()
        .filter(|check| check.difference_ratio.is_none())
        .count();
    let why = if is_of_counters && lone > 0 {
        format!(
            ": {lone} of {} comparisons have fewer than two counters",
            crosschecks.len()
        )
    } else {
        String::new()
    };
    format!("{name} could not be measured{why}, asked {comparison} {asked}")
}

/// Writes a value with its unit: rates in the unit that fits, numbers with three digits.
fn value(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "no data".to_owned(),
        (Some(value), "bit/s") => crate::advice::rate(BitRate(value.max(0.0) as u64)),
        (Some(value), "") => digits(value),
        (Some(value), unit) => format!("{} {unit}", digits(value)),
    }
}

/// Writes at most three decimals, without needless zeros.
fn digits(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crosscheck::{Counted, check};

    const NOTHING: Evidence<'_> = Evidence {
        thresholds: &[],
        crosschecks: &[],
        audit: None,
        interrupted: None,
        cells: (0, 0),
        finished: 100,
        parts: &[],
    };

    fn kept(metric: Metric, measured: Option<f64>, pass: bool) -> Evaluated {
        Evaluated {
            report: ThresholdReport {
                name: "total".to_owned(),
                subject: crate::report::Subject::default(),
                metric: metric.as_str().to_owned(),
                comparison: "≤".to_owned(),
                asked: 0.001,
                measured,
                unit: String::new(),
                pass,
            },
            unstable: false,
        }
    }

    fn counted(transfer: Option<u64>, receiving: Option<u64>) -> CrossCheck {
        let counted = Counted {
            subject: "A".to_owned(),
            quantity: "bytes received".to_owned(),
            transfer_service: transfer,
            receiving_storage: receiving,
            ..Counted::default()
        };
        check(counted, TOLERANCE)
    }

    fn audit(files: u64, failed: u64) -> Audit {
        Audit {
            asked_percent: 0.5,
            files,
            failed,
            bytes: files * 10,
            failed_at: std::collections::BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// A run of which nothing was asked would pass.
    #[test]
    fn without_a_threshold_there_is_no_verdict() {
        let (verdict, reasons) = decide(&NOTHING);
        assert_eq!(verdict, Verdict::None);
        assert_eq!(reasons, ["no verdict: nothing was asked, for there is no threshold"]);
        // Failures are still listed.
        let evidence = Evidence {
            crosschecks: &[counted(Some(1_000), Some(998))],
            ..NOTHING
        };
        assert_eq!(decide(&evidence).0, Verdict::Fail);
    }

    /// A counter that is off by 0.2 % would pass, or one without a counterpart.
    #[test]
    fn counters_that_differ_fail_and_one_alone_proves_nothing() {
        let thresholds = [kept(Metric::Ratio, Some(0.0), true)];
        let with = |crosschecks: &[CrossCheck]| {
            decide(&Evidence {
                thresholds: &thresholds,
                crosschecks,
                ..NOTHING
            })
        };
        let (verdict, reasons) = with(&[counted(Some(100_000), Some(100_200))]);
        assert_eq!(
            (verdict, reasons[0].as_str()),
            (Verdict::Fail, "A bytes received: counters differ by 0.20 %")
        );
        let (verdict, reasons) = with(&[counted(Some(100_000), None)]);
        assert_eq!(
            (verdict, reasons),
            (Verdict::Pass, vec!["the threshold holds".to_owned()])
        );
        let (_, reasons) = with(&[counted(Some(100), Some(100)), counted(Some(100), None)]);
        assert_eq!(
            reasons[1],
            "independent counters agree within 0.000 % in 1 of 2 comparisons; the others are open or have fewer than two"
        );
    }

    /// A difference that repeated attempts may explain would be told as agreement.
    #[test]
    fn an_open_comparison_is_no_agreement() {
        let thresholds = [kept(Metric::Ratio, Some(0.0), true)];
        let open = Counted {
            transfer_service: Some(100),
            receiving_storage: Some(150),
            apart: crate::crosscheck::Apart {
                unseen: 50,
                ..Default::default()
            },
            ..Counted::default()
        };
        let crosschecks = [counted(Some(100), Some(100)), check(open, TOLERANCE)];
        assert_eq!(crosschecks[1].pass, None);
        let (verdict, reasons) = decide(&Evidence {
            thresholds: &thresholds,
            crosschecks: &crosschecks,
            ..NOTHING
        });
        assert_eq!(verdict, Verdict::Pass);
        assert!(
            reasons[1].starts_with("independent counters agree within 0.000 % in 1 of 2"),
            "{reasons:?}"
        );
    }

    /// A threshold on the agreement of counters would hold where most of the counters are missing.
    #[test]
    fn a_threshold_that_measured_nothing_fails_and_says_why() {
        let evidence = Evidence {
            thresholds: &[kept(Metric::CrosscheckDifference, None, false)],
            crosschecks: &[counted(Some(100), Some(100)), counted(Some(100), None)],
            ..NOTHING
        };
        let (verdict, reasons) = decide(&evidence);
        assert_eq!(verdict, Verdict::Fail);
        assert_eq!(
            reasons[0],
            "total could not be measured: 1 of 2 comparisons have fewer than two counters, asked ≤ 0.001"
        );
    }

    /// An audit of no file would be a proof, or a damaged file no reason to fail.
    #[test]
    fn an_audit_has_to_read_and_to_find_what_was_sent() {
        let thresholds = [kept(Metric::Ratio, Some(0.0), true)];
        let with = |audit: &Audit, interrupted: Option<&str>| {
            let (verdict, reasons) = decide(&Evidence {
                thresholds: &thresholds,
                audit: Some(audit),
                interrupted,
                ..NOTHING
            });
            (verdict, reasons[0].clone())
        };
        let (verdict, reason) = with(&audit(0, 0), None);
        assert_eq!(
            (verdict, reason.as_str()),
            (Verdict::Fail, "the audit of 0.5 % read no file back")
        );
        assert_eq!(with(&audit(0, 0), Some("interrupted")).0, Verdict::Unstable);
        let (verdict, reason) = with(&audit(7, 1), None);
        assert_eq!(
            (verdict, reason.as_str()),
            (Verdict::Fail, "1 of 7 audited files differ from the sent ones")
        );
        assert_eq!(with(&audit(7, 0), None).0, Verdict::Pass);
    }

    /// A matrix with holes would be summed up as a pass without a word of them.
    #[test]
    fn failed_cells_are_told_first_whatever_the_verdict() {
        let thresholds = [kept(Metric::Ratio, Some(0.0), true)];
        let (verdict, reasons) = decide(&Evidence {
            thresholds: &thresholds,
            cells: (3, 36),
            ..NOTHING
        });
        assert_eq!(
            (verdict, reasons[0].as_str()),
            (Verdict::Pass, "3 of 36 cells of the copy matrix failed")
        );
    }
}
