//! Thresholds: what a run must reach to pass.

use std::fmt;

use serde::Serialize;
use weir_model::{Link, SiteName};

/// One comparison of a measured figure with an asked one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Threshold {
    /// What a report calls it: `site QMUL ratio`.
    pub name: String,
    /// Of what the figure is taken.
    pub subject: Subject,
    /// Which figure.
    pub metric: Metric,
    /// Which way.
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

/// Of what a figure is taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The whole run.
    Total,
    /// What goes into a site; with the metric `egress_ratio`, what comes out of it.
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

/// Which figure is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Achieved ÷ asked rate in the hold.
    Ratio,
    /// The same for what comes out of a site.
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
    /// From 0, where 1 is what was asked.
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

/// Which way a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// Measured must be at least what is asked.
    AtLeast,
    /// Measured must be at most what is asked.
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
