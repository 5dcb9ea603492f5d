//! Evaluates thresholds against the figures of a run.

use crate::accounting::{Figures, Spec};
use crate::report::{CrossCheck, Subject, ThresholdReport, WorkloadKind, ratio};
use crate::stability;

/// A figure that can be held to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Achieved ÷ asked within the hold window; for a site, of what comes in.
    Ratio,
    /// The same of what goes out of a site.
    EgressRatio,
    /// Achieved rate within the hold window, bit/s.
    Achieved,
    /// Failed ÷ (finished + failed) transfers.
    FailedRatio,
    /// Finished ÷ (finished + failed) transfers.
    Efficiency,
    /// Failed transfers.
    Failed,
    /// 95th percentile of injected minus wanted time, seconds.
    LatenessP95,
    /// The largest of them, seconds.
    LatenessMax,
    /// Largest relative difference of any cross-check.
    CrosscheckDifference,
}

impl Metric {
    /// Returns the name in reports and challenge files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::EgressRatio => "egress_ratio",
            Self::Achieved => "achieved",
            Self::FailedRatio => "failed_ratio",
            Self::Efficiency => "efficiency",
            Self::Failed => "failed",
            Self::LatenessP95 => "lateness_p95",
            Self::LatenessMax => "lateness_max",
            Self::CrosscheckDifference => "crosscheck_difference",
        }
    }

    /// Returns the unit of its values; empty for a pure number.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Achieved => "bit/s",
            Self::LatenessP95 | Self::LatenessMax => "s",
            Self::Ratio
            | Self::EgressRatio
            | Self::FailedRatio
            | Self::Efficiency
            | Self::Failed
            | Self::CrosscheckDifference => "",
        }
    }
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// At least this.
    Min(f64),
    /// At most this.
    Max(f64),
}

/// A threshold as asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// What the report calls it, e.g. `site QMUL ratio`.
    pub name: String,
    /// What it is about.
    pub subject: Subject,
    /// Which figure.
    pub metric: Metric,
    /// The limit.
    pub limit: Limit,
}

/// A threshold, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// What the report shows.
    pub report: ThresholdReport,
    /// Whether the parts of the hold window contradict each other about it (see [`stability`]).
    pub unstable: bool,
}

/// Evaluates one threshold. What cannot be measured does not pass.
pub fn evaluate(threshold: &Threshold, figures: &Figures, spec: &Spec, crosschecks: &[CrossCheck]) -> Evaluated {
    let measured = match threshold.metric {
        Metric::CrosscheckDifference => largest_difference(crosschecks),
        metric => measure(&threshold.subject, metric, figures),
    };
    let (comparison, asked) = match threshold.limit {
        Limit::Min(limit) => (">=", limit),
        Limit::Max(limit) => ("<=", limit),
    };
    let pass = measured.is_some_and(|measured| match threshold.limit {
        Limit::Min(limit) => measured >= limit,
        Limit::Max(limit) => measured <= limit,
    });
    let report = ThresholdReport {
        name: threshold.name.clone(),
        subject: threshold.subject.clone(),
        metric: threshold.metric.as_str().to_owned(),
        comparison: comparison.to_owned(),
        asked,
        measured,
        unit: threshold.metric.unit().to_owned(),
        pass,
    };
    Evaluated {
        report,
        unstable: unstable(threshold, figures, spec),
    }
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
    if let Some(name) = &subject.site {
        let site = figures.sites.iter().find(|site| &site.site == name)?;
        return match metric {
            Metric::Ratio => site.ratio,
            Metric::EgressRatio => site.egress.ratio,
            Metric::Achieved => site.achieved_bps.map(|bps| bps as f64),
            _ => counts(site.finished, site.failed),
        };
    }
    if let Some(name) = &subject.link {
        let link = figures
            .links
            .iter()
            .find(|link| &format!("{}→{}", link.source, link.destination) == name)?;
        return match metric {
            Metric::Ratio => link.ratio,
            Metric::Achieved => link.achieved_bps.map(|bps| bps as f64),
            _ => counts(link.finished, link.failed),
        };
    }
    if let Some(name) = &subject.workload {
        let workload = figures.workloads.iter().find(|workload| &workload.name == name)?;
        return match (metric, &workload.kind) {
            (Metric::Ratio, WorkloadKind::Rates { ratio, .. }) => *ratio,
            (Metric::Achieved, WorkloadKind::Rates { achieved_bps, .. }) => achieved_bps.map(|bps| bps as f64),
            (Metric::LatenessP95, WorkloadKind::Rates { lateness_p95_s, .. }) => *lateness_p95_s,
            (Metric::LatenessMax, WorkloadKind::Rates { lateness_max_s, .. }) => *lateness_max_s,
            _ => counts(workload.finished, workload.failed),
        };
    }
    let totals = &figures.totals;
    match metric {
        Metric::Ratio => totals.ratio,
        Metric::Achieved => totals.achieved_bps.map(|bps| bps as f64),
        Metric::LatenessP95 => totals.lateness_p95_s,
        Metric::LatenessMax => totals.lateness_max_s,
        _ => counts(totals.finished, totals.failed),
    }
}

/// Returns the largest difference of all cross-checks; `None` when nothing could be compared.
fn largest_difference(crosschecks: &[CrossCheck]) -> Option<f64> {
    crosschecks
        .iter()
        .filter_map(|check| check.difference_ratio)
        .max_by(f64::total_cmp)
}

/// Returns whether the parts of the hold window contradict each other about a lower limit on a rate or ratio.
fn unstable(threshold: &Threshold, figures: &Figures, spec: &Spec) -> bool {
    let Limit::Min(limit) = threshold.limit else {
        return false;
    };
    let Some(length) = figures.parts.length() else {
        return false;
    };
    let (parts, asked) = if let Some(name) = &threshold.subject.site {
        let Some(site) = figures.sites.iter().position(|site| &site.site == name) else {
            return false;
        };
        (figures.parts.site(site), figures.sites[site].asked_bps)
    } else if let Some(name) = &threshold.subject.link {
        let Some(link) = spec.links.iter().position(|link| &link.name() == name) else {
            return false;
        };
        // A link whose files are few shows single files, not a rate.
        if figures.links[link].finished < MIN_FILES_PER_PART * figures.parts.total().len() as u64 {
            return false;
        }
        (figures.parts.link(link), spec.links[link].asked)
    } else if threshold.subject.workload.is_some() {
        return false;
    } else {
        (figures.parts.total(), figures.totals.asked_bps)
    };
    let limit_bps = match (threshold.metric, asked) {
        (Metric::Ratio, Some(asked)) => limit_rate(asked, limit),
        (Metric::Achieved, _) => limit_rate(1, limit),
        _ => return false,
    };
    stability::contradicts(parts, length, limit_bps)
}

/// Fewest finished files of a link per part for its parts to be judged.
const MIN_FILES_PER_PART: u64 = 5;

/// Returns `asked × limit` in whole bit/s.
#[expect(
    clippy::cast_precision_loss,
    reason = "one multiplication, the same on every machine"
)]
fn limit_rate(asked: u64, limit: f64) -> u64 {
    (asked as f64 * limit).max(0.0) as u64
}
