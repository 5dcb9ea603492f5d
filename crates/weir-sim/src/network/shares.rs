//! Rates of flows: populations of classes in, levels of resources out.
//!
//! A full resource gives each flow on it the same rate per weight, its **level**. A flow gets the lowest level on its
//! path times its weight, or its cap if that is less. Classes of equal path make a **route**, which has one level. Its
//! demand as a function of the level is concave and made of straight pieces, `fixed + weight × level`. There `fixed` is
//! the sum of the rates of classes at their caps, and `weight` the sum of the weights of the others. [`super::fill`]
//! finds the levels.

use super::quantities::{Rate, Weight};

/// No resource.
pub(super) const NONE: u32 = u32::MAX;

/// Steps per B/s in a sum of caps: an integer, and so the same in any order.
const CAP_STEPS: f64 = 1_099_511_627_776.0;

/// A resource, as shares see it.
#[derive(Debug)]
pub(super) struct Resource {
    /// Bytes per second.
    pub(super) capacity: f64,
    /// False for a fat pipe, whose capacity is a cap on each class.
    pub(super) shared: bool,
    /// Bytes per second and weight of a flow that is held back here; infinite if none is.
    pub(super) level: f64,
    /// The rate across it, in bytes per second.
    pub(super) load: f64,
    /// Routes across it, and how often each crosses.
    pub(super) routes: Vec<(u32, u32)>,
    /// In `dirty`.
    pub(super) dirty: bool,
    /// A route on it has weight and nothing yet that holds it back.
    pub(super) unbounded: bool,
}

/// Where a route stands in a solution under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Without flows; its level means nothing.
    Empty,
    /// At the level of the last solution.
    Before,
    /// Rising with the level.
    Active,
    /// At its new level.
    Settled,
}

/// Classes of one path: the part that the solver reads. It takes one line of cache.
#[derive(Debug)]
pub(super) struct Route {
    /// Weight of all flows below their caps, in steps.
    pub(super) weight: u128,
    /// Rate of all flows at their caps.
    pub(super) fixed: f64,
    /// `fixed` and `weight` hold for levels from `low` to `high`.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Lowest level on its path.
    pub(super) level: f64,
    /// Its hops, as a range of `Shares::hops`.
    pub(super) hops: (u32, u32),
    /// The resource of that level.
    pub(super) bottleneck: u32,
    pub(super) standing: Standing,
}

impl Route {
    /// Its rate on each crossing, in bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.fixed + self.elastic()
    }

    /// The part of that rate that is certain while a solution is under way: all of a stopped route, the caps of a
    /// rising one.
    pub(super) fn firm_rate(&self) -> f64 {
        match self.standing {
            Standing::Empty => 0.0,
            Standing::Active => self.fixed,
            Standing::Before | Standing::Settled => self.rate(),
        }
    }

    /// The part of that which follows the level; nothing as long as no resource holds it back.
    pub(super) fn elastic(&self) -> f64 {
        if self.level.is_finite() {
            Weight::sum(self.weight) * self.level
        } else {
            0.0
        }
    }
}

/// Classes of one path: the part that changes only with populations and caps.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Its classes by the level at which they reach their caps (last: those without), then by number.
    pub(super) by_cap: Vec<(f64, u32)>,
    /// How many of them are at their caps.
    pub(super) capped: usize,
    /// Exact sums over flows: weights below caps and all, in steps, and caps in steps of 2⁻⁴⁰ B/s.
    weight: u128,
    pub(super) weight_all: u128,
    fixed: u128,
    flows: u64,
    /// The fat pipes on its path.
    fat_pipes: Vec<u32>,
}

#[derive(Debug)]
struct Population {
    route: u32,
    weight: Weight,
    cap: f64,
    flows: u32,
    capped: bool,
    /// Its cap, were there no fat pipes on its path.
    cap_asked: f64,
}

impl Population {
    fn cap_level(&self) -> f64 {
        self.cap / self.weight.as_f64()
    }

    fn cap_steps(&self) -> u128 {
        if self.cap.is_finite() {
            (self.cap * CAP_STEPS) as u128
        } else {
            0
        }
    }
}

/// Populations, and the rates that follow from them.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) resources: Vec<Resource>,
    pub(super) routes: Vec<Route>,
    pub(super) members: Vec<Members>,
    /// Resource and number of crossings, route after route.
    pub(super) hops: Vec<(u32, u32)>,
    classes: Vec<Population>,
    /// Resources whose level may no longer hold.
    pub(super) dirty: Vec<u32>,
}

impl Shares {
    pub(super) fn add_resource(&mut self, capacity: f64, shared: bool) -> u32 {
        self.resources.push(Resource {
            capacity,
            shared,
            level: f64::INFINITY,
            load: 0.0,
            routes: Vec::new(),
            dirty: false,
            unbounded: false,
        });
        self.resources.len() as u32 - 1
    }

    /// Adds a route over these resources, each named once with its number of crossings.
    pub(super) fn add_route(&mut self, path: &[(u32, u32)]) -> u32 {
        let id = self.routes.len() as u32;
        let from = self.hops.len() as u32;
        let mut members = Members::default();
        for &(resource, crossings) in path {
            let on = &mut self.resources[resource as usize];
            on.routes.push((id, crossings));
            if on.shared {
                self.hops.push((resource, crossings));
            } else {
                members.fat_pipes.push(resource);
            }
        }
        self.members.push(members);
        self.routes.push(Route {
            weight: 0,
            fixed: 0.0,
            low: 0.0,
            high: f64::INFINITY,
            level: f64::INFINITY,
            hops: (from, self.hops.len() as u32),
            bottleneck: NONE,
            standing: Standing::Empty,
        });
        id
    }

    /// Adds a class without flows to a route.
    pub(super) fn add_class(&mut self, route: u32, weight: Weight, cap: f64) -> u32 {
        let id = self.classes.len() as u32;
        let mut class = Population {
            route,
            weight,
            cap,
            flows: 0,
            capped: false,
            cap_asked: cap,
        };
        class.cap = self.cap_of(&class);
        let level = class.cap_level();
        let members = &mut self.members[route as usize];
        let at = members.by_cap.partition_point(|(other, _)| *other <= level);
        members.by_cap.insert(at, (level, id));
        if at < members.capped {
            members.capped += 1;
            class.capped = true;
        }
        self.classes.push(class);
        self.segment(route, self.routes[route as usize].level);
        id
    }

    /// Says that a class has so many flows.
    pub(super) fn set_flows(&mut self, class: u32, flows: u32) {
        let at = class as usize;
        let route = self.classes[at].route;
        if self.members[route as usize].flows == 0 {
            self.rejoin(route);
        }
        let before = self.routes[route as usize].rate();
        let old = std::mem::replace(&mut self.classes[at].flows, flows);
        self.count(at, old, false);
        self.count(at, flows, true);
        self.refresh(route);
        let empty = self.members[route as usize].flows == 0;
        self.routes[route as usize].standing = if empty { Standing::Empty } else { Standing::Before };
        self.reload(route, before);
    }

    /// Changes the capacity of a resource, and returns the classes whose caps change with it.
    pub(super) fn set_capacity(&mut self, resource: u32, capacity: f64) -> Vec<u32> {
        let on = &mut self.resources[resource as usize];
        on.capacity = capacity;
        if on.shared {
            self.mark(resource);
            return Vec::new();
        }
        let routes: Vec<u32> = on.routes.iter().map(|(route, _)| *route).collect();
        for route in &routes {
            self.recap(*route);
        }
        let classes = |route: &u32| self.members[*route as usize].by_cap.iter().map(|(_, class)| *class);
        routes.iter().flat_map(classes).collect()
    }

    /// True if flows of the class are at their caps.
    pub(super) fn is_capped(&self, class: u32) -> bool {
        self.classes[class as usize].capped
    }

    /// The cap of a class in bytes per second and weight.
    pub(super) fn cap_level(&self, class: u32) -> f64 {
        self.classes[class as usize].cap_level()
    }

    /// The resource that holds the flows of a class back, if they are below their caps.
    pub(super) fn bottleneck(&self, class: u32) -> u32 {
        self.routes[self.classes[class as usize].route as usize].bottleneck
    }

    /// The rate across a resource, in bytes per second.
    pub(super) fn load(&self, resource: u32) -> f64 {
        let on = &self.resources[resource as usize];
        if on.shared {
            return on.load;
        }
        let load = |(route, crossings): &(u32, u32)| self.routes[*route as usize].rate() * f64::from(*crossings);
        on.routes.iter().map(load).sum()
    }

    /// Moves a route to the piece of its demand that holds at `level`.
    pub(super) fn segment(&mut self, route: u32, level: f64) {
        let at = route as usize;
        loop {
            let members = &self.members[at];
            if let Some(&(_, class)) = members.by_cap.get(members.capped).filter(|next| next.0 < level) {
                self.toggle(class, true);
            } else if let Some(&(_, class)) = last_capped(members).filter(|last| last.0 > level) {
                self.toggle(class, false);
            } else {
                break;
            }
        }
        self.refresh(route);
    }

    /// Marks a resource for the next solution.
    pub(super) fn mark(&mut self, resource: u32) {
        let on = &mut self.resources[resource as usize];
        if !on.dirty {
            on.dirty = true;
            self.dirty.push(resource);
        }
    }

    /// The hops of a route.
    pub(super) fn hops(&self, route: u32) -> std::ops::Range<usize> {
        let (from, to) = self.routes[route as usize].hops;
        from as usize..to as usize
    }

    /// Takes a class to its cap or from it, while nothing but the solution under way looks.
    fn toggle(&mut self, class: u32, capped: bool) {
        let at = class as usize;
        let flows = self.classes[at].flows;
        self.count(at, flows, false);
        self.classes[at].capped = capped;
        self.count(at, flows, true);
        let members = &mut self.members[self.classes[at].route as usize];
        members.capped = if capped { members.capped + 1 } else { members.capped - 1 };
    }

    /// Adds flows of a class to the sums of its route, or takes them out.
    fn count(&mut self, class: usize, flows: u32, add: bool) {
        let class = &self.classes[class];
        let members = &mut self.members[class.route as usize];
        let weight = u128::from(class.weight.steps()) * u128::from(flows);
        let fixed = class.cap_steps().saturating_mul(u128::from(flows));
        let apply = |sum: &mut u128, part: u128| *sum = if add { *sum + part } else { *sum - part };
        apply(&mut members.weight_all, weight);
        if class.capped {
            apply(&mut members.fixed, fixed);
        } else {
            apply(&mut members.weight, weight);
        }
        members.flows = if add {
            members.flows + u64::from(flows)
        } else {
            members.flows - u64::from(flows)
        };
    }

    /// Copies the sums of a route's members to the part that the solver reads.
    fn refresh(&mut self, route: u32) {
        let (route, members) = (&mut self.routes[route as usize], &self.members[route as usize]);
        route.weight = members.weight;
        route.fixed = members.fixed as f64 / CAP_STEPS;
        route.low = last_capped(members).map_or(0.0, |last| last.0);
        route.high = members.by_cap.get(members.capped).map_or(f64::INFINITY, |next| next.0);
    }

    /// Puts a route without flows where its path stands now.
    fn rejoin(&mut self, route: u32) {
        let (mut level, mut bottleneck) = (f64::INFINITY, NONE);
        for hop in self.hops(route) {
            let resource = self.hops[hop].0;
            let here = self.resources[resource as usize].level;
            if here < level {
                (level, bottleneck) = (here, resource);
            }
        }
        let at = route as usize;
        (self.routes[at].level, self.routes[at].bottleneck) = (level, bottleneck);
        self.segment(route, level);
    }

    /// Replaces a route's former rate `before` on its resources by the current one.
    fn reload(&mut self, route: u32, before: f64) {
        let on = &self.routes[route as usize];
        let more = on.rate() - before;
        let unbounded = on.weight > 0 && on.level.is_infinite();
        for hop in self.hops(route) {
            let (resource, crossings) = self.hops[hop];
            let on = &mut self.resources[resource as usize];
            on.load += more * f64::from(crossings);
            on.unbounded |= unbounded;
            self.mark(resource);
        }
    }

    fn cap_of(&self, class: &Population) -> f64 {
        let capacity = |pipe: &u32| self.resources[*pipe as usize].capacity;
        self.members[class.route as usize]
            .fat_pipes
            .iter()
            .map(capacity)
            .fold(class.cap_asked, f64::min)
    }

    /// Works the caps of a route's classes out again, after a fat pipe has changed.
    fn recap(&mut self, route: u32) {
        let at = route as usize;
        let before = self.routes[at].rate();
        let classes = std::mem::take(&mut self.members[at].by_cap);
        let flows: Vec<u32> = classes
            .iter()
            .map(|(_, class)| self.classes[*class as usize].flows)
            .collect();
        for (&(_, class), flows) in classes.iter().zip(&flows) {
            self.count(class as usize, *flows, false);
            let cap = self.cap_of(&self.classes[class as usize]);
            let class = &mut self.classes[class as usize];
            (class.cap, class.capped) = (cap, false);
        }
        let mut by_cap: Vec<(f64, u32)> = classes
            .iter()
            .map(|(_, class)| (self.cap_level(*class), *class))
            .collect();
        by_cap.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.members[at].by_cap = by_cap;
        self.members[at].capped = 0;
        for (&(_, class), flows) in classes.iter().zip(&flows) {
            self.count(class as usize, *flows, true);
        }
        self.segment(route, self.routes[at].level);
        self.reload(route, before);
    }
}

fn last_capped(members: &Members) -> Option<&(f64, u32)> {
    members.capped.checked_sub(1).map(|last| &members.by_cap[last])
}

/// The internal form of a cap: bytes per second, infinite if there is none.
pub(super) fn cap_inside(cap: Option<Rate>) -> f64 {
    cap.map_or(f64::INFINITY, Rate::bytes_per_second)
}
