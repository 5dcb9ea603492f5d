//! Policies side by side on the same plan, with an estimate of the optimum.

use std::fmt;

use serde::Serialize;
use weir_measure::chain_report::ChainReport;
use weir_measure::diagnosis::{LinkLedger, Statement, shares};
use weir_measure::report::{Build, LinkReport, Report, ThresholdReport, Totals, WorkloadReport};
use weir_plan::Metric;
use weir_units::BitRate;
use weir_world::CauseClass;

use crate::optimum::{Optimum, Span, optimum};
use crate::policies::{Policy, imitation_limits};
use crate::report::report;
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::spec::CatalogKind;
use crate::world::{Listeners, Probe, run_observed};

/// Share of the asked or possible rate from which on a site counts as not held back.
const CLOSE: f64 = 0.95;

/// Causes of a site that are named, and the least part of the missing bits of one.
const NAMED: usize = 2;
const PART: f64 = 0.05;

/// Scheduler and catalogue of one run of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contender {
    /// The scheduler.
    pub policy: Policy,
    /// The catalogue, where the plan makes rules.
    pub catalog: Option<CatalogKind>,
}

impl Contender {
    /// The contenders of a plan, in the order of a comparison: every policy, or, for a plan with rules, Weir's
    /// scheduler and the imitation of FTS, each with both catalogues.
    pub fn all(plan: &SimPlan) -> [Contender; 4] {
        if !plan.makes_rules() {
            return Policy::ALL.map(|policy| Contender { policy, catalog: None });
        }
        let with = |policy, catalog| Contender {
            policy,
            catalog: Some(catalog),
        };
        [
            with(Policy::Weir, CatalogKind::Weir),
            with(Policy::Fts, CatalogKind::Weir),
            with(Policy::Weir, CatalogKind::Rucio),
            with(Policy::Fts, CatalogKind::Rucio),
        ]
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.catalog {
            None => write!(f, "{}", self.policy),
            Some(catalog) => write!(f, "{} + {catalog}", self.policy),
        }
    }
}

/// Every policy on one plan.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The challenge's name.
    pub challenge: String,
    /// The purpose of the challenge; may be empty.
    pub description: String,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The factor on rates.
    pub scale: f64,
    /// Links that something is moved over.
    pub n_links: u64,
    /// Rate asked in the hold, of all links; zero for a plan of steps alone.
    pub asked_bps: BitRate,
    /// Estimated optimum: the rate that a scheduler with full knowledge could have moved ([`crate::optimum`]); `null`
    /// if it could not be computed.
    pub optimum_bps: Option<BitRate>,
    /// The same in the course of time: it changes where asks or capacities do.
    pub optimum_spans: Vec<Span>,
    /// Resources that are full in the optimum for most of the hold, with the share of the hold.
    pub full: Vec<(String, f64)>,
    /// Whether all policies run under the same limits, in words.
    pub limits: String,
    /// Parameters of the simulated world that were not measured, as its file says.
    pub assumed: Vec<String>,
    /// The policies, in the order of [`Contender::all`].
    pub policies: Vec<PolicyResult>,
    /// The sites that something is asked into, in the order of the grid.
    pub sites: Vec<SiteResult>,
}

/// One policy.
#[derive(Debug, Serialize)]
pub struct PolicyResult {
    /// Its name; for a plan with rules, the names of scheduler and catalogue: `weir + rucio`.
    pub policy: String,
    /// The part `chain` of a report; `null` where no rule was made.
    pub chain: Option<ChainReport>,
    /// Achieved ÷ optimum, of all links.
    pub of_optimum: Option<f64>,
    /// Length of the hold; where only steps are asked for, how long they took.
    pub hold_s: f64,
    /// The challenge's thresholds, as of a report.
    pub thresholds: Vec<ThresholdReport>,
    /// Violated invariants; empty in a sound run.
    pub violations: Vec<String>,
    /// As in a report.
    pub totals: Totals,
    /// As in a report.
    pub workloads: Vec<WorkloadReport>,
    /// As in a report.
    pub links: Vec<LinkReport>,
    /// Rates of all links together in the course of time.
    pub series: RatesOverTime,
    /// Causes that held links back, as in a report.
    pub statements: Vec<Statement>,
}

/// Rates in the course of time.
#[derive(Debug, Serialize)]
pub struct RatesOverTime {
    /// Width of a bin.
    pub bin_s: f64,
    /// Asked rate in each bin; `null` where none is asked.
    pub asked_bps: Vec<Option<BitRate>>,
    /// Achieved rate in each bin.
    pub achieved_bps: Vec<Option<BitRate>>,
}

/// The traffic into one site.
#[derive(Debug, Serialize)]
pub struct SiteResult {
    /// Its name.
    pub site: String,
    /// Rate asked into it in the hold.
    pub asked_bps: BitRate,
    /// Rate into it in the estimated optimum.
    pub optimum_bps: Option<BitRate>,
    /// One per policy.
    pub policies: Vec<SitePolicy>,
}

/// The traffic into one site under one policy.
#[derive(Debug, Serialize)]
pub struct SitePolicy {
    /// Verified bytes within the hold ÷ its length.
    pub achieved_bps: BitRate,
    /// Achieved ÷ asked.
    pub ratio: Option<f64>,
    /// Achieved ÷ optimum.
    pub of_optimum: Option<f64>,
    /// The largest cause of the bits that it missed, if it fell short of the asked rate by more than a twentieth.
    pub cause: Option<SiteCause>,
    /// The same in words, with the place and the part of the missing bits.
    pub held_back: Option<String>,
}

/// The largest cause of the bits that a site missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteCause {
    /// The site got all of the estimated optimum: no scheduler can do more for it while the whole grid gets most.
    Possible,
    /// A cause of this class, by the diagnosis of the run.
    Class(CauseClass),
    /// The diagnosis names none.
    Unexplained,
}

impl SiteCause {
    /// The word in data: the class, `possible` or `unexplained`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Possible => "possible",
            Self::Class(class) => class.as_str(),
            Self::Unexplained => "unexplained",
        }
    }
}

impl Serialize for SiteCause {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Runs every policy on a plan; `watch` hears of each before it runs, and may give something that shows how far it is.
pub fn compare(plan: &SimPlan, mut watch: impl FnMut(Contender) -> Probe) -> Comparison {
    let scene = Scene::new(plan);
    let best = optimum(plan, &scene);
    let mut outcomes = Vec::new();
    for contender in Contender::all(plan) {
        let probe = watch(contender);
        let mut plan = plan.clone();
        plan.sim.catalog = contender.catalog.unwrap_or_default();
        let mut listeners = Listeners {
            rows: &mut |_, _| {},
            rules: &mut |_| {},
            ledger: &mut |_| {},
        };
        let outcome = run_observed(&plan, contender.policy, &mut listeners, &probe);
        let violations = outcome.checks.violations().to_vec();
        let report = report(&plan, contender.policy, outcome, "", Build::default());
        outcomes.push((contender, report, violations));
    }
    let totals = &outcomes[0].1.totals;
    Comparison {
        challenge: plan.name.clone(),
        description: plan.description.clone(),
        n_links: scene.links.len() as u64,
        seed: plan.seed,
        scale: plan.scale,
        asked_bps: totals.asked_bps.unwrap_or_default(),
        optimum_bps: best.as_ref().map(|best| best.total),
        optimum_spans: best.iter().flat_map(|best| best.spans.clone()).collect(),
        full: best.iter().flat_map(|best| best.full.clone()).collect(),
        limits: limits(plan, &scene),
        assumed: plan.sim.assumed.clone(),
        sites: sites(&scene, &outcomes, best.as_ref()),
        policies: outcomes
            .into_iter()
            .map(|(contender, report, violations)| of_policy(plan, contender, (report, violations), best.as_ref()))
            .collect(),
    }
}

/// Describes the difference between the limits of the imitation of FTS and Weir's, if there is one.
fn limits(plan: &SimPlan, scene: &Scene) -> String {
    let others = imitation_limits(plan, scene);
    if others.is_empty() {
        return "All policies run under the same limits on transfers at once.".to_owned();
    }
    format!(
        "The limits of {} are others than Weir's: {}.",
        Policy::Fts,
        others.join("; ")
    )
}

fn of_policy(
    plan: &SimPlan,
    contender: Contender,
    (report, violations): (Report, Vec<String>),
    best: Option<&Optimum>,
) -> PolicyResult {
    // Within the simulated world every counter sees the same bytes: there is nothing to compare.
    let thresholds = plan.thresholds.iter().zip(report.thresholds);
    let thresholds = thresholds.filter(|(asked, _)| asked.metric != Metric::CrosscheckDifference);
    let achieved = report.totals.achieved_bps.unwrap_or_default();
    let hold = report.windows.hold;
    PolicyResult {
        policy: contender.to_string(),
        chain: report.chain,
        of_optimum: best.and_then(|best| share(achieved, best.total)),
        hold_s: hold.end_s - hold.start_s,
        thresholds: thresholds.map(|(_, report)| report).collect(),
        violations,
        totals: report.totals,
        workloads: report.workloads,
        links: report.links,
        series: RatesOverTime {
            bin_s: report.series.bin_s,
            asked_bps: report.series.total.asked_bps,
            achieved_bps: report.series.total.achieved_bps,
        },
        statements: report.statements,
    }
}

fn share(part: BitRate, whole: BitRate) -> Option<f64> {
    (whole > BitRate::ZERO).then(|| part.as_f64() / whole.as_f64())
}

fn sites(scene: &Scene, outcomes: &[(Contender, Report, Vec<String>)], best: Option<&Optimum>) -> Vec<SiteResult> {
    let mut results = Vec::new();
    for (at, site) in scene.sites.iter().enumerate() {
        let into = |link: &crate::scene::LinkScene| scene.storages[link.destination].site == at;
        let optimum: Option<BitRate> = best.map(|best| {
            let links = scene.links.iter().zip(&best.links).filter(|(link, _)| into(link));
            links.map(|(_, rate)| *rate).sum()
        });
        let Some(asked) = outcomes.first().and_then(|(_, report, _)| report.sites[at].asked_bps) else {
            continue;
        };
        let of_policy = |(_, report, _): &(Contender, Report, Vec<String>)| {
            let figures = &report.sites[at];
            let achieved = figures.achieved_bps.unwrap_or_default();
            let of_optimum = optimum.and_then(|optimum| share(achieved, optimum));
            let held = figures.ratio.filter(|ratio| *ratio < CLOSE);
            let (cause, held_back) = held.map(|_| held_back(report, &site.name, of_optimum)).unzip();
            SitePolicy {
                achieved_bps: achieved,
                ratio: figures.ratio,
                of_optimum,
                cause,
                held_back,
            }
        };
        results.push(SiteResult {
            site: site.name.clone(),
            asked_bps: asked,
            optimum_bps: optimum,
            policies: outcomes.iter().map(of_policy).collect(),
        });
    }
    results
}

/// The causes of the bits that the links into a site missed.
fn held_back(report: &Report, site: &str, of_optimum: Option<f64>) -> (SiteCause, String) {
    if of_optimum.is_some_and(|share| share >= CLOSE) {
        return (SiteCause::Possible, "all of the estimated optimum".to_owned());
    }
    let into = report.links.iter().filter(|link| link.destination_site == site);
    let names: Vec<String> = into
        .map(|link| format!("{}→{}", link.source, link.destination))
        .collect();
    let is_meant = |ledger: &&LinkLedger| names.contains(&ledger.link);
    let causes = shares(report.ledger.iter().filter(is_meant));
    let large = causes.iter().filter(|cause| cause.share >= PART);
    let words = large.take(NAMED).map(|cause| {
        let class = cause.class.map_or("unexplained", CauseClass::as_str);
        let place = cause
            .place
            .as_ref()
            .map_or_else(String::new, |place| format!(" at {place}"));
        format!("{class}{place} {:.0} %", cause.share * 100.0)
    });
    let words: Vec<String> = words.collect();
    let largest = causes.first().and_then(|cause| cause.class);
    let cause = largest.map_or(SiteCause::Unexplained, SiteCause::Class);
    (
        cause,
        if words.is_empty() {
            "unexplained".to_owned()
        } else {
            words.join(", ")
        },
    )
}
