//! Evaluates thresholds against the figures of a run.

use weir_plan::{Comparison, Metric, Subject, Threshold};
use weir_units::BitRate;

use crate::accounting::Figures;
use crate::chain::Chain;
use crate::chain_report::DeletionReport;
use crate::evenness::Evenness;
use crate::report::{self, CrossCheck, ThresholdReport, WorkloadKind, ratio};
use crate::spec::Spec;
use crate::stability;

/// A threshold, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// The row of the report.
    pub report: ThresholdReport,
    /// Whether the parts of the hold window contradict each other about it (see [`stability`]).
    pub unstable: bool,
}

/// Measurements other than transfers.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// Comparisons of independent counters.
    pub crosschecks: &'a [CrossCheck],
    /// Rules, files and deletions of the catalogue.
    pub chain: &'a Chain,
    /// The catalogue's deletions of copies that rules had asked for.
    pub deletions: Option<&'a DeletionReport>,
    /// How even the hold was.
    pub evenness: Option<&'a Evenness>,
}

/// Evaluates one threshold. A figure that cannot be measured does not pass.
pub fn evaluate(threshold: &Threshold, figures: &Figures, spec: &Spec, beside: &Beside<'_>) -> Evaluated {
    let measured = match threshold.metric {
        Metric::CrosscheckDifference => largest_difference(beside.crosschecks),
        Metric::RuleToOkP95 => beside.chain.rule_to_ok_p95(),
        Metric::DeletionP95 => beside.deletions.and_then(DeletionReport::p95),
        Metric::Variation => beside.evenness.and_then(|evenness| match &threshold.subject {
            Subject::Site(site) => evenness.site(site.as_str()),
            _ => evenness.total.achieved,
        }),
        metric => measure(&threshold.subject, metric, figures),
    };
    let report = ThresholdReport {
        name: threshold.name.clone(),
        subject: shown(&threshold.subject),
        metric: threshold.metric.as_str().to_owned(),
        comparison: threshold.comparison.sign().to_owned(),
        asked: threshold.asked,
        measured,
        unit: threshold.metric.unit().to_owned(),
        pass: measured.is_some_and(|measured| threshold.passes(measured)),
    };
    Evaluated {
        report,
        unstable: unstable(threshold, figures, spec),
    }
}

/// Returns the subject as the report shows it.
fn shown(subject: &Subject) -> report::Subject {
    let mut shown = report::Subject::default();
    match subject {
        Subject::Total => shown.total = true,
        Subject::Site(site) => shown.site = Some(site.to_string()),
        Subject::Link(link) => shown.link = Some(link.to_string()),
        Subject::Workload(name) => shown.workload = Some(name.clone()),
    }
    shown
}

/// Returns the figure; `None` when there is none.
#[expect(clippy::cast_precision_loss, reason = "limits are written with a few digits")]
fn measure(subject: &Subject, metric: Metric, figures: &Figures) -> Option<f64> {
    let counts = |finished: u64, failed: u64| match metric {
        Metric::FailedRatio => ratio(failed, finished + failed),
        Metric::Efficiency => ratio(finished, finished + failed),
        Metric::Failed => Some(failed as f64),
        _ => None,
    };
    match subject {
        Subject::Site(name) => {
            let site = figures.sites.iter().find(|site| site.site == name.as_str())?;
            match metric {
                Metric::Ratio => site.ratio,
                Metric::EgressRatio => site.egress.ratio,
                Metric::Achieved => site.achieved_bps.map(BitRate::as_f64),
                _ => counts(site.finished, site.failed),
            }
        }
        Subject::Link(name) => {
            let is_it = |source: &str, destination: &str| {
                source == name.source.as_str() && destination == name.destination.as_str()
            };
            let mut links = figures.links.iter();
            let link = links.find(|link| is_it(&link.source, &link.destination))?;
            match metric {
                Metric::Ratio => link.ratio,
                Metric::Achieved => link.achieved_bps.map(BitRate::as_f64),
                _ => counts(link.finished, link.failed),
            }
        }
        Subject::Workload(name) => {
            let workload = figures.workloads.iter().find(|workload| &workload.name == name)?;
            match (metric, &workload.kind) {
                (Metric::Ratio, WorkloadKind::Rates { ratio, .. }) => *ratio,
                (Metric::Achieved, WorkloadKind::Rates { achieved_bps, .. }) => achieved_bps.map(BitRate::as_f64),
                (Metric::LatenessP95, WorkloadKind::Rates { lateness_p95_s, .. }) => *lateness_p95_s,
                (Metric::LatenessMax, WorkloadKind::Rates { lateness_max_s, .. }) => *lateness_max_s,
                _ => counts(workload.finished, workload.failed),
            }
        }
        Subject::Total => {
            let totals = &figures.totals;
            match metric {
                Metric::Ratio => totals.ratio,
                Metric::Achieved => totals.achieved_bps.map(BitRate::as_f64),
                Metric::LatenessP95 => totals.lateness_p95_s,
                Metric::LatenessMax => totals.lateness_max_s,
                _ => counts(totals.finished, totals.failed),
            }
        }
    }
}

/// Returns the largest difference of all cross-checks; `None` when one of them had nothing to compare, or there is none.
fn largest_difference(crosschecks: &[CrossCheck]) -> Option<f64> {
    let differences: Option<Vec<f64>> = crosschecks.iter().map(|check| check.unexplained_ratio).collect();
    differences?.into_iter().max_by(f64::total_cmp)
}

/// Returns whether the parts of the hold window contradict each other about a lower limit on a rate or ratio.
fn unstable(threshold: &Threshold, figures: &Figures, spec: &Spec) -> bool {
    if threshold.comparison != Comparison::AtLeast {
        return false;
    }
    let limit = threshold.asked;
    let Some(length) = figures.parts.length() else {
        return false;
    };
    let (parts, asked) = match &threshold.subject {
        Subject::Site(name) => {
            let Some(site) = figures.sites.iter().position(|site| site.site == name.as_str()) else {
                return false;
            };
            (figures.parts.site(site), figures.sites[site].asked_bps)
        }
        Subject::Link(name) => {
            let Some(link) = spec.link(name) else {
                return false;
            };
            // With few files, a link's rate shows single files.
            if figures.links[link].finished < MIN_FILES_PER_PART * figures.parts.total().len() as u64 {
                return false;
            }
            (figures.parts.link(link), spec.links[link].asked)
        }
        Subject::Workload(_) => return false,
        Subject::Total => (figures.parts.total(), figures.totals.asked_bps),
    };
    let limit = match (threshold.metric, asked) {
        (Metric::Ratio, Some(asked)) => limit_rate(asked, limit),
        (Metric::Achieved, _) => limit_rate(BitRate(1), limit),
        _ => return false,
    };
    stability::contradicts(parts, length, limit)
}

/// Fewest finished files of a link per part for its parts to be judged.
const MIN_FILES_PER_PART: u64 = 5;

/// Returns `asked × limit`.
fn limit_rate(asked: BitRate, limit: f64) -> BitRate {
    BitRate((asked.as_f64() * limit).max(0.0) as u64)
}
