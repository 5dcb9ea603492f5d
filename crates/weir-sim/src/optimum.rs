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
use std::ops::Range;
use std::time::Duration;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use weir_plan::inject::{BACKLOG_CYCLES, BACKLOG_FILES, DEBT_CYCLES};
use weir_plan::{Plan, Workload};
use weir_units::{BitRate, Bytes};

use crate::scene::{Ask, LinkScene, Scene};
use crate::world::Background;

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
    /// Gb/s; else slots, of which a transfer takes one however much it moves.
    is_rate: bool,
}

/// Works out the optimum of a plan; `None` if the solver finds none, which only an ill-posed plan can bring about.
pub fn optimum(plan: &Plan, scene: &Scene) -> Option<Optimum> {
    let phases = &plan.phases;
    let hold = phases.hold.as_secs_f64();
    let mut left = vec![0.0; scene.links.len()];
    let mut moved = vec![0.0; scene.links.len()];
    let mut full: BTreeMap<String, f64> = BTreeMap::new();
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
        let bounds = bounds(plan, scene, &wide, from..until);
        let rates = solve(plan, scene, &wanted, &bounds)?;
        for (link, rate) in rates.iter().enumerate() {
            left[link] = ((wanted[link] - rate) * seconds).clamp(0.0, left_most[link]);
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

/// Says what carried more than it can until `end`, where each link has moved so many bytes.
pub(crate) fn exceeded(plan: &Plan, scene: &Scene, moved: &[u64], end: Duration) -> Vec<String> {
    if end.is_zero() {
        return Vec::new();
    }
    let bounds = bounds(plan, scene, &Wide::new(plan, scene, end), Duration::ZERO..end);
    let mean = |link: usize| moved[link] as f64 * 8.0 / GIGA / end.as_secs_f64();
    let used = |bound: &Bound| bound.uses.iter().map(|(link, by)| mean(*link) * by).sum::<f64>();
    let over = |bound: &&Bound| bound.is_rate && used(bound) > bound.most * (1.0 + SLACK) + SLACK;
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

/// Gigabits that can be left of each link's ask, at most: what its injectors let wait, and what they remember to owe.
fn left_most(plan: &Plan, scene: &Scene) -> Vec<f64> {
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

/// What is left for us from each moment on.
type Left = Vec<(Duration, BitRate)>;

/// What is left of each site's connection, in and out, and of each segment.
struct Wide {
    sites: Vec<[Option<Left>; 2]>,
    segments: Vec<Left>,
}

impl Wide {
    fn new(plan: &Plan, scene: &Scene, end: Duration) -> Wide {
        let seed = plan.seed;
        // Rates follow what takes capacity away within the tick after the one in which it happens.
        let late = |left| drops_later(left, 2 * scene.tick);
        let site = |site: &crate::scene::Site| {
            let model = &site.model;
            let variation = model.background_variation.unwrap_or(0.0);
            let ends = [
                ("in", model.inward, model.background_in),
                ("out", model.outward, model.background_out),
            ];
            ends.map(|(way, capacity, taken)| {
                let name = format!("{} {way}", site.name);
                let background = Background::new(&name, taken.unwrap_or_default(), variation, seed);
                capacity.map(|capacity| late(background.left_over_time(capacity, &[], end)))
            })
        };
        let segment = |segment: &weir_plan::sim::Segment| {
            let (mean, variation) = (segment.background, segment.background_variation);
            let background = Background::new(&segment.name, mean, variation, seed);
            late(background.left_over_time(segment.capacity, &segment.changes, end))
        };
        Wide {
            sites: scene.sites.iter().map(site).collect(),
            segments: scene.segments.iter().map(segment).collect(),
        }
    }
}

/// Lets what takes something away happen so much later.
fn drops_later(left: Left, late: Duration) -> Left {
    let mut list: Left = Vec::with_capacity(left.len());
    for (at, rate) in left {
        let before = list.last().copied().unwrap_or_default();
        let at = if rate < before.1 { at + late } else { at };
        list.push((at.max(before.0), rate));
    }
    list
}

/// The mean within a span of what is left from each moment on.
fn mean_left(left: &[(Duration, BitRate)], span: &Range<Duration>) -> BitRate {
    let ends = left.iter().skip(1).map(|next| next.0).chain([Duration::MAX]);
    let part = |(from, rate): &(Duration, BitRate), until: Duration| {
        let time = until.min(span.end).saturating_sub((*from).max(span.start));
        rate.as_f64() * time.as_secs_f64()
    };
    let all: f64 = left.iter().zip(ends).map(|(left, until)| part(left, until)).sum();
    BitRate((all / span.end.saturating_sub(span.start).as_secs_f64()) as u64)
}

/// What one transfer of a link brings while it holds a slot, in Gb/s, where that takes `overhead` beside its bytes.
fn per_transfer(link: &LinkScene, size: Bytes, overhead: Duration) -> f64 {
    let bits = size.as_f64() * 8.0 / GIGA;
    let stream = link.stream.map_or(f64::INFINITY, |rate| rate.as_f64() / GIGA);
    bits / (overhead.as_secs_f64() + bits / stream).max(1e-9)
}

fn bounds(plan: &Plan, scene: &Scene, wide: &Wide, span: Range<Duration>) -> Vec<Bound> {
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
        let name = &site.name;
        let [most_in, most_out] = [0, 1].map(|way: usize| {
            let left = wide.sites[number][way].as_ref();
            left.map(|left| mean_left(left, &span))
        });
        bounds.rate(format!("{name}: wide-area link in"), most_in, &inward);
        bounds.rate(format!("{name}: wide-area link out"), most_out, &outward);
    }
    for (segment, number) in scene.segments.iter().zip(0..) {
        let uses = |link: &LinkScene| link.via.contains(&number);
        let most = mean_left(&wide.segments[number], &span);
        bounds.rate(format!("segment {}", segment.name), Some(most), &uses);
    }
    for number in 0..scene.storages.len() {
        storage(plan, &mut bounds, number);
    }
    for (link, number) in scene.links.iter().zip(0..) {
        let only = |other: &LinkScene| std::ptr::eq(other, link);
        bounds.rate(format!("link {}", link.link), link.capacity, &only);
        let most = link.max_active.unwrap_or(plan.grid.transfer.max_active_per_link);
        bounds.slots(
            format!("{}: slots of the link", link.link),
            most,
            Held::Attempt,
            &|other| other == number,
        );
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
        &reads,
    );
    bounds.rate(
        format!("{name}: writing"),
        best(model.write, model.write_curve.as_ref()),
        &writes,
    );
    let both = |link: &LinkScene| reads(link) || writes(link);
    bounds.rate(format!("{name}: disk"), model.disk, &both);
    let servers: BitRate = storage.servers.iter().map(|server| server.0).sum();
    bounds.rate(
        format!("{name}: servers"),
        Some(servers).filter(|_| !storage.servers.is_empty()),
        &both,
    );
    let grid = &plan.grid.transfer;
    let into = |link: usize| scene.links[link].destination == number;
    let out_of = |link: usize| scene.links[link].source == number;
    let (inbound, outbound) = (
        model.max_active_in.unwrap_or(grid.max_active_per_rse_in),
        model.max_active_out.unwrap_or(grid.max_active_per_rse_out),
    );
    bounds.slots(format!("{name}: slots in"), inbound, Held::Attempt, &into);
    bounds.slots(format!("{name}: slots out"), outbound, Held::Attempt, &out_of);
    if let Some(most) = model.write_connections {
        bounds.slots(format!("{name}: connections in"), most, Held::Connection, &into);
    }
    if let Some(most) = model.read_connections {
        bounds.slots(format!("{name}: connections out"), most, Held::Connection, &out_of);
    }
}

/// What a transfer holds beside the time of its bytes.
#[derive(Clone, Copy)]
enum Held {
    /// A slot of the scheduler's: from the start of the attempt to its end.
    Attempt,
    /// A connection: from its first byte to its end.
    Connection,
}

struct Bounds<'s> {
    scene: &'s Scene,
    list: Vec<Bound>,
}

impl Bounds<'_> {
    fn rate(&mut self, name: String, most: Option<BitRate>, uses: &dyn Fn(&LinkScene) -> bool) {
        let Some(most) = most else { return };
        let users = self.scene.links.iter().enumerate().filter(|(_, link)| uses(link));
        let uses: Vec<(usize, f64)> = users.map(|(at, _)| (at, 1.0)).collect();
        self.add(name, uses, most.as_f64() / GIGA, true);
    }

    fn slots(&mut self, name: String, most: u32, held: Held, uses: &dyn Fn(usize) -> bool) {
        let common = &self.scene.common;
        let per_slot = |at: usize| {
            let link = &self.scene.links[at];
            // The largest of its files: they hold a slot the longest for their start.
            let asks = self.scene.asks.iter().filter(|ask| ask.link == at);
            let size = asks.map(|ask| ask.file_size).max().unwrap_or_default().max(Bytes(1));
            let overhead = match held {
                Held::Attempt => common.startup + link.rtt * common.handshakes + common.finalization,
                Held::Connection => common.finalization,
            };
            per_transfer(link, size, overhead)
        };
        let users = (0..self.scene.links.len()).filter(|at| uses(*at));
        let uses: Vec<(usize, f64)> = users.map(|at| (at, 1.0 / per_slot(at))).collect();
        self.add(name, uses, f64::from(most), false);
    }

    fn add(&mut self, name: String, uses: Vec<(usize, f64)>, most: f64, is_rate: bool) {
        if !uses.is_empty() {
            self.list.push(Bound {
                name,
                uses,
                most,
                is_rate,
            });
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
