//! Policies side by side on the same plan, with the optimum.

use serde::Serialize;
use weir_measure::report::{LinkReport, Totals, WorkloadKind, WorkloadReport};
use weir_plan::Plan;
use weir_units::BitRate;

use crate::optimum::{Optimum, optimum};
use crate::policies::Policy;
use crate::scene::Scene;
use crate::world::{Listeners, Outcome, run};

/// A share above which something counts as full.
const FULL: f64 = 0.95;
/// A share of the optimum above which nothing held a site back.
const CLOSE: f64 = 0.95;

/// Every policy on one plan.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The challenge's name.
    pub challenge: String,
    /// The seed of everything drawn.
    pub seed: u64,
    /// The factor on rates.
    pub scale: f64,
    /// What is asked in the hold, of all links.
    pub asked_bps: u64,
    /// What any scheduler could have moved at most; `null` if it could not be worked out.
    pub optimum_bps: Option<u64>,
    /// What is full in the optimum for most of the hold, with the share of the hold.
    pub full: Vec<(String, f64)>,
    /// The policies, in the order of [`Policy::ALL`].
    pub policies: Vec<PolicyResult>,
    /// The sites that something is asked into, in the order of the grid.
    pub sites: Vec<SiteResult>,
}

/// One policy.
#[derive(Debug, Serialize)]
pub struct PolicyResult {
    /// Its name.
    pub policy: String,
    /// Achieved ÷ optimum, of all links.
    pub of_optimum: Option<f64>,
    /// What watched from outside found wrong; empty in a sound run.
    pub violations: Vec<String>,
    /// As in a report.
    pub totals: Totals,
    /// As in a report.
    pub workloads: Vec<WorkloadReport>,
    /// As in a report.
    pub links: Vec<LinkReport>,
}

/// What came into one site.
#[derive(Debug, Serialize)]
pub struct SiteResult {
    /// Its name.
    pub site: String,
    /// What is asked into it in the hold.
    pub asked_bps: u64,
    /// What could have come into it at most while the total is the most.
    pub optimum_bps: Option<u64>,
    /// One per policy.
    pub policies: Vec<SitePolicy>,
}

/// What one policy brought into one site.
#[derive(Debug, Serialize)]
pub struct SitePolicy {
    /// Verified bytes within the hold ÷ its length.
    pub achieved_bps: u64,
    /// Achieved ÷ asked.
    pub ratio: Option<f64>,
    /// Achieved ÷ optimum.
    pub of_optimum: Option<f64>,
    /// What held it back, if it fell short.
    pub held_back: Option<String>,
}

/// Runs every policy on a plan; `watch` hears of each before it runs.
pub fn compare(plan: &Plan, mut watch: impl FnMut(Policy)) -> Comparison {
    let scene = Scene::new(plan);
    let best = optimum(plan, &scene);
    let mut outcomes = Vec::new();
    for policy in Policy::ALL {
        watch(policy);
        let mut listeners = Listeners {
            rows: &mut |_, _| {},
            ledger: &mut |_| {},
        };
        outcomes.push((policy, run(plan, policy, &mut listeners)));
    }
    let totals = &outcomes[0].1.figures.totals;
    Comparison {
        challenge: plan.name.clone(),
        seed: plan.seed,
        scale: plan.scale,
        asked_bps: totals.asked_bps.unwrap_or(0),
        optimum_bps: best.as_ref().map(|best| best.total.0),
        full: best.iter().flat_map(|best| best.full.clone()).collect(),
        sites: sites(&scene, &outcomes, best.as_ref()),
        policies: outcomes
            .into_iter()
            .map(|(policy, outcome)| of_policy(policy, outcome, best.as_ref()))
            .collect(),
    }
}

fn of_policy(policy: Policy, outcome: Outcome, best: Option<&Optimum>) -> PolicyResult {
    let achieved = outcome.figures.totals.achieved_bps.unwrap_or(0);
    PolicyResult {
        policy: policy.to_string(),
        of_optimum: best.and_then(|best| share(achieved, best.total.0)),
        violations: outcome.checks.violations().to_vec(),
        totals: outcome.figures.totals,
        workloads: outcome.figures.workloads,
        links: outcome.figures.links,
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn sites(scene: &Scene, outcomes: &[(Policy, Outcome)], best: Option<&Optimum>) -> Vec<SiteResult> {
    let mut results = Vec::new();
    for (at, site) in scene.sites.iter().enumerate() {
        let into = |link: &crate::scene::LinkScene| scene.storages[link.destination].site == at;
        let optimum: Option<BitRate> = best.map(|best| {
            let links = scene.links.iter().zip(&best.links).filter(|(link, _)| into(link));
            links.map(|(_, rate)| *rate).sum()
        });
        let figures = |outcome: &Outcome| outcome.figures.sites[at].clone();
        let Some(asked) = outcomes.first().and_then(|(_, outcome)| figures(outcome).asked_bps) else {
            continue;
        };
        let of_policy = |(_, outcome): &(Policy, Outcome)| {
            let site = figures(outcome);
            let achieved = site.achieved_bps.unwrap_or(0);
            let of_optimum = optimum.and_then(|optimum| share(achieved, optimum.0));
            SitePolicy {
                achieved_bps: achieved,
                ratio: site.ratio,
                of_optimum,
                held_back: held_back(scene, outcome, at, site.ratio, of_optimum),
            }
        };
        results.push(SiteResult {
            site: site.name.clone(),
            asked_bps: asked,
            optimum_bps: optimum.map(|optimum| optimum.0),
            policies: outcomes.iter().map(of_policy).collect(),
        });
    }
    results
}

/// What held a site back: what led into it and was full, or else that there were too few transfers.
fn held_back(
    scene: &Scene,
    outcome: &Outcome,
    site: usize,
    ratio: Option<f64>,
    of_optimum: Option<f64>,
) -> Option<String> {
    if ratio? >= CLOSE {
        return None;
    }
    let storages = scene
        .storages
        .iter()
        .zip(&outcome.usage)
        .filter(|(storage, _)| storage.site == site);
    for (storage, [wide, slots]) in storages {
        if *wide > FULL {
            return Some("its wide-area link is full".to_owned());
        }
        if *slots > FULL {
            let most = storage.model.max_active_in.unwrap_or(0);
            return Some(format!("its {most} slots are taken"));
        }
        if of_optimum.is_none_or(|share| share < CLOSE) {
            return Some(match storage.model.max_active_in {
                Some(most) => format!("{:.0} % of its {most} slots used", slots * 100.0),
                None => "transfers that did not run, or ran badly".to_owned(),
            });
        }
    }
    Some("what leads into it, also in the optimum".to_owned())
}

/// Achieved ÷ asked of a workload that holds rates.
pub fn workload_ratio(workload: &WorkloadReport) -> Option<(u64, f64)> {
    match &workload.kind {
        WorkloadKind::Rates { asked_bps, ratio, .. } => Some((*asked_bps, (*ratio)?)),
        WorkloadKind::Matrix { .. } | WorkloadKind::Ramp { .. } => None,
    }
}
