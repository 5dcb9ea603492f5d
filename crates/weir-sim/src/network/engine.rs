//! The event loop: starts, ends, and the rates between them.

use std::collections::{BTreeMap, BTreeSet};

use weir_units::{Bytes, Timestamp};

use super::quantities::{ATTOS_PER_SECOND, Moment, Rate, Weight};

/// A capacity that flows cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub(super) u32);

/// What flows have in common: path, weight and cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(super) u32);

/// A flow, numbered in the order of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(super) u64);

/// How the flows on a resource get along.
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
    /// Which flow.
    pub flow: FlowId,
    /// Its class.
    pub class: ClassId,
    /// When its last byte arrived; not after the moment of [`Network::advance`].
    pub at: Moment,
}

#[derive(Debug)]
struct Resource {
    capacity: f64,
    sharing: Sharing,
}

#[derive(Debug)]
struct Class {
    path: Vec<u32>,
    weight: f64,
    cap: f64,
    flows: BTreeSet<u64>,
    rate: f64,
}

#[derive(Debug)]
struct Flow {
    class: u32,
    bytes: u64,
    left: f64,
}

/// Flows over capacities.
#[derive(Debug, Default)]
pub struct Network {
    resources: Vec<Resource>,
    classes: Vec<Class>,
    names: BTreeMap<(Vec<u32>, Weight, u64), u32>,
    flows: BTreeMap<u64, Flow>,
    started: u64,
    now: Moment,
    stale: bool,
    ended: Vec<Ended>,
}

impl Network {
    /// Makes a network without resources; its clock stands at zero.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a resource. A capacity of zero holds every flow that crosses it.
    pub fn add_resource(&mut self, capacity: Rate, sharing: Sharing) -> ResourceId {
        let capacity = capacity.bytes_per_second();
        self.resources.push(Resource { capacity, sharing });
        ResourceId(self.resources.len() as u32 - 1)
    }

    /// Gives a resource another capacity from `now` on.
    pub fn set_capacity(&mut self, now: impl Into<Moment>, resource: ResourceId, capacity: Rate) {
        self.run_to(now.into());
        self.resources[resource.0 as usize].capacity = capacity.bytes_per_second();
        self.stale = true;
    }

    /// Gives the class of this path, weight and cap; the same three give the same class.
    ///
    /// A resource that is named twice is crossed twice. A class with neither resources nor cap moves any size at once.
    pub fn class(&mut self, path: &[ResourceId], weight: Weight, cap: Option<Rate>) -> ClassId {
        let path: Vec<u32> = path.iter().map(|resource| resource.0).collect();
        let cap = cap.map_or(f64::INFINITY, Rate::bytes_per_second);
        let next = self.classes.len() as u32;
        let id = *self.names.entry((path.clone(), weight, cap.to_bits())).or_insert(next);
        if id == next {
            self.classes.push(Class {
                path,
                weight: weight.as_f64(),
                cap,
                flows: BTreeSet::new(),
                rate: 0.0,
            });
        }
        ClassId(id)
    }

    /// Starts a flow.
    pub fn start(&mut self, now: impl Into<Moment>, class: ClassId, bytes: Bytes) -> FlowId {
        self.run_to(now.into());
        let id = self.started;
        self.started += 1;
        self.flows.insert(
            id,
            Flow {
                class: class.0,
                bytes: bytes.0,
                left: bytes.as_f64(),
            },
        );
        self.classes[class.0 as usize].flows.insert(id);
        self.stale = true;
        FlowId(id)
    }

    /// Stops a flow before its end, and gives what it has moved; `None` if it has ended or was stopped before.
    pub fn stop(&mut self, now: impl Into<Moment>, flow: FlowId) -> Option<Bytes> {
        let moved = self.moved(now, flow)?;
        let flow_class = self.flows.remove(&flow.0)?.class;
        self.classes[flow_class as usize].flows.remove(&flow.0);
        self.stale = true;
        Some(moved)
    }

    /// Gives what a flow has moved so far; `None` if it has ended or was stopped.
    pub fn moved(&mut self, now: impl Into<Moment>, flow: FlowId) -> Option<Bytes> {
        self.run_to(now.into());
        let flow = self.flows.get(&flow.0)?;
        Some(Bytes(flow.bytes.saturating_sub(flow.left.ceil() as u64)))
    }

    /// Gives the nanosecond by which the next flow will have ended; `None` if none will without further changes.
    pub fn next_end(&mut self) -> Option<Timestamp> {
        if let Some(ended) = self.ended.first() {
            return Some(ended.at.timestamp());
        }
        self.earliest().map(|(at, _)| at.timestamp())
    }

    /// Moves time on to `now` and appends the flows that have ended since the last call, in the order of their ends, those of one
    /// moment in the order of their starts.
    pub fn advance(&mut self, now: impl Into<Moment>, ended: &mut Vec<Ended>) {
        self.run_to(now.into());
        ended.append(&mut self.ended);
    }

    /// Gives the rate at which bytes cross a resource now.
    pub fn used(&mut self, resource: ResourceId) -> Rate {
        self.solve();
        let sum: f64 = self
            .classes
            .iter()
            .map(|class| class.rate * class.flows.len() as f64 * crossings(class, resource.0) as f64)
            .sum();
        Rate::bits_per_second(sum * 8.0).unwrap_or_default()
    }

    /// Gives the rate of each flow of a class now, were there one.
    pub fn rate(&mut self, class: ClassId) -> Rate {
        self.solve();
        Rate::bits_per_second(self.classes[class.0 as usize].rate * 8.0).unwrap_or_default()
    }

    fn earliest(&mut self) -> Option<(Moment, u64)> {
        self.solve();
        let (now, classes) = (self.now, &self.classes);
        let end = |(id, flow): (&u64, &Flow)| {
            let rate = classes[flow.class as usize].rate;
            let attos = if flow.left == 0.0 || rate.is_infinite() {
                0.0
            } else {
                (flow.left / rate * ATTOS_PER_SECOND as f64).ceil()
            };
            (attos < 1e38).then(|| (Moment(now.0 + attos as u128), *id))
        };
        self.flows.iter().filter_map(end).min()
    }

    fn run_to(&mut self, now: Moment) {
        while let Some((at, _)) = self.earliest().filter(|(at, _)| *at <= now) {
            self.pass(at);
        }
        self.pass(now);
    }

    fn pass(&mut self, to: Moment) {
        let seconds = to.since(self.now) as f64 / ATTOS_PER_SECOND as f64;
        let mut over = Vec::new();
        for (id, flow) in &mut self.flows {
            let rate = self.classes[flow.class as usize].rate;
            flow.left -= if rate.is_finite() { rate * seconds } else { flow.left };
            if flow.left <= flow.bytes as f64 * 1e-13 {
                over.push((*id, flow.class));
            }
        }
        self.now = self.now.max(to);
        for (id, class) in over {
            self.flows.remove(&id);
            self.classes[class as usize].flows.remove(&id);
            self.ended.push(Ended {
                flow: FlowId(id),
                class: ClassId(class),
                at: to,
            });
            self.stale = true;
        }
    }

    /// Progressive filling: all rates grow together, in the ratio of their weights, until a resource is full or a cap is reached.
    fn solve(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let mut left: Vec<f64> = self.resources.iter().map(|resource| resource.capacity).collect();
        let mut open: Vec<usize> = (0..self.classes.len()).collect();
        while !open.is_empty() {
            let mut weights = vec![0.0; left.len()];
            for &index in &open {
                let class = &self.classes[index];
                for &resource in &class.path {
                    weights[resource as usize] += class.weight * class.flows.len() as f64;
                }
            }
            let resources = &self.resources;
            let fair = |class: &Class| {
                let share = |resource: &u32| {
                    let at = *resource as usize;
                    match resources[at].sharing {
                        Sharing::FatPipe => resources[at].capacity / class.weight,
                        Sharing::Shared if weights[at] > 0.0 => left[at].max(0.0) / weights[at],
                        Sharing::Shared => f64::INFINITY,
                    }
                };
                class.path.iter().map(share).fold(class.cap / class.weight, f64::min)
            };
            let level = open
                .iter()
                .map(|&at| fair(&self.classes[at]))
                .fold(f64::INFINITY, f64::min);
            let (full, rest): (Vec<usize>, Vec<usize>) = open
                .into_iter()
                .partition(|&at| fair(&self.classes[at]) <= level * (1.0 + 1e-12));
            for at in full {
                let class = &mut self.classes[at];
                class.rate = level * class.weight;
                for &resource in &class.path {
                    if level.is_finite() {
                        left[resource as usize] -= class.rate * class.flows.len() as f64;
                    }
                }
            }
            open = rest;
        }
    }
}

fn crossings(class: &Class, resource: u32) -> usize {
    class.path.iter().filter(|on| **on == resource).count()
}
