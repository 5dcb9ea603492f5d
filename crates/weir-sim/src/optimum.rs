//! An estimate of the optimum: the bytes that a scheduler with full knowledge of a plan could move.
//!
//! Time is cut where asks or capacities change. In each interval a linear programme decides the rate of each link, for
//! the arrivals of the interval and the rest of earlier ones. Its constraints are those of a run: wide-area links and
//! segments, storage (a curve of throughput counts with its plateau), and slots. A link at rate `r` holds `r ÷ p`
//! slots, where `p` is the throughput of one transfer with its start-up. It is lexicographic: first the total of each
//! priority class, the most urgent first; then the least share that any link gets of its ask; then the total.
//!
//! A plan of steps alone asks for no rate: its optimum is the shortest duration of its steps (`steps`).
//!
//! It is an estimate and no upper bound. Failures, stalls and outages cost nothing here, so no run reaches it. But
//! intervals are decided one after the other, and in each every link gets its least share first. A scheduler that
//! favours a link whose path closes in the next interval, or starves one for the others, may move a little more.

mod bounds;
mod result;
mod steps;
mod wide;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bounds::{Bound, Kind, SizedFlow, bounds};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use weir_plan::Workload;
use weir_plan::inject::{BACKLOG_CYCLES, BACKLOG_FILES, DEBT_CYCLES};
use weir_units::{BitRate, Bytes};
use wide::Wide;

use crate::scene::{Ask, Scene};
use crate::sim_plan::SimPlan;
use bounds::GIGA;
pub use result::{Optimum, Span};

/// The part of an optimum that a later programme may give away: the solver's own tolerance.
const SLACK: f64 = 1e-6;

/// Estimates the optimum of a plan; `None` if the solver finds none, which only an ill-posed plan can bring about.
pub fn optimum(plan: &SimPlan, scene: &Scene) -> Option<Optimum> {
    if plan.rates().next().is_none() {
        return Some(steps::optimum(plan, scene));
    }
    let flows = flows(scene);
    let phases = &plan.phases;
    let hold = phases.hold.as_secs_f64();
    let mut left = vec![0.0; scene.links.len()];
    let mut moved = vec![0.0; scene.links.len()];
    let mut full: BTreeMap<String, f64> = BTreeMap::new();
    let mut spans = Vec::new();
    let (left_most, wide) = (left_most(plan, scene), Wide::new(plan, scene, phases.end()));
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
        let bounds = bounds(plan, scene, &flows, &wide, &(from..until));
        let rates = solve(plan, scene, &wanted, &bounds)?;
        for (link, rate) in rates.iter().enumerate() {
            left[link] = ((wanted[link] - rate) * seconds).clamp(0.0, left_most[link]);
        }
        spans.push(Span {
            from_s: from.as_secs_f64(),
            until_s: until.as_secs_f64(),
            rate_bps: BitRate((rates.iter().sum::<f64>() * GIGA) as u64),
        });
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
        spans,
    })
}

/// Names the resources that carried more than their capacity until `end`, given the bytes moved on each link.
pub(crate) fn exceeded(plan: &SimPlan, scene: &Scene, moved: &[u64], end: Duration) -> Vec<String> {
    if end.is_zero() {
        return Vec::new();
    }
    let wide = Wide::new(plan, scene, end);
    let bounds = bounds(plan, scene, &flows(scene), &wide, &(Duration::ZERO..end));
    let mean = |link: usize| moved[link] as f64 * 8.0 / GIGA / end.as_secs_f64();
    let used = |bound: &Bound| bound.uses.iter().map(|(link, by)| mean(*link) * by).sum::<f64>();
    let over = |bound: &&Bound| bound.kind == Kind::Capacity && used(bound) > bound.most * (1.0 + SLACK) + SLACK;
    let text = |bound: &Bound| {
        format!(
            "{}: {:.6} Gb/s on average, of {:.6}",
            bound.name,
            used(bound),
            bound.most
        )
    };
    bounds.iter().filter(over).map(text).collect()
}

/// The links as flows: of several file sizes of a link the largest, which holds a slot the longest for its start.
fn flows(scene: &Scene) -> Vec<SizedFlow> {
    let mut sizes = vec![Bytes(1); scene.links.len()];
    for ask in &scene.asks {
        sizes[ask.link] = sizes[ask.link].max(ask.file_size);
    }
    (0..).zip(sizes).map(|(link, size)| SizedFlow { link, size }).collect()
}

/// Where asks or capacities change, from the start of the run to the end of the hold.
fn moments(plan: &SimPlan, scene: &Scene) -> BTreeSet<Duration> {
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

/// The mean rate asked of each link within a span, in Gb/s. If any rate is asked, bytes of steps do not count, so steps
/// ask for nothing.
fn asked(plan: &SimPlan, scene: &Scene, from: Duration, until: Duration) -> Vec<f64> {
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

/// Most gigabits of each link's ask that can be left over: the backlog of its injectors, and their debt.
fn left_most(plan: &SimPlan, scene: &Scene) -> Vec<f64> {
    let mut most = vec![0.0; scene.links.len()];
    for ask in &scene.asks {
        let Workload::Rates(rates) = &plan.workloads[ask.workload] else {
            continue;
        };
        let cycle = ask.rate.as_f64() / GIGA * rates.cycle.as_secs_f64();
        let file = ask.file_size.as_f64() * 8.0 / GIGA;
        most[ask.link] +=
            cycle * f64::from(DEBT_CYCLES) + (cycle * f64::from(BACKLOG_CYCLES)).max(file * BACKLOG_FILES as f64);
    }
    most
}

/// Solves one interval: the rate of each link in Gb/s.
fn solve(plan: &SimPlan, scene: &Scene, wanted: &[f64], bounds: &[Bound]) -> Option<Vec<f64>> {
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
    // The last programme only polishes: the solution of the one before it holds in any case.
    Some(total.map_or(if share > 0.0 { least } else { rates }, |solution| solution.0))
}

/// The links of each priority, the most urgent first; a link counts with its most urgent activity.
fn classes(plan: &SimPlan, scene: &Scene) -> Vec<Vec<bool>> {
    let mut priority = vec![0_u8; scene.links.len()];
    for ask in scene.asks.iter().filter(|ask| ask.rate > BitRate::ZERO) {
        let own = plan.sim.activity(plan.workloads[ask.workload].activity()).priority;
        priority[ask.link] = priority[ask.link].max(own);
    }
    let levels: BTreeSet<u8> = priority.iter().copied().collect();
    let members = |level: u8| priority.iter().map(|own| *own == level).collect();
    levels.into_iter().rev().map(members).collect()
}

/// One linear programme.
///
/// `share`: maximise the least share that a link gets of its demand (positive), or keep at least so much of it
/// (negative). Returns the rates and the share.
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
