//! `weir incident run --real`: incidents with real services on this machine.

use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use weir_challenge::{DiskRates, NetworkGround, Options, RunError, SharedPath, Silent, Stop};
use weir_measure::Report;
use weir_measure::diagnosis::expected;
use weir_measure::expectation::{of_real, of_remedy};
use weir_plan::{Challenge, Finding, Incident, Overrides, Plan, Smaller};
use weir_sim::scene::Scene;
use weir_sim::{SimPlan, UNLIMITED};

use weir_units::BitRate;

use super::ran::{Diagnosed, Ran, lines};
use crate::cli::IncidentRunArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// What one machine carries with debug services, too.
const SMALLER: Smaller = Smaller { rates: 100, times: 15 };
/// Bytes of a segment of TCP on Ethernet.
const SEGMENT: f64 = 1_448.0;

/// Runs incidents one after the other; those that have no means here are told by name.
pub(super) fn run(incidents: &[Incident], arguments: &IncidentRunArguments, output: &Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    let (mut ran, mut left_out) = (Vec::new(), Vec::new());
    for incident in incidents {
        match runtime.block_on(one(incident, arguments))? {
            Tried::Ran(of) => {
                lines(&of).iter().for_each(|line| output.line(line));
                ran.push(*of);
            }
            Tried::NoMeans(reason) => {
                output.line(format!("- {:<8} {reason}", incident.id));
                left_out.push(json!({ "id": incident.id, "reason": reason }));
            }
        }
    }
    let n_wrong = ran.iter().filter(|ran| !ran.ok).count();
    let n_named = ran.iter().filter(|ran| ran.diagnosis.right).count();
    if incidents.len() > 1 {
        let (n_ran, n_left) = (ran.len(), left_out.len());
        output.line(format!(
            "{n_ran} incidents for real, {n_wrong} of them not as expected; the diagnosis of {n_named} is right; {n_left} have no \
             means here"
        ));
    }
    output.done(&json!({ "ran": ran, "no_means": left_out }));
    Ok(match (ran.is_empty(), n_wrong) {
        (true, _) => Exit::CouldNotRun,
        (false, 0) => Exit::Done,
        _ => Exit::VerdictFail,
    })
}

enum Tried {
    Ran(Box<Ran>),
    NoMeans(String),
}

async fn one(incident: &Incident, arguments: &IncidentRunArguments) -> Result<Tried, Failure> {
    let small = SMALLER.incident(incident);
    let audit = (incident.expect.finding == Some(Finding::Audit)).then_some(100.0);
    let with = match challenge((&small.challenge, &incident.challenge), audit, arguments).await? {
        Ok(report) => report,
        Err(reason) => return Ok(Tried::NoMeans(reason)),
    };
    let mended = match challenge((&small.mended, &incident.mended), audit, arguments).await? {
        Ok(report) => report,
        Err(reason) => return Ok(Tried::NoMeans(format!("its remedy: {reason}"))),
    };
    let (signs, remedy) = (of_real(&small.expect, &with), of_remedy(&small.expect, &mended));
    let truths = expected(incident, &small.expect, &with, &signs);
    let diagnosis = Diagnosed::of(incident, truths, &with);
    Ok(Tried::Ran(Box::new(Ran {
        id: incident.id.clone(),
        world: "real",
        ok: signs.wrong.is_empty() && remedy.wrong.is_empty(),
        with: signs,
        remedy,
        diagnosis,
    })))
}

/// Runs a challenge; the reason if one of its faults has no means here. `whole` has the network in its own size.
async fn challenge(
    (small, whole): (&Challenge, &Challenge),
    audit: Option<f64>,
    arguments: &IncidentRunArguments,
) -> Result<Result<Report, String>, Failure> {
    let plan = resolved(small)?;
    let options = Options {
        out: arguments.out.clone(),
        audit,
        ground: ground(whole)?,
        program: std::env::current_exe().ok(),
        command: format!("weir incident run {} --real", plan.name),
        ..Options::default()
    };
    match weir_challenge::run(plan, options, Arc::new(Silent), Stop::default()).await {
        Ok(outcome) => Ok(Ok(outcome.report)),
        Err(RunError::Fault { name, reason, .. }) => Ok(Err(format!("{name}: {reason}"))),
        Err(error) => Err(Failure::could_not_run(error)),
    }
}

fn resolved(challenge: &Challenge) -> Result<Plan, Failure> {
    let plan = challenge.resolve(&Overrides::default());
    plan.map_err(|problems| Failure::problems(&format!("the incident {}", challenge.name), &problems))
}

/// The network of the simulated world of a challenge, for relays to make, in the size of the real run.
fn ground(challenge: &Challenge) -> Result<NetworkGround, Failure> {
    let plan = SimPlan::of(resolved(challenge)?)
        .map_err(|problems| Failure::problems(&format!("the incident {}", challenge.name), &problems))?;
    let scene = Scene::new(&plan);
    let mut ground = NetworkGround {
        segment: Some(SEGMENT / (SMALLER.rates as f64 * f64::from(SMALLER.times))),
        ..NetworkGround::default()
    };
    for link in &scene.links {
        let rate = link.stream_rates.iter().flatten().min();
        ground
            .streams
            .extend(rate.map(|rate| (link.link.clone(), SMALLER.rate(*rate))));
        ground.round_trips.push((link.link.clone(), SMALLER.time(link.rtt)));
    }
    let shared = |name: String, capacity, passes: &dyn Fn(&weir_sim::scene::LinkScene) -> bool| SharedPath {
        name,
        links: scene
            .links
            .iter()
            .filter(|link| passes(link))
            .map(|link| link.link.clone())
            .collect(),
        capacity: SMALLER.rate(capacity),
        has_detours: false,
    };
    for link in &scene.links {
        if let Some(capacity) = link.capacity {
            ground
                .shared
                .push(shared(format!("link {}", link.link), capacity, &|other| {
                    other.link == link.link
                }));
        }
    }
    for (at, site) in scene.sites.iter().enumerate() {
        let site_of = |storage: usize| scene.storages[storage].site;
        let name = |way: &str| format!("site {} {way}", site.name);
        if let Some(capacity) = site.model.inward {
            ground.shared.push(shared(name("in"), capacity, &|link| {
                link.is_wide(&scene) && site_of(link.destination) == at
            }));
        }
        if let Some(capacity) = site.model.outward {
            ground.shared.push(shared(name("out"), capacity, &|link| {
                link.is_wide(&scene) && site_of(link.source) == at
            }));
        }
    }
    for storage in &scene.storages {
        let limit = |rate: Option<BitRate>| rate.filter(|rate| *rate < UNLIMITED).map(|rate| SMALLER.rate(rate));
        let rates = DiskRates {
            read: limit(storage.model.read),
            write: limit(storage.model.write),
            both: limit(storage.model.disk),
        };
        let rse = storage.name.parse().ok().filter(|_| rates != DiskRates::default());
        ground.disks.extend(rse.map(|rse| (rse, rates)));
    }
    for (at, segment) in scene.segments.iter().enumerate() {
        let is_of_group = scene.groups.iter().any(|group| group.segment == Some(at));
        ground.shared.push(SharedPath {
            has_detours: !is_of_group,
            ..shared(segment.name.clone(), segment.capacity, &|link| link.via.contains(&at))
        });
    }
    Ok(ground)
}
