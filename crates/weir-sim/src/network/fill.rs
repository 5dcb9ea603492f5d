//! Finds the levels: progressive filling from the lowest level that a change can reach.
//!
//! All flows rise together, in the ratio of their weights; where a resource is full, the flows on it stop (Bertsekas
//! and Gallager, *Data Networks*, section 6.5.2). Flows that stopped below the lowest level that a change can reach
//! keep their rates. Above, resources enter only as routes that cross them begin to rise:
//!
//! - a **full** one enters with all its routes, which rise with it;
//! - one **with room** is only watched: its other routes keep their rates unless it fills up, and enter then.
//!
//! A route's demand is concave in the level. So the straight piece on which it stood before bounds it from above, and
//! the level at which a resource would be full from below. The lowest of these bounds is made exact. Routes that the
//! bound finds on another piece are moved to it. Then the bound rises, and the resource waits its turn again (Newton's
//! method, from one side, over finitely many pieces). If no route moves, the resource is full at that level.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::quantities::Weight;
use super::shares::{NONE, Shares, Standing};

/// Relative difference below which two levels are one: roundings of a sum of some thousand terms.
const SAME: f64 = 1e-13;

/// Each pass raises the bound; the few that remain low cost a wider solution, not a wrong one.
const BOUND_PASSES: usize = 8;

/// Share of a capacity by which fixed rates may exceed it through rounding.
const SLACK: f64 = 1e-12;

/// Multiple of its capacity by which the free part of a resource may change in one step. A far larger change loses the
/// last digits, and the sum is computed again.
const BLUR: f64 = 1000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    #[default]
    Away,
    Watched,
    Open,
    Full,
}

/// A resource in the solution under way.
#[derive(Debug, Clone, Copy, Default)]
struct Basin {
    stage: Stage,
    /// In `lowered`.
    lowered: bool,
    /// Caps far above the capacity have come or gone, and digits of `free` with them.
    blurred: bool,
    /// Capacity left by flows that have stopped or have fixed rates.
    free: f64,
    /// Weight of the flows that rise in steps, crossings counted: exact, so that it is zero when the last has stopped.
    weight: u128,
}

impl Basin {
    /// A lower bound of the level at which this resource is full; `None` if it will not be.
    fn bound(&self, capacity: f64) -> Option<f64> {
        if self.weight > 0 && capacity == 0.0 {
            Some(0.0) // nothing is nothing: not what rounding has left
        } else if self.weight > 0 {
            Some(self.free.max(0.0) / Weight::sum(self.weight))
        } else {
            (self.free < -SLACK * capacity).then_some(0.0)
        }
    }
}

/// A level that orders as numbers do; levels are zero or more, and never undefined.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Level(f64);

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Level) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Level) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The solver's memory between solutions, and the changes of the last one.
#[derive(Debug, Default)]
pub(super) struct Filling {
    basins: Vec<Basin>,
    queue: BinaryHeap<Reverse<(Level, u32)>>,
    to_open: Vec<u32>,
    lowered: Vec<u32>,
    /// Resources in this solution, and their levels before.
    touched: Vec<(u32, f64)>,
    /// Routes that rose in this solution, and their bottlenecks before.
    routes: Vec<(u32, u32)>,
    /// Routes that went to another piece, and how many of their classes were at their caps before.
    sharpened: Vec<(u32, usize)>,
    /// Resources whose level changed.
    pub(super) paced: Vec<u32>,
    /// Classes that may now be held back by something else; may name one twice.
    pub(super) moved: Vec<u32>,
    /// Number of routes touched so far, the measure of work.
    pub(super) work: u64,
}

impl Filling {
    /// Brings all levels up to date with populations and capacities; false if they already are.
    pub(super) fn solve(&mut self, shares: &mut Shares) -> bool {
        self.paced.clear();
        self.moved.clear();
        if shares.dirty.is_empty() {
            return false;
        }
        self.basins.resize(shares.resources.len(), Basin::default());
        let level = self.seed(shares);
        if self.to_open.is_empty() {
            return false;
        }
        self.open(shares, level);
        self.fill(shares, level);
        self.finish(shares);
        true
    }

    /// Picks the resources that change by themselves, and gives the lowest level that any of them has before or after.
    fn seed(&mut self, shares: &mut Shares) -> f64 {
        let mut lowest = f64::INFINITY;
        for index in 0..shares.dirty.len() {
            let resource = shares.dirty[index];
            let on = &mut shares.resources[resource as usize];
            on.dirty = false;
            let before = on.level;
            let after = lower_bound(shares, resource);
            shares.resources[resource as usize].unbounded = false;
            if same(before, after) {
                continue;
            }
            lowest = lowest.min(after).min(before);
            self.to_open.push(resource);
        }
        shares.dirty.clear();
        lowest
    }

    /// Lets the waiting resources enter at `level`, and the ones that must follow.
    fn open(&mut self, shares: &mut Shares, level: f64) {
        while let Some(resource) = self.to_open.pop() {
            let at = resource as usize;
            if matches!(self.basins[at].stage, Stage::Open | Stage::Full) {
                continue;
            }
            self.touch(shares, resource);
            let mut basin = Basin {
                stage: Stage::Open,
                lowered: self.basins[at].lowered,
                free: shares.resources[at].capacity,
                ..Basin::default()
            };
            let routes = std::mem::take(&mut shares.resources[at].routes);
            for &(route, crossings) in &routes {
                let on = &shares.routes[route as usize];
                let enters = on.level >= level || on.bottleneck == resource;
                if enters && on.standing == Standing::Before {
                    self.activate(shares, route, resource);
                }
                let on = &shares.routes[route as usize];
                basin.free -= f64::from(crossings) * on.firm_rate();
                if on.standing == Standing::Active {
                    basin.weight += u128::from(crossings) * on.weight;
                }
            }
            self.work += routes.len() as u64;
            shares.resources[at].routes = routes;
            self.basins[at] = basin;
            self.lower(resource);
        }
        self.requeue(shares);
    }

    /// Lets a route rise, as told by a resource that is counting its routes; the others on its path are told.
    fn activate(&mut self, shares: &mut Shares, route: u32, counting: u32) {
        let hops = shares.hops(route);
        let on = &mut shares.routes[route as usize];
        on.standing = Standing::Active;
        let (weight, elastic) = (on.weight, on.elastic());
        self.routes.push((route, on.bottleneck));
        for hop in hops {
            let (resource, crossings) = shares.hops[hop];
            let at = resource as usize;
            if resource == counting {
                continue;
            }
            if self.basins[at].stage == Stage::Away {
                let on = &shares.resources[at];
                if on.level.is_finite() {
                    self.to_open.push(resource);
                    continue;
                }
                self.touch(shares, resource);
                self.basins[at].stage = Stage::Watched;
                self.basins[at].free = shares.resources[at].capacity - shares.resources[at].load;
            }
            self.basins[at].free += f64::from(crossings) * elastic;
            self.basins[at].weight += u128::from(crossings) * weight;
            self.lower(resource);
        }
    }

    fn fill(&mut self, shares: &mut Shares, lowest: f64) {
        let mut level = lowest;
        while let Some(Reverse((Level(queued), resource))) = self.queue.pop() {
            let basin = self.basins[resource as usize];
            let capacity = shares.resources[resource as usize].capacity;
            let Some(bound) = basin.bound(capacity).filter(|_| basin.stage != Stage::Full) else {
                continue;
            };
            if bound > queued {
                self.queue.push(Reverse((Level(bound), resource)));
                continue;
            }
            level = level.max(bound);
            if basin.stage == Stage::Watched {
                self.to_open.push(resource);
                self.open(shares, level);
            } else if !self.sharpen(shares, resource, level) {
                self.settle(shares, resource, level);
            }
        }
    }

    /// Moves the routes of a resource to the pieces of their demand that hold at `level`; true if any had to move.
    fn sharpen(&mut self, shares: &mut Shares, resource: u32, level: f64) -> bool {
        let mut moved = false;
        for index in 0..shares.resources[resource as usize].routes.len() {
            let (route, _) = shares.resources[resource as usize].routes[index];
            let on = &shares.routes[route as usize];
            if on.standing != Standing::Active || (on.low <= level && level <= on.high) {
                continue;
            }
            moved = true;
            let (fixed, weight) = (on.fixed, on.weight);
            self.sharpened.push((route, shares.members[route as usize].capped));
            shares.segment(route, level);
            let on = &shares.routes[route as usize];
            for &(resource, crossings) in &shares.hops[shares.hops(route)] {
                let basin = &mut self.basins[resource as usize];
                let more = f64::from(crossings) * (on.fixed - fixed);
                basin.free -= more;
                basin.blurred |= more.abs() > BLUR * shares.resources[resource as usize].capacity;
                basin.weight += u128::from(crossings) * on.weight;
                basin.weight -= u128::from(crossings) * weight;
                if !basin.lowered {
                    basin.lowered = true;
                    self.lowered.push(resource);
                }
            }
        }
        self.requeue(shares);
        moved
    }

    /// Stops the flows that rise on a resource: it is full.
    fn settle(&mut self, shares: &mut Shares, resource: u32, level: f64) {
        let at = resource as usize;
        self.basins[at].stage = Stage::Full;
        let on = &mut shares.resources[at];
        on.level = level;
        self.work += on.routes.len() as u64;
        for &(route, _) in &shares.resources[at].routes {
            let on = &mut shares.routes[route as usize];
            if on.standing != Standing::Active {
                continue;
            }
            (on.standing, on.level, on.bottleneck) = (Standing::Settled, level, resource);
            let (weight, rate, hops) = (on.weight, on.elastic(), on.hops);
            for &(other, crossings) in &shares.hops[hops.0 as usize..hops.1 as usize] {
                let basin = &mut self.basins[other as usize];
                basin.free -= f64::from(crossings) * rate;
                basin.weight -= u128::from(crossings) * weight;
            }
        }
    }

    /// Collects the changes, and clears the rest.
    fn finish(&mut self, shares: &mut Shares) {
        for (resource, before) in self.touched.drain(..) {
            let basin = std::mem::take(&mut self.basins[resource as usize]);
            let on = &mut shares.resources[resource as usize];
            if basin.stage == Stage::Full {
                on.load = on.capacity;
            } else {
                on.level = f64::INFINITY;
                on.load = on.capacity - basin.free;
            }
            if on.level.to_bits() != before.to_bits() {
                self.paced.push(resource);
            }
        }
        for (route, bottleneck) in self.routes.drain(..) {
            let on = &mut shares.routes[route as usize];
            if on.standing == Standing::Active {
                (on.level, on.bottleneck) = (f64::INFINITY, NONE);
                self.sharpened.push((route, shares.members[route as usize].capped));
                shares.segment(route, f64::INFINITY);
            }
            let on = &mut shares.routes[route as usize];
            on.standing = Standing::Before;
            if on.bottleneck != bottleneck {
                let members = &shares.members[route as usize];
                let below = &members.by_cap[members.capped..];
                self.moved.extend(below.iter().map(|(_, class)| *class));
            }
        }
        for (route, before) in self.sharpened.drain(..) {
            let members = &shares.members[route as usize];
            let toggled = &members.by_cap[before.min(members.capped)..before.max(members.capped)];
            self.moved.extend(toggled.iter().map(|(_, class)| *class));
        }
    }

    fn touch(&mut self, shares: &Shares, resource: u32) {
        if self.basins[resource as usize].stage == Stage::Away {
            self.touched.push((resource, shares.resources[resource as usize].level));
        }
    }

    /// Notes that the bound of a resource may have become lower.
    fn lower(&mut self, resource: u32) {
        let basin = &mut self.basins[resource as usize];
        if !basin.lowered {
            basin.lowered = true;
            self.lowered.push(resource);
        }
    }

    fn requeue(&mut self, shares: &Shares) {
        for resource in self.lowered.drain(..) {
            let basin = &mut self.basins[resource as usize];
            basin.lowered = false;
            if std::mem::take(&mut basin.blurred) {
                basin.free = free(shares, resource);
            }
            if let Some(bound) = basin.bound(shares.resources[resource as usize].capacity) {
                self.queue.push(Reverse((Level(bound), resource)));
            }
        }
    }
}

/// The free capacity of a resource at the beginning of a solution.
fn free(shares: &Shares, resource: u32) -> f64 {
    let on = &shares.resources[resource as usize];
    on.routes.iter().fold(on.capacity, |free, (route, crossings)| {
        free - f64::from(*crossings) * shares.routes[*route as usize].firm_rate()
    })
}

/// True if two levels differ by rounding at most; infinite ones are the same.
fn same(one: f64, other: f64) -> bool {
    if one.is_infinite() || other.is_infinite() {
        return one.is_infinite() && other.is_infinite();
    }
    (one - other).abs() <= SAME * one
}

/// Bounds the new level of a resource from below, on the supposition that nothing has changed below that bound.
///
/// Infinite if all flows across it leave room. Its own routes rise; other routes that stopped below the bound
/// stay.
fn lower_bound(shares: &Shares, resource: u32) -> f64 {
    let on = &shares.resources[resource as usize];
    if on.level.is_infinite() && on.load < on.capacity * (1.0 - 1e-9) && !on.unbounded {
        return f64::INFINITY;
    }
    // A level hardly below the old one is a bound if the resource is not full at it; zero always is.
    let mut bound = if on.level.is_finite() { on.level * 0.98 } else { 0.0 };
    for _ in 0..BOUND_PASSES {
        let next = raise(shares, resource, bound);
        if next.is_infinite() {
            return next;
        }
        if next < bound {
            bound = 0.0;
        } else if next <= bound * (1.0 + SAME) {
            break;
        } else {
            bound = next;
        }
    }
    bound
}

/// The level at which a resource would be full if demand went on from `bound` in a straight line.
fn raise(shares: &Shares, resource: u32, bound: f64) -> f64 {
    let on = &shares.resources[resource as usize];
    let (mut free, mut fixed, mut weight) = (on.capacity, 0.0, 0);
    for &(route, crossings) in &on.routes {
        let route = &shares.routes[route as usize];
        if route.standing == Standing::Empty {
        } else if route.level < bound && route.bottleneck != resource {
            free -= f64::from(crossings) * route.rate();
        } else {
            fixed += f64::from(crossings) * route.fixed;
            weight += u128::from(crossings) * route.weight;
        }
    }
    if weight > 0 && (fixed == 0.0 || free > fixed) {
        return (free - fixed) / Weight::sum(weight);
    }
    if weight == 0 && free - fixed >= -SLACK * on.capacity {
        return f64::INFINITY;
    }
    // The routes at their caps are too many: count them without caps.
    let all = |(route, crossings): &(u32, u32)| {
        let (on, members) = (&shares.routes[*route as usize], &shares.members[*route as usize]);
        let rises = on.level >= bound || on.bottleneck == resource;
        if rises {
            u128::from(*crossings) * members.weight_all
        } else {
            0
        }
    };
    let weight: u128 = on.routes.iter().map(all).sum();
    if weight == 0 {
        0.0 // what stands below `bound` is more than the capacity: some of it has to fall, so `bound` is none
    } else {
        free.max(0.0) / Weight::sum(weight)
    }
}
