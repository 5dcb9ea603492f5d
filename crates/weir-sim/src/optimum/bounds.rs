//! Bounds on a plan that hold for every scheduler: capacities, plateaus, slots, limits on bandwidth.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use super::wide::{Wide, mean_left};
use crate::scene::{LinkScene, Scene};
use crate::sim_plan::SimPlan;
use weir_units::{BitRate, Bytes};

/// Rates are reckoned in Gb/s, so that the solver sees numbers about one.
pub(super) const GIGA: f64 = 1e9;

/// Files of one size that are moved over one link.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizedFlow {
    /// Index of the link.
    pub(super) link: usize,
    /// The size of each file.
    pub(super) size: Bytes,
}

/// One bound: its name, the use of each flow, and the amount.
pub(super) struct Bound {
    pub(super) name: String,
    /// Index of the flow, and the amount of the bound that it uses for each Gb/s.
    pub(super) uses: Vec<(usize, f64)>,
    pub(super) most: f64,
    pub(super) kind: Kind,
}

/// The kind of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Gb/s that the world itself does not exceed.
    Capacity,
    /// Gb/s that policies are told to keep; not all can.
    Limit,
    /// Slots, of which a transfer takes one however much it moves.
    Slots,
}

/// The time for which a transfer holds a resource, beside that of its bytes.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// A slot of the scheduler's: from the start of the attempt to its end.
    Attempt,
    /// A connection: from its first byte to its end.
    Connection,
}

/// Throughput of one transfer of a flow while it holds the resource, in Gb/s.
pub(super) fn per_transfer(scene: &Scene, flow: &SizedFlow, held: Held) -> f64 {
    let (link, common) = (&scene.links[flow.link], &scene.common);
    let overhead = match held {
        Held::Attempt => common.startup + link.rtt * common.handshakes + common.finalization,
        Held::Connection => common.finalization,
    };
    let bits = flow.size.max(Bytes(1)).as_f64() * 8.0 / GIGA;
    let stream = link.stream.map_or(f64::INFINITY, |rate| rate.as_f64() / GIGA);
    bits / (overhead.as_secs_f64() + bits / stream).max(1e-9)
}

/// The bounds within a span of time.
pub(super) fn bounds(
    plan: &SimPlan,
    scene: &Scene,
    flows: &[SizedFlow],
    wide: &Wide,
    span: &Range<Duration>,
) -> Vec<Bound> {
    let mut bounds = Bounds {
        scene,
        flows,
        list: Vec::new(),
    };
    bounds.sites(wide, span);
    for (segment, number) in scene.segments.iter().zip(0..) {
        let uses = |link: &LinkScene| link.via.contains(&number);
        let kind = if number < plan.sim.segments.len() {
            "segment"
        } else {
            "group"
        };
        let most = mean_left(&wide.segments[number], span);
        bounds.rate(format!("{kind} {}", segment.name), Some(most), Kind::Capacity, &uses);
    }
    for (group, number) in scene.groups.iter().zip(0..) {
        let uses = |link: &LinkScene| link.groups.contains(&number);
        let name = format!("group {}: limit on bandwidth", group.name);
        bounds.rate(name, group.max_rate, Kind::Limit, &uses);
        if let Some(most) = group.max_active {
            bounds.slots(format!("group {}: slots", group.name), most, Held::Attempt, &uses);
        }
    }
    for number in 0..scene.storages.len() {
        bounds.storage(number);
    }
    bounds.links();
    bounds.list
}

struct Bounds<'s> {
    scene: &'s Scene,
    flows: &'s [SizedFlow],
    list: Vec<Bound>,
}

impl Bounds<'_> {
    /// The sites' wide-area links.
    fn sites(&mut self, wide: &Wide, span: &Range<Duration>) {
        let scene = self.scene;
        for (site, number) in scene.sites.iter().zip(0..) {
            let inward = |link: &LinkScene| scene.storages[link.destination].site == number && link.is_wide(scene);
            let outward = |link: &LinkScene| scene.storages[link.source].site == number && link.is_wide(scene);
            let name = &site.name;
            let [most_in, most_out] = [0, 1].map(|way: usize| {
                let left = wide.sites[number][way].as_ref();
                left.map(|left| mean_left(left, span))
            });
            let [into, out] = ["in", "out"].map(|way| format!("{name}: wide-area link {way}"));
            self.rate(into, most_in, Kind::Capacity, &inward);
            self.rate(out, most_out, Kind::Capacity, &outward);
        }
    }

    fn storage(&mut self, number: usize) {
        let storage = &self.scene.storages[number];
        let (name, model) = (&storage.name, &storage.model);
        let reads = |link: &LinkScene| link.source == number;
        let writes = |link: &LinkScene| link.destination == number;
        let both = |link: &LinkScene| reads(link) || writes(link);
        let best = |most: Option<BitRate>, curve: Option<&Vec<crate::spec::CurvePoint>>| {
            let plateau = curve.into_iter().flatten().map(|point| point.rate).max();
            most.into_iter().chain(plateau).min()
        };
        let (read, write) = (
            best(model.read, model.read_curve.as_ref()),
            best(model.write, model.write_curve.as_ref()),
        );
        self.rate(format!("{name}: reading"), read, Kind::Capacity, &reads);
        self.rate(format!("{name}: writing"), write, Kind::Capacity, &writes);
        self.rate(format!("{name}: disk"), model.disk, Kind::Capacity, &both);
        let configured = format!("{name}: configured bandwidth");
        self.rate(configured, storage.bandwidth, Kind::Capacity, &both);
        let servers: BitRate = storage.servers.iter().map(|server| server.0).sum();
        let servers = Some(servers).filter(|_| !storage.servers.is_empty());
        self.rate(format!("{name}: servers"), servers, Kind::Capacity, &both);
        let limit = |way: &str| format!("{name}: limit on bandwidth {way}");
        self.rate(limit("in"), model.max_rate_in, Kind::Limit, &writes);
        self.rate(limit("out"), model.max_rate_out, Kind::Limit, &reads);
        let [inbound, outbound] = storage.max_active;
        self.slots(format!("{name}: slots in"), inbound, Held::Attempt, &writes);
        self.slots(format!("{name}: slots out"), outbound, Held::Attempt, &reads);
        if let Some(most) = model.write_connections {
            self.slots(format!("{name}: connections in"), most, Held::Connection, &writes);
        }
        if let Some(most) = model.read_connections {
            self.slots(format!("{name}: connections out"), most, Held::Connection, &reads);
        }
    }

    /// Adds the resources that belong to one link alone.
    fn links(&mut self) {
        let used: BTreeSet<usize> = self.flows.iter().map(|flow| flow.link).collect();
        for number in used {
            let link = &self.scene.links[number];
            let only = |other: &LinkScene| std::ptr::eq(other, link);
            self.rate(format!("link {}", link.link), link.capacity, Kind::Capacity, &only);
            let name = format!("{}: slots of the link", link.link);
            self.slots(name, link.max_active, Held::Attempt, &only);
        }
    }

    fn rate(&mut self, name: String, most: Option<BitRate>, kind: Kind, uses: &dyn Fn(&LinkScene) -> bool) {
        let Some(most) = most else { return };
        self.add(name, uses, &|_| 1.0, most.as_f64() / GIGA, kind);
    }

    fn slots(&mut self, name: String, most: u32, held: Held, uses: &dyn Fn(&LinkScene) -> bool) {
        let scene = self.scene;
        let slots_per_gigabit = |flow: &SizedFlow| 1.0 / per_transfer(scene, flow, held);
        self.add(name, uses, &slots_per_gigabit, f64::from(most), Kind::Slots);
    }

    fn add(
        &mut self,
        name: String,
        uses: &dyn Fn(&LinkScene) -> bool,
        by: &dyn Fn(&SizedFlow) -> f64,
        most: f64,
        kind: Kind,
    ) {
        let flows = self.flows.iter().enumerate();
        let users = flows.filter(|(_, flow)| uses(&self.scene.links[flow.link]));
        let uses: Vec<(usize, f64)> = users.map(|(at, flow)| (at, by(flow))).collect();
        if !uses.is_empty() {
            self.list.push(Bound { name, uses, most, kind });
        }
    }
}
