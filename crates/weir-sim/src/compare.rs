//! Policies side by side on the same plan, with an estimate of the optimum.

use std::fmt;

use serde::Serialize;
use weir_measure::chain_report::ChainReport;
use weir_measure::held::{Cause, LinkUse, SiteUse, StorageUse, held_back};
use weir_measure::report::{LinkReport, ThresholdReport, Totals, WorkloadReport};
use weir_plan::Metric;
use weir_units::BitRate;

use crate::optimum::{Optimum, Span, optimum};
use crate::policies::{Policy, imitation_limits};
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::spec::CatalogKind;
use crate::world::{Listeners, Outcome, Probe, run_observed};

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
    /// The kind of limit that held it back, if it fell short of the asked rate by more than a twentieth.
    pub cause: Option<Cause>,
    /// The same in words.
    pub held_back: Option<String>,
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
        outcomes.push((contender, outcome));
    }
    let totals = &outcomes[0].1.measured.figures.totals;
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
            .map(|(contender, outcome)| of_policy(plan, contender, outcome, best.as_ref()))
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

fn of_policy(plan: &SimPlan, contender: Contender, outcome: Outcome, best: Option<&Optimum>) -> PolicyResult {
    // Within the simulated world every counter sees the same bytes: there is nothing to compare.
    let asked = plan
        .thresholds
        .iter()
        .filter(|asked| asked.metric != Metric::CrosscheckDifference);
    let judged = asked.map(|asked| outcome.measured.evaluate(asked, outcome.deletions.as_ref()));
    let thresholds = judged.map(|evaluated| evaluated.report).collect();
    let series = outcome.measured.figures.series.total.clone();
    let achieved = outcome.measured.figures.totals.achieved_bps.unwrap_or_default();
    PolicyResult {
        policy: contender.to_string(),
        chain: outcome.measured.chain(outcome.deletions.clone()),
        of_optimum: best.and_then(|best| share(achieved, best.total)),
        hold_s: outcome.measured.spec.windows.hold().as_secs_f64(),
        thresholds,
        violations: outcome.checks.violations().to_vec(),
        totals: outcome.measured.figures.totals,
        workloads: outcome.measured.figures.workloads,
        links: outcome.measured.figures.links,
        series: RatesOverTime {
            bin_s: outcome.measured.figures.series.bin_s,
            asked_bps: series.asked_bps,
            achieved_bps: series.achieved_bps,
        },
    }
}

fn share(part: BitRate, whole: BitRate) -> Option<f64> {
    (whole > BitRate::ZERO).then(|| part.as_f64() / whole.as_f64())
}

fn sites(scene: &Scene, outcomes: &[(Contender, Outcome)], best: Option<&Optimum>) -> Vec<SiteResult> {
    let mut results = Vec::new();
    for (at, site) in scene.sites.iter().enumerate() {
        let into = |link: &crate::scene::LinkScene| scene.storages[link.destination].site == at;
        let optimum: Option<BitRate> = best.map(|best| {
            let links = scene.links.iter().zip(&best.links).filter(|(link, _)| into(link));
            links.map(|(_, rate)| *rate).sum()
        });
        let figures = |outcome: &Outcome| outcome.measured.figures.sites[at].clone();
        let Some(asked) = outcomes.first().and_then(|(_, outcome)| figures(outcome).asked_bps) else {
            continue;
        };
        let of_policy = |(_, outcome): &(Contender, Outcome)| {
            let site = figures(outcome);
            let achieved = site.achieved_bps.unwrap_or_default();
            let of_optimum = optimum.and_then(|optimum| share(achieved, optimum));
            let held = held_back(&SiteUse {
                of_optimum,
                ..site_use(scene, outcome, at)
            });
            let (cause, held_back) = held.unzip();
            SitePolicy {
                achieved_bps: achieved,
                ratio: site.ratio,
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

/// Figures of the resources that lead into a site.
fn site_use(scene: &Scene, outcome: &Outcome, site: usize) -> SiteUse {
    let figures = &outcome.measured.figures;
    let storages = scene.storages.iter().zip(&outcome.usage);
    let storages = storages.filter(|(storage, _)| storage.site == site);
    let links = scene.links.iter().zip(&figures.links).zip(&outcome.link_usage);
    let links = links.filter(|((link, _), _)| scene.storages[link.destination].site == site);
    SiteUse {
        ratio: figures.sites[site].ratio,
        of_optimum: None,
        achieved_bps: figures.sites[site].achieved_bps,
        storage_bps: storage_most(scene, site),
        storages: storages
            .map(|(storage, usage)| StorageUse {
                wide: usage.wide,
                shared: usage.shared,
                slots: usage.slots,
                slots_most: storage.max_active[0],
            })
            .collect(),
        links: links
            .map(|((link, report), slots)| LinkUse {
                asked_bps: report.asked_bps,
                achieved_bps: report.achieved_bps,
                slots: *slots,
                source: outcome.usage[link.source].outward,
            })
            .collect(),
    }
}

/// Rate that the storage elements of a site can receive together; `None` if one of them is unbounded.
fn storage_most(scene: &Scene, site: usize) -> Option<BitRate> {
    let of_site = scene.storages.iter().filter(|storage| storage.site == site);
    let most = |storage: &crate::scene::Storage| {
        let model = &storage.model;
        let plateau = model.write_curve.iter().flatten().map(|point| point.rate).max();
        let servers: BitRate = storage.servers.iter().map(|server| server.0).sum();
        let servers = Some(servers).filter(|_| !storage.servers.is_empty());
        let bounds = [model.write, model.disk, storage.bandwidth, plateau, servers];
        bounds.into_iter().flatten().min()
    };
    of_site.map(most).sum()
}
