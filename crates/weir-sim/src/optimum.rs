//! The mathematical optimum: what any scheduler could have moved at most.
//!
//! Time is cut where asks or capacities change. In each interval a linear programme decides the rate of each link, for the
//! arrivals of the interval and what earlier ones left over, under everything that a run is under: wide-area links and
//! segments, storage (a curve of throughput counts with its highest point, its plateau), and slots: a link that moves `r` holds
//! `r ÷ p` slots, where `p` is what one transfer brings, its start-up included. It is lexicographic: first the total of
//! each priority class, the most urgent first; then the least share that any link gets of its ask; then the total.
//!
//! Failures, stalls and outages cost nothing here, so it is an upper bound where they are drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use weir_plan::inject::{BACKLOG_CYCLES, DEBT_CYCLES};
use weir_plan::{Plan, Workload};
use weir_units::{BitRate, Bytes};

use crate::scene::{Ask, LinkScene, Scene};

/// The part of an optimum that a later programme may give away: the solver's own tolerance.
const SLACK: f64 = 1e-6;
/// Rates are reckoned in Gb/s, so that the solver sees numbers about one.
const GIGA: f64 = 1e9;

/// What could have been moved at most within the hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Optimum {
    /// Mean rate over the hold, of all links.
    pub total: BitRate,
    /// The same per link, in the order of the scene.
    pub links: Vec<BitRate>,
    /// What is full for most of the hold, by name, with the share of the hold.
    pub full: BTreeMap<String, f64>,
}

/// One bound: what it is called, who uses it by how much, and how much there is.
struct Bound {
    name: String,
    uses: Vec<(usize, f64)>,
    most: f64,
}

/// Works out the optimum of a plan; `None` if the solver finds none, which only an ill-posed plan can bring about.
pub fn optimum(plan: &Plan, scene: &Scene) -> Option<Optimum> {
    let phases = &plan.phases;
    let hold = phases.hold.as_secs_f64();
    let mut left = vec![0.0; scene.links.len()];
    let mut moved = vec![0.0; scene.links.len()];
    let mut full: BTreeMap<String, f64> = BTreeMap::new();
    let moments: Vec<Duration> = moments(plan, scene).into_iter().collect();
    for span in moments.windows(2) {
        let (from, until) = (span[0], span[1]);
        let seconds = until.saturating_sub(from).as_secs_f64();
        let asked = asked(plan, scene, from, until);
        let wanted: Vec<f64> = asked
            .iter()
            .zip(&left)
            .map(|(asked, left)| asked + left / seconds)
            .collect();
        let bounds = bounds(plan, scene, from);
        let rates = solve(plan, scene, &wanted, &bounds)?;
        for (link, rate) in rates.iter().enumerate() {
            let debt = DEBT_CYCLES.max(BACKLOG_CYCLES);
            left[link] = ((wanted[link] - rate) * seconds).clamp(0.0, asked[link] * cycle(plan) * f64::from(debt));
        }
        if from < phases.ramp {
            continue;
        }
        for (link, rate) in rates.iter().enumerate() {
            moved[link] += rate * seconds;
        }
        for bound in &bounds {
            let used: f64 = bound.uses.iter().map(|(link, by)| rates[*link] * by).sum();
            if used > bound.most * 0.999 {
                *full.entry(bound.name.clone()).or_default() += seconds / hold;
            }
        }
    }
    let mean = |gigabits: &f64| BitRate((gigabits / hold * GIGA) as u64);
    let links: Vec<BitRate> = moved.iter().map(mean).collect();
    full.retain(|_, share| *share > 0.5);
    Some(Optimum {
        total: links.iter().copied().sum(),
        links,
        full,
    })
}

/// Where asks or capacities change, from the start of the run to the end of the hold.
fn moments(plan: &Plan, scene: &Scene) -> BTreeSet<Duration> {
    let end = plan.phases.end();
    let asks = scene.asks.iter().flat_map(|ask| [ask.from, ask.until]);
    let ramps = plan.rates().map(|(_, rates)| rates.start + rates.phases.ramp);
    let changes = scene
        .segments
        .iter()
        .flat_map(|segment| segment.changes.iter().map(|change| change.0));
    let all = asks
        .chain(ramps)
        .chain(changes)
        .chain([Duration::ZERO, plan.phases.ramp, end]);
    all.filter(|moment| *moment <= end).collect()
}

/// The mean of what is asked of each link within a span, in Gb/s. Steps are asked for as fast as they go.
fn asked(plan: &Plan, scene: &Scene, from: Duration, until: Duration) -> Vec<f64> {
    let mut asked = vec![0.0; scene.links.len()];
    for ask in &scene.asks {
        let rate = match &plan.workloads[ask.workload] {
            Workload::Rates(rates) => {
                let elapsed = |moment: Duration| moment.saturating_sub(rates.start).min(rates.phases.end());
                mean_asked(ask, &rates.phases, elapsed(from), elapsed(until)) / until.saturating_sub(from).as_secs_f64()
            }
            Workload::Matrix(_) | Workload::Ramp(_) => 0.0,
        };
        asked[ask.link] += rate;
    }
    asked
}

/// Gigabits that are asked for between two moments of a workload's own time: the ramp rises in a line to its full rate.
fn mean_asked(ask: &Ask, phases: &weir_plan::Phases, from: Duration, until: Duration) -> f64 {
    let full = phases.full().as_secs_f64();
    let by = |moment: Duration| {
        let time = moment.as_secs_f64();
        if time < full {
            time * time / (2.0 * full)
        } else {
            time - full / 2.0
        }
    };
    ask.rate.as_f64() / GIGA * (by(until) - by(from))
}

/// The injector's cycle in seconds: the longest of the plan.
fn cycle(plan: &Plan) -> f64 {
    plan.rates()
        .map(|(_, rates)| rates.cycle)
        .max()
        .unwrap_or_default()
        .as_secs_f64()
}

/// What one transfer of a link brings, its start-up included, in Gb/s.
pub fn per_transfer(scene: &Scene, link: &LinkScene, size: Bytes) -> f64 {
    let bits = size.as_f64() * 8.0 / GIGA;
    let stream = link.stream.map_or(f64::INFINITY, |rate| rate.as_f64() / GIGA);
    let common = &scene.common;
    let overhead = common.startup + link.rtt * common.handshakes + common.finalization;
    bits / (overhead.as_secs_f64() + bits / stream).max(1e-9)
}

fn bounds(plan: &Plan, scene: &Scene, at: Duration) -> Vec<Bound> {
    let mut bounds = Bounds {
        scene,
        list: Vec::new(),
    };
    for (site, number) in scene.sites.iter().zip(0..) {
        let wan = |from: usize, to: usize| scene.storages[from].site != scene.storages[to].site;
        let inward =
            |link: &LinkScene| scene.storages[link.destination].site == number && wan(link.source, link.destination);
        let outward =
            |link: &LinkScene| scene.storages[link.source].site == number && wan(link.source, link.destination);
        let (name, model) = (&site.name, &site.model);
        bounds.rate(
            format!("{name}: wide-area link in"),
            model.inward,
            model.background_in,
            &inward,
        );
        bounds.rate(
            format!("{name}: wide-area link out"),
            model.outward,
            model.background_out,
            &outward,
        );
    }
    for (segment, number) in scene.segments.iter().zip(0..) {
        let changed = segment.changes.iter().rev().find(|change| change.0 <= at);
        let capacity = changed.map_or(segment.capacity, |change| change.1);
        let uses = |link: &LinkScene| link.via.contains(&number);
        bounds.rate(
            format!("segment {}", segment.name),
            Some(capacity),
            Some(segment.background),
            &uses,
        );
    }
    for number in 0..scene.storages.len() {
        storage(plan, &mut bounds, number);
    }
    for (link, number) in scene.links.iter().zip(0..) {
        let only = |other: &LinkScene| std::ptr::eq(other, link);
        bounds.rate(format!("link {}", link.link), link.capacity, None, &only);
        let most = link.max_active.unwrap_or(plan.grid.transfer.max_active_per_link);
        bounds.slots(format!("{}: slots of the link", link.link), most, &|other| {
            other == number
        });
    }
    bounds.list
}

fn storage(plan: &Plan, bounds: &mut Bounds<'_>, number: usize) {
    let scene = bounds.scene;
    let storage = &scene.storages[number];
    let (name, model) = (&storage.name, &storage.model);
    let reads = |link: &LinkScene| link.source == number;
    let writes = |link: &LinkScene| link.destination == number;
    let best = |most: Option<BitRate>, curve: Option<&Vec<weir_plan::sim::CurvePoint>>| {
        let plateau = curve.into_iter().flatten().map(|point| point.rate).max();
        most.into_iter().chain(plateau).min()
    };
    bounds.rate(
        format!("{name}: reading"),
        best(model.read, model.read_curve.as_ref()),
        None,
        &reads,
    );
    bounds.rate(
        format!("{name}: writing"),
        best(model.write, model.write_curve.as_ref()),
        None,
        &writes,
    );
    let both = |link: &LinkScene| reads(link) || writes(link);
    bounds.rate(format!("{name}: disk"), model.disk, None, &both);
    let servers: BitRate = storage.servers.iter().map(|server| server.0).sum();
    bounds.rate(
        format!("{name}: servers"),
        Some(servers).filter(|_| !storage.servers.is_empty()),
        None,
        &both,
    );
    let grid = &plan.grid.transfer;
    let least =
        |own: Option<u32>, all: u32, connections: Option<u32>| own.unwrap_or(all).min(connections.unwrap_or(u32::MAX));
    let inbound = least(model.max_active_in, grid.max_active_per_rse_in, model.write_connections);
    let outbound = least(
        model.max_active_out,
        grid.max_active_per_rse_out,
        model.read_connections,
    );
    bounds.slots(format!("{name}: slots in"), inbound, &|link| {
        scene.links[link].destination == number
    });
    bounds.slots(format!("{name}: slots out"), outbound, &|link| {
        scene.links[link].source == number
    });
}

struct Bounds<'s> {
    scene: &'s Scene,
    list: Vec<Bound>,
}

impl Bounds<'_> {
    fn rate(&mut self, name: String, most: Option<BitRate>, taken: Option<BitRate>, uses: &dyn Fn(&LinkScene) -> bool) {
        let Some(most) = most else { return };
        let left = most.0.saturating_sub(taken.unwrap_or_default().0);
        let users = self.scene.links.iter().enumerate().filter(|(_, link)| uses(link));
        let uses: Vec<(usize, f64)> = users.map(|(at, _)| (at, 1.0)).collect();
        self.add(name, uses, left as f64 / GIGA);
    }

    fn slots(&mut self, name: String, most: u32, uses: &dyn Fn(usize) -> bool) {
        let per_slot = |at: usize| {
            let ask = self.scene.asks.iter().find(|ask| ask.link == at);
            let size = ask.map_or(Bytes(0), |ask| ask.file_size).max(Bytes(1));
            per_transfer(self.scene, &self.scene.links[at], size)
        };
        let users = (0..self.scene.links.len()).filter(|at| uses(*at));
        let uses: Vec<(usize, f64)> = users.map(|at| (at, 1.0 / per_slot(at))).collect();
        self.add(name, uses, f64::from(most));
    }

    fn add(&mut self, name: String, uses: Vec<(usize, f64)>, most: f64) {
        if !uses.is_empty() {
            self.list.push(Bound { name, uses, most });
        }
    }
}

/// Solves one interval: the rate of each link in Gb/s.
fn solve(plan: &Plan, scene: &Scene, wanted: &[f64], bounds: &[Bound]) -> Option<Vec<f64>> {
    let mut fixed: Vec<(Vec<(usize, f64)>, f64)> = Vec::new();
    let mut rates = vec![0.0; wanted.len()];
    for class in classes(plan, scene) {
        let weights: Vec<f64> = class.iter().map(|is_in| f64::from(u8::from(*is_in))).collect();
        rates = programme(wanted, bounds, &fixed, &weights, None)?.0;
        let reached: f64 = rates.iter().zip(&weights).map(|(rate, weight)| rate * weight).sum();
        let members = weights
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, weight)| *weight > 0.0)
            .collect();
        fixed.push((members, reached * (1.0 - SLACK)));
    }
    let (least, share) = programme(wanted, bounds, &fixed, &vec![0.0; wanted.len()], Some(1.0))?;
    let total = programme(
        wanted,
        bounds,
        &fixed,
        &vec![1.0; wanted.len()],
        Some(-share * (1.0 - SLACK)),
    );
    // The last programme only polishes: what the one before it found holds in any case.
    Some(total.map_or(if share > 0.0 { least } else { rates }, |solution| solution.0))
}

/// Which links belong to which priority, the most urgent first; a link counts with its most urgent activity.
fn classes(plan: &Plan, scene: &Scene) -> Vec<Vec<bool>> {
    let mut priority = vec![0_u8; scene.links.len()];
    for ask in &scene.asks {
        let own = plan.sim.activity(plan.workloads[ask.workload].activity()).priority;
        priority[ask.link] = priority[ask.link].max(own);
    }
    let levels: BTreeSet<u8> = priority.iter().copied().collect();
    let members = |level: u8| priority.iter().map(|own| *own == level).collect();
    levels.into_iter().rev().map(members).collect()
}

/// One linear programme. `share`: maximise the least share that a link gets of what it wants (positive), or keep at least so
/// much of it (negative). Gives the rates and the share.
fn programme(
    wanted: &[f64],
    bounds: &[Bound],
    fixed: &[(Vec<(usize, f64)>, f64)],
    weights: &[f64],
    share: Option<f64>,
) -> Option<(Vec<f64>, f64)> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let rates: Vec<Variable> = wanted
        .iter()
        .zip(weights)
        .map(|(most, weight)| problem.add_var(*weight, (0.0, *most)))
        .collect();
    for bound in bounds {
        let terms: Vec<(Variable, f64)> = bound.uses.iter().map(|(link, by)| (rates[*link], *by)).collect();
        problem.add_constraint(terms, ComparisonOp::Le, bound.most);
    }
    for (members, least) in fixed {
        let terms: Vec<(Variable, f64)> = members.iter().map(|(link, by)| (rates[*link], *by)).collect();
        problem.add_constraint(terms, ComparisonOp::Ge, *least);
    }
    let mut least = None;
    if let Some(share) = share {
        let (weight, low) = if share > 0.0 { (share, 0.0) } else { (0.0, -share) };
        let variable = problem.add_var(weight, (low.min(1.0), 1.0));
        for (rate, wanted) in rates.iter().zip(wanted).filter(|(_, wanted)| **wanted > 1e-6) {
            problem.add_constraint([(*rate, 1.0), (variable, -wanted)], ComparisonOp::Ge, 0.0);
        }
        least = Some(variable);
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    let found = rates.iter().map(|rate| solution.var_value(*rate).max(0.0)).collect();
    Some((found, least.map_or(0.0, |variable| solution.var_value(variable))))
}
