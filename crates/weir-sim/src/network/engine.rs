//! The event loop: starts, ends, and the rates between them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use weir_units::{Bytes, Timestamp};

use super::clocks::Clocks;
use super::fill::Filling;
use super::flows::{Class, FlowId, FlowTable};
use super::held::{HeldTimes, Limit};
use super::quantities::{ATTOS_PER_NANO, Moment, Rate, Weight};
use super::shares::{NONE, Shares, cap_inside};

/// A capacity that flows cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(u32);

/// A set of flows with the same path, weight and cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(u32);

impl ClassId {
    /// The place of the class in the order in which classes were made.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How long flows of a class were held back by one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldFlows {
    /// The class.
    pub class: ClassId,
    /// The resource that froze their rates; `None` for the cap of the class.
    pub by: Option<ResourceId>,
    /// Sum over the flows, in nanoseconds, rounded down.
    pub nanos: u128,
}

/// Division of a resource among the flows that cross it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Together they get the capacity.
    Shared,
    /// Each may have the capacity; none is in another's way.
    FatPipe,
}

/// The end of a flow: it has moved all its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The flow.
    pub flow: FlowId,
    /// Its class.
    pub class: ClassId,
    /// When its last byte arrived; not after the moment of [`Network::advance`].
    pub at: Moment,
}

/// Counters of a network's work so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Times that rates were worked out again.
    pub solutions: u64,
    /// Routes looked at in all of them.
    pub routes: u64,
}

/// The resolution within which ends belong to one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Ends within one nanosecond, the unit of [`Timestamp`].
    Nanosecond,
    /// Ends that a clock of double precision could not tell apart: within 2⁻⁴⁸ of the time passed.
    Finest,
}

/// Flows over capacities: resources, classes across them, flows in the classes.
///
/// Moments never decrease from call to call. Identifiers are valid only for the network that returned them.
#[derive(Debug)]
pub struct Network {
    shares: Shares,
    filling: Filling,
    clocks: Clocks,
    flows: FlowTable,
    classes: Vec<Class>,
    /// The clock of each resource.
    resource_clocks: Vec<u32>,
    routes_by_path: BTreeMap<Vec<(u32, u32)>, u32>,
    classes_by_name: BTreeMap<(u32, Weight, u64, u32), u32>,
    held: HeldTimes,
    grain: Grain,
    quantum: Duration,
    now: Moment,
    /// When something changed that rates do not yet follow.
    changed_at: Option<Moment>,
    changed: Vec<u32>,
    waiting: Vec<FlowId>,
    solved_at: Moment,
    ended: Vec<Ended>,
    reached: Vec<u32>,
    work: Work,
}

impl Default for Network {
    fn default() -> Network {
        Network::new()
    }
}

impl Network {
    /// Makes a network without resources; its clock stands at zero.
    ///
    /// Ends within one nanosecond are one instant: the capacity that they free is given to others at the full
    /// nanosecond. Each still has its own moment in [`Ended`].
    pub fn new() -> Network {
        Network {
            shares: Shares::default(),
            filling: Filling::default(),
            clocks: Clocks::default(),
            flows: FlowTable::default(),
            classes: Vec::new(),
            resource_clocks: Vec::new(),
            routes_by_path: BTreeMap::new(),
            classes_by_name: BTreeMap::new(),
            held: HeldTimes::default(),
            grain: Grain::Nanosecond,
            quantum: Duration::ZERO,
            now: Moment::ZERO,
            changed_at: None,
            changed: Vec::new(),
            waiting: Vec::new(),
            solved_at: Moment::ZERO,
            ended: Vec::new(),
            reached: Vec::new(),
            work: Work::default(),
        }
    }

    /// Makes a network whose instants are as fine as double precision allows, for flows shorter than a nanosecond.
    ///
    /// To be driven by [`Network::next_moment`].
    pub fn with_finest_grain() -> Network {
        Network {
            grain: Grain::Finest,
            ..Network::new()
        }
    }

    /// Lets rates follow changes only once in every `quantum`; zero, the default, is exact.
    ///
    /// Within a quantum, a flow that starts takes the place of a flow of its class that has ended since the last
    /// solution, at once. Without such a place it waits for the next one. Bytes stay exact, and only a capacity that
    /// has just been reduced can be exceeded. A start is late by at most a quantum, and capacity freed by an end is
    /// idle for as long.
    pub fn set_quantum(&mut self, quantum: Duration) {
        self.quantum = quantum;
    }

    /// Adds a resource. A capacity of zero holds every flow that crosses it.
    pub fn add_resource(&mut self, capacity: Rate, sharing: Sharing) -> ResourceId {
        self.resource_clocks.push(self.clocks.add());
        let shared = sharing == Sharing::Shared;
        ResourceId(self.shares.add_resource(capacity.bytes_per_second(), shared))
    }

    /// Gives a resource another capacity from `now` on.
    pub fn set_capacity(&mut self, now: impl Into<Moment>, resource: ResourceId, capacity: Rate) {
        self.run_to(now.into());
        let recapped = self.shares.set_capacity(resource.0, capacity.bytes_per_second());
        for class in recapped {
            self.reclock(class);
        }
        self.changed_at.get_or_insert(self.now);
    }

    /// Gives the class of this path, weight and cap on the rate of each flow; the same three give the same class.
    ///
    /// The order of the path does not matter; a resource that is named twice is crossed twice. A class with neither
    /// resources nor cap moves any size at once.
    pub fn class(&mut self, path: &[ResourceId], weight: Weight, cap: Option<Rate>) -> ClassId {
        self.class_of(0, path, weight, cap)
    }

    /// The same for the flows of one owner, apart from those of others with the same path, weight and cap. They get the
    /// same rates, and [`Network::take_held`] tells them apart.
    pub fn class_of(&mut self, owner: u32, path: &[ResourceId], weight: Weight, cap: Option<Rate>) -> ClassId {
        let route = self.route(path);
        let cap = cap_inside(cap);
        let next = self.classes.len() as u32;
        let id = *self
            .classes_by_name
            .entry((route, weight, cap.to_bits(), owner))
            .or_insert(next);
        if id == next {
            let boundless = path.is_empty() && cap.is_infinite();
            self.shares.add_class(route, weight, cap);
            self.clocks.add_class();
            self.held.add_class();
            self.classes.push(Class::new(weight.as_f64(), boundless));
        }
        ClassId(id)
    }

    /// Starts a flow.
    pub fn start(&mut self, now: impl Into<Moment>, class: ClassId, bytes: Bytes) -> FlowId {
        self.run_to(now.into());
        let on = &mut self.classes[class.0 as usize];
        if bytes.0 == 0 || on.boundless {
            let flow = self.flows.number();
            let at = self.now;
            self.ended.push(Ended { flow, class, at });
            return flow;
        }
        let id = self.flows.insert(class.0, bytes.0);
        on.flows += 1;
        if on.flows <= on.solved {
            self.place(id);
        } else {
            self.waiting.push(id);
        }
        self.note(class.0);
        id
    }

    /// Stops a flow before its end, and returns the bytes that it has moved; `None` if it has ended or was stopped
    /// before.
    pub fn stop(&mut self, now: impl Into<Moment>, flow: FlowId) -> Option<Bytes> {
        let moved = self.moved(now, flow)?;
        let flow = self.flows.remove(flow)?;
        self.classes[flow.class as usize].flows -= 1;
        self.note(flow.class);
        self.remark(flow.class);
        Some(moved)
    }

    /// Returns the bytes that a flow has moved so far, rounded down; `None` if it has ended or was stopped.
    pub fn moved(&mut self, now: impl Into<Moment>, flow: FlowId) -> Option<Bytes> {
        self.run_to(now.into());
        let flow = self.flows.get(flow)?;
        let (class, bytes) = (flow.class, flow.bytes);
        let Some(from) = flow.from else {
            return Some(Bytes::ZERO);
        };
        let way = self.shown(class) - from;
        Some(Bytes(self.classes[class as usize].bytes(way).min(bytes)))
    }

    /// Gives the nanosecond to which to [`advance`](Network::advance) next; `None` if no flow will end without changes.
    ///
    /// By then a flow has ended or, with a quantum, rates are due.
    pub fn next_end(&mut self) -> Option<Timestamp> {
        self.next_moment().map(Moment::timestamp)
    }

    /// The same, exactly.
    pub fn next_moment(&mut self) -> Option<Moment> {
        if let Some(ended) = self.ended.first() {
            return Some(ended.at);
        }
        let due = self.due();
        if due.is_some_and(|due| due <= self.now) {
            self.solve();
        }
        let due = self.due();
        self.clocks.earliest().into_iter().chain(due).min()
    }

    /// Moves time on to `now` and appends the flows that have ended since the last call, in the order of their ends.
    /// Flows that end at one moment come in the order of their starts.
    pub fn advance(&mut self, now: impl Into<Moment>, ended: &mut Vec<Ended>) {
        self.run_to(now.into());
        self.ended.sort_unstable_by_key(|ended| (ended.at, ended.flow));
        ended.append(&mut self.ended);
    }

    /// Gives the rate at which bytes cross a resource now.
    pub fn used(&mut self, resource: ResourceId) -> Rate {
        self.catch_up();
        Rate::of_bytes(self.shares.load(resource.0))
    }

    /// Gives the rate of each flow of a class now; zero if it has none.
    pub fn rate(&mut self, class: ClassId) -> Rate {
        self.catch_up();
        let on = &self.classes[class.0 as usize];
        if on.clock == NONE {
            return Rate::ZERO;
        }
        Rate::of_bytes(self.clocks.speed(on.clock) * on.weight)
    }

    /// Takes the time in which flows were held back since the last call, by class and limit. Every flow is held by exactly
    /// one limit at a time.
    pub fn take_held(&mut self, now: impl Into<Moment>) -> Vec<HeldFlows> {
        // Changes of this instant do not matter yet: to solve for them here would round rates otherwise than without a reader.
        self.run_to(now.into());
        let held = self.held.take(self.now);
        let of = |(class, by, nanos): (u32, Option<u32>, u128)| HeldFlows {
            class: ClassId(class),
            by: by.map(ResourceId),
            nanos,
        };
        held.map(of).collect()
    }

    /// Counters of the network's work so far.
    pub fn work(&self) -> Work {
        Work {
            routes: self.filling.work,
            ..self.work
        }
    }

    fn route(&mut self, path: &[ResourceId]) -> u32 {
        let mut crossings: BTreeMap<u32, u32> = BTreeMap::new();
        for resource in path {
            *crossings.entry(resource.0).or_default() += 1;
        }
        let path: Vec<(u32, u32)> = crossings.into_iter().collect();
        if let Some(route) = self.routes_by_path.get(&path) {
            return *route;
        }
        let route = self.shares.add_route(&path);
        self.routes_by_path.insert(path, route);
        route
    }

    /// When rates are due; `None` if nothing has changed.
    fn due(&self) -> Option<Moment> {
        let changed = self.changed_at?;
        Some(changed.max(self.solved_at.plus(self.quantum)))
    }

    fn catch_up(&mut self) {
        if self.due().is_some_and(|due| due <= self.now) {
            self.solve();
        }
    }

    /// Passes every instant before `to`, and the ends at `to`; changes made there may be followed by others.
    fn run_to(&mut self, to: Moment) {
        loop {
            let due = self.due().filter(|due| *due < to);
            let end = self.clocks.earliest().filter(|end| *end <= to);
            match (due, end) {
                (Some(due), end) if end.is_none_or(|end| due <= end) => {
                    self.now = self.now.max(due);
                    self.solve();
                }
                (_, Some(end)) => self.end_instant(self.instant_of(end).min(to)),
                _ => break,
            }
        }
        self.now = self.now.max(to);
    }

    /// The last moment of the instant that an end belongs to.
    fn instant_of(&self, end: Moment) -> Moment {
        match self.grain {
            Grain::Nanosecond => Moment(end.0.div_ceil(ATTOS_PER_NANO).saturating_mul(ATTOS_PER_NANO)),
            Grain::Finest => Moment(end.0.saturating_add(end.0 >> 48)),
        }
    }

    /// Ends all flows that end by `to`, the last moment of an instant, and moves time on.
    fn end_instant(&mut self, to: Moment) {
        if self.grain == Grain::Nanosecond {
            self.now = to;
        }
        let mut reached = std::mem::take(&mut self.reached);
        while self.clocks.earliest().is_some_and(|end| end <= to) {
            let Some(at) = self.clocks.reach(&mut reached) else {
                break;
            };
            self.now = self.now.max(at);
            for class in reached.drain(..) {
                self.end_flows(class, at);
            }
        }
        self.reached = reached;
    }

    /// Ends the flows of a class whose marks its clock has reached.
    fn end_flows(&mut self, class: u32, at: Moment) {
        let on = &mut self.classes[class as usize];
        let shown = self.clocks.base(on.clock) + on.offset;
        while let Some(&Reverse((mark, number, slot))) = on.marks.peek() {
            if mark > shown {
                break;
            }
            on.marks.pop();
            let flow = FlowId { number, slot };
            if self.flows.remove(flow).is_some() {
                on.flows -= 1;
                let class = ClassId(class);
                self.ended.push(Ended { flow, class, at });
            }
        }
        self.note(class);
        self.remark(class);
    }

    /// Notes that the population of a class may have changed.
    fn note(&mut self, class: u32) {
        let on = &mut self.classes[class as usize];
        if !on.changed {
            on.changed = true;
            self.changed.push(class);
        }
        self.changed_at.get_or_insert(self.now);
    }

    /// Works rates out again, if a population or a capacity has changed.
    fn solve(&mut self) {
        self.changed_at = None;
        self.solved_at = self.now;
        for class in &self.changed {
            let on = &mut self.classes[*class as usize];
            if on.flows != on.solved {
                on.solved = on.flows;
                self.shares.set_flows(*class, on.flows);
            }
        }
        if self.filling.solve(&mut self.shares) {
            self.work.solutions += 1;
        }
        for resource in &self.filling.paced {
            let level = self.shares.resources[*resource as usize].level;
            self.clocks
                .set_speed(self.resource_clocks[*resource as usize], self.now, level);
        }
        let mut classes = std::mem::take(&mut self.filling.moved);
        for class in classes.drain(..) {
            self.reclock(class);
        }
        self.filling.moved = classes;
        let mut classes = std::mem::take(&mut self.changed);
        for class in classes.drain(..) {
            self.classes[class as usize].changed = false;
            self.reclock(class);
        }
        self.changed = classes;
        let mut waiting = std::mem::take(&mut self.waiting);
        for flow in waiting.drain(..) {
            self.place(flow);
        }
        self.waiting = waiting;
    }

    /// Moves a class to the clock of its current bottleneck.
    fn reclock(&mut self, class: u32) {
        self.note_limit(class);
        let clock = self.clock_of(class);
        let shown = self.shown(class);
        let on = &mut self.classes[class as usize];
        if clock == on.clock {
            return;
        }
        if on.clock != NONE {
            self.clocks.take(on.clock, class);
        }
        on.clock = clock;
        on.offset = match clock {
            NONE if on.flows == 0 => 0,
            NONE => shown,
            clock => shown - self.clocks.show(clock, self.now),
        };
        self.remark(class);
    }

    /// Notes the limit that holds the flows of a class back now.
    fn note_limit(&mut self, class: u32) {
        let flows = self.classes[class as usize].solved;
        let limit = match flows {
            0 => Limit::Nothing,
            _ if self.shares.is_capped(class) => Limit::Cap,
            _ => match self.shares.bottleneck(class) {
                NONE => Limit::Nothing,
                resource => Limit::Resource(resource),
            },
        };
        self.held.change(class, self.now, flows, limit);
    }

    fn clock_of(&mut self, class: u32) -> u32 {
        if self.classes[class as usize].flows == 0 {
            return NONE;
        }
        if !self.shares.is_capped(class) {
            let bottleneck = self.shares.bottleneck(class);
            return self.resource_clocks.get(bottleneck as usize).copied().unwrap_or(NONE);
        }
        let on = &mut self.classes[class as usize];
        if on.own_clock == NONE {
            on.own_clock = self.clocks.add();
        }
        let (clock, speed) = (on.own_clock, self.shares.cap_level(class));
        if self.clocks.speed(clock).to_bits() != speed.to_bits() {
            self.clocks.set_speed(clock, self.now, speed);
        }
        clock
    }

    /// The current reading of a class: bytes per weight that each of its flows has got since some moment.
    fn shown(&self, class: u32) -> i128 {
        let on = &self.classes[class as usize];
        match on.clock {
            NONE => on.offset,
            clock => on.offset + self.clocks.show(clock, self.now),
        }
    }

    /// Lets a flow begin to move.
    fn place(&mut self, id: FlowId) {
        let Some(class) = self.flows.get(id).map(|flow| flow.class) else {
            return;
        };
        let shown = self.shown(class);
        let Some(flow) = self.flows.get(id) else { return };
        flow.from = Some(shown);
        let on = &mut self.classes[class as usize];
        let mark = shown.saturating_add(on.way(flow.bytes));
        let first = on.marks.peek().is_none_or(|Reverse((first, ..))| mark < *first);
        on.marks.push(Reverse((mark, id.number, id.slot)));
        if first {
            self.remark(class);
        }
    }

    /// Tells a class's clock the first mark of its flows.
    fn remark(&mut self, class: u32) {
        let on = &mut self.classes[class as usize];
        while let Some(&Reverse((_, number, slot))) = on.marks.peek() {
            if self.flows.get(FlowId { number, slot }).is_some() {
                break;
            }
            on.marks.pop();
        }
        if on.clock == NONE {
            return;
        }
        match on.marks.peek() {
            Some(Reverse((mark, ..))) => self.clocks.put(on.clock, class, mark - on.offset),
            None => self.clocks.take(on.clock, class),
        }
    }
}
