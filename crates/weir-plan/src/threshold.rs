//! Thresholds: limits that a run must keep to pass.

use std::fmt;

use serde::Serialize;
use weir_model::{Link, SiteName};

/// One comparison of a measured figure with an asked one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Threshold {
    /// Its name in a report: `site QMUL ratio`.
    pub name: String,
    /// The subject that is measured.
    pub subject: Subject,
    /// The metric.
    pub metric: Metric,
    /// The direction of the comparison.
    pub comparison: Comparison,
    /// The asked figure in the metric's unit, scaled where the metric is a rate.
    pub asked: f64,
}

impl Threshold {
    /// Makes a threshold; its name follows from subject and metric.
    pub fn new(subject: Subject, metric: Metric, comparison: Comparison, asked: f64) -> Threshold {
        Threshold {
            name: format!("{subject} {}", metric.as_str().replace('_', " ")),
            subject,
            metric,
            comparison,
            asked,
        }
    }

    /// Says whether a measured figure passes; one that is undefined (not a number) does not.
    pub fn passes(&self, measured: f64) -> bool {
        match self.comparison {
            Comparison::AtLeast => measured >= self.asked,
            Comparison::AtMost => measured <= self.asked,
        }
    }
}

/// The subject of a figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The whole run.
    Total,
    /// Traffic into a site; with the metric `egress_ratio`, traffic out of it.
    Site(SiteName),
    /// One link.
    Link(Link),
    /// One workload, by name.
    Workload(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Total => f.write_str("total"),
            Subject::Site(site) => write!(f, "site {site}"),
            Subject::Link(link) => write!(f, "link {link}"),
            Subject::Workload(name) => write!(f, "workload {name}"),
        }
    }
}

/// A figure that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Achieved ÷ asked rate in the hold.
    Ratio,
    /// The achieved ÷ asked rate of traffic out of a site.
    EgressRatio,
    /// Achieved rate in the hold, in bit/s.
    Achieved,
    /// Failed ÷ ended transfers.
    FailedRatio,
    /// Failed transfers.
    Failed,
    /// Finished ÷ ended transfers.
    Efficiency,
    /// Lateness of injections that 95 % do not exceed, in seconds.
    LatenessP95,
    /// Largest lateness of an injection, in seconds.
    LatenessMax,
    /// Time from the question for a rule to its last file that 95 % of the rules do not exceed, in seconds.
    RuleToOkP95,
    /// Time from the end of a rule until its copy is deleted that 95 % of the deletions do not exceed, in seconds.
    DeletionP95,
    /// Coefficient of variation of the rate achieved in the seconds of the hold: standard deviation ÷ mean.
    Variation,
    /// Largest relative difference between two counters of the same bytes.
    CrosscheckDifference,
}

/// The unit in which a metric is asked and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// From 0 to 1; nothing else is possible.
    Share,
    /// From 0, where 1 is the asked value.
    Ratio,
    /// From 0, where less is better.
    Variation,
    /// Bits per second.
    Rate,
    /// Whole numbers.
    Count,
    /// Seconds.
    Time,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 12] = [
        Metric::Ratio,
        Metric::EgressRatio,
        Metric::Achieved,
        Metric::FailedRatio,
        Metric::Failed,
        Metric::Efficiency,
        Metric::LatenessP95,
        Metric::LatenessMax,
        Metric::RuleToOkP95,
        Metric::DeletionP95,
        Metric::Variation,
        Metric::CrosscheckDifference,
    ];

    /// Gives the word of the challenge file: `failed_ratio`.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::Ratio => "ratio",
            Metric::EgressRatio => "egress_ratio",
            Metric::Achieved => "achieved",
            Metric::FailedRatio => "failed_ratio",
            Metric::Failed => "failed",
            Metric::Efficiency => "efficiency",
            Metric::LatenessP95 => "lateness_p95",
            Metric::LatenessMax => "lateness_max",
            Metric::RuleToOkP95 => "rule_to_ok_p95",
            Metric::DeletionP95 => "deletion_p95",
            Metric::Variation => "variation",
            Metric::CrosscheckDifference => "crosscheck_difference",
        }
    }

    /// Gives the unit to print behind a figure; empty for plain numbers.
    pub fn unit(self) -> &'static str {
        match self.measure() {
            Unit::Rate => "bit/s",
            Unit::Time => "s",
            Unit::Share | Unit::Ratio | Unit::Variation | Unit::Count => "",
        }
    }

    pub(crate) fn measure(self) -> Unit {
        match self {
            Metric::Ratio | Metric::EgressRatio => Unit::Ratio,
            Metric::Variation => Unit::Variation,
            Metric::FailedRatio | Metric::Efficiency | Metric::CrosscheckDifference => Unit::Share,
            Metric::Achieved => Unit::Rate,
            Metric::Failed => Unit::Count,
            Metric::LatenessP95 | Metric::LatenessMax | Metric::RuleToOkP95 | Metric::DeletionP95 => Unit::Time,
        }
    }
}

/// The direction of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// The measured value must be at least the asked one.
    AtLeast,
    /// The measured value must be at most the asked one.
    AtMost,
}

impl Comparison {
    /// Gives the sign: `>=`, `<=`.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::AtLeast => ">=",
            Comparison::AtMost => "<=",
        }
    }
}
