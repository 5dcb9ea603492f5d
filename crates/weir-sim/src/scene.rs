//! The scene: a plan and its simulated world, resolved into numbers.
//!
//! Names become indices, patterns become values, spreads become drawn factors. Storage elements have the number that the
//! cores know them by ([`weir_sched::SeId`]), links are those that the plan's workloads use.

use std::collections::BTreeMap;
use std::time::Duration;

use indexmap::IndexMap;
use rand_chacha::rand_core::RngCore;
use weir_model::{Grid, GridIssuer, Link, RseKind, TransferTokens};
use weir_plan::fault::{FaultKind, Service};
use weir_plan::{Inject, Workload, stream};
use weir_units::{BitRate, Bytes};
use weir_world::ErrorClass;

use crate::draw::unit;
use crate::faults::scene_fault::SceneFault;
use crate::faults::state::{LinkFaults, StorageFaults, lossy_rate};
use crate::sim_plan::SimPlan;
use crate::spec::{Common, Interval, LinkModel, RseModel, Segment, SiteModel, StoreModel, TokenModel};

/// Round-trip time of links that the file says nothing of.
const RTT: Duration = Duration::from_millis(20);
/// Default window of a TCP stream: the value to which DTNs are tuned.
const WINDOW: Bytes = Bytes(16 << 20);
/// Default time of a deletion, for a storage that is not slow; assumed, not published.
const DELETE_TIME: Duration = Duration::from_millis(100);

/// Tokens that live no longer are exchanged before use: the default of Weir's transfer service, and FTS3's.
const EXCHANGED_BELOW: Duration = Duration::from_secs(300);
/// Exchanges at one issuer at once, by default.
const EXCHANGES_AT_ONCE: u32 = 8;

/// A storage element.
#[derive(Debug, Clone)]
pub struct Storage {
    /// Name of the RSE.
    pub name: String,
    /// Index of its site.
    pub site: usize,
    /// Its model in the file, drawn factors applied.
    pub model: RseModel,
    /// The bandwidth that the grid file allows it, in both directions together.
    pub bandwidth: Option<BitRate>,
    /// Transfers into it and out of it that every policy allows at once: its own limit, else the grid's.
    pub max_active: [u32; 2],
    /// Its servers, one entry each: rate, and slots in each direction.
    pub servers: Vec<(BitRate, u32)>,
    /// Share of attempts that fail here, by class.
    pub failures: Vec<(ErrorClass, f64)>,
    /// Faults that are on here.
    pub broken: StorageFaults,
}

impl Storage {
    /// Time of one deletion while `writes` files are written.
    pub fn delete_time(&self, writes: u32) -> Duration {
        let base = self.model.delete_time.unwrap_or(DELETE_TIME) + self.broken.deletion;
        match self.model.delete_load {
            None => base,
            Some(load) => base + base.mul_f64(f64::from(writes) / f64::from(load)),
        }
    }
}

/// A site's connection.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Its model in the file, drawn factors applied.
    pub model: SiteModel,
}

/// A link.
#[derive(Debug, Clone)]
pub struct LinkScene {
    /// The two RSEs.
    pub link: Link,
    /// Index of the source.
    pub source: usize,
    /// Index of the destination.
    pub destination: usize,
    /// Its own capacity.
    pub capacity: Option<BitRate>,
    /// Its round-trip time.
    pub rtt: Duration,
    /// Indices of its segments, including those of its groups.
    pub via: Vec<usize>,
    /// Window of one TCP stream.
    pub window: Bytes,
    /// TCP streams of one transfer.
    pub streams: u32,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Largest rates of one transfer: on the path whatever the window, at the source, at the destination.
    pub stream_rates: [Option<BitRate>; 3],
    /// Exponent of the round trip in `weight`.
    pub rtt_exponent: f64,
    /// Largest rate of one transfer; `None` without bound.
    pub stream: Option<BitRate>,
    /// The party that sets that rate.
    pub stream_limit: StreamLimit,
    /// Weight of one transfer at a bottleneck.
    pub weight: f64,
    /// Share of attempts that fail here, by class.
    pub failures: Vec<(ErrorClass, f64)>,
    /// Share of attempts in which bytes stop moving.
    pub stalls: f64,
    /// Transfers over it that every policy allows at once: its own limit, else the grid's.
    pub max_active: u32,
    /// Indices of the groups that it passes, each once.
    pub groups: Vec<usize>,
    /// Faults that are on there.
    pub broken: LinkFaults,
}

/// The party that sets the largest rate of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamLimit {
    /// The path: its window and round trip, or a rate that the file gives.
    Path,
    /// The source.
    Source,
    /// The destination.
    Destination,
}

impl LinkScene {
    /// Computes the rate of one transfer and its weight from window, round trip, loss and the rates of the ends.
    pub(crate) fn set_stream(&mut self) {
        let [rate, source, destination] = self.stream_rates;
        let window = window_rate(self.window, self.rtt, self.streams);
        let lossy = lossy_rate(self.loss, self.rtt).map(|rate| BitRate(rate.0.saturating_mul(u64::from(self.streams))));
        let window = window.into_iter().chain(lossy).min();
        let caps = [window, rate, source, destination];
        self.stream = caps.into_iter().flatten().min();
        self.stream_limit = stream_limit(caps);
        self.weight = f64::from(self.streams) * weight(self.rtt, self.rtt_exponent);
    }

    /// Whether it leaves its site, so that it crosses sites' connections.
    pub fn is_wide(&self, scene: &Scene) -> bool {
        scene.storages[self.source].site != scene.storages[self.destination].site
    }
}

/// A resource that several storage elements share.
#[derive(Debug, Clone)]
pub struct GroupScene {
    /// Its name.
    pub name: String,
    /// For each storage element, whether its inward and its outward traffic pass the group.
    pub members: Vec<[bool; 2]>,
    /// Transfers through it that every policy allows at once.
    pub max_active: Option<u32>,
    /// Rate through it that every policy that can is told to keep.
    pub max_rate: Option<BitRate>,
    /// Index of the segment that carries it, if it has a capacity.
    pub segment: Option<usize>,
}

/// One link of one workload, with its asked rate.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Index of the workload in the plan.
    pub workload: usize,
    /// Index of the link.
    pub link: usize,
    /// The asked rate; zero for steps.
    pub rate: BitRate,
    /// Its mean over the hold of the whole run.
    pub mean_rate: BitRate,
    /// Whether a policy with targets is told of it.
    pub is_target: bool,
    /// Size of its files; zero where it varies.
    pub file_size: Bytes,
    /// When it is asked, from the start of the run.
    pub from: Duration,
    /// When the rate is full.
    pub full: Duration,
    /// Until when.
    pub until: Duration,
    /// How long a file that has come lives; `None` where the catalogue deletes it, or nobody does.
    pub lifetime: Option<Duration>,
}

/// Everything a world needs to know of a plan.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Sites, in the order of the grid.
    pub sites: Vec<Site>,
    /// Storage elements, in the order of the grid.
    pub storages: Vec<Storage>,
    /// Links, in the order of the plan.
    pub links: Vec<LinkScene>,
    /// Links of workloads, in the order of the plan.
    pub asks: Vec<Ask>,
    /// Segments: those of the file, then one for each group that has a capacity.
    pub segments: Vec<Segment>,
    /// Groups, in the order of the file.
    pub groups: Vec<GroupScene>,
    /// Properties of every transfer.
    pub common: Common,
    /// The store.
    pub store: StoreModel,
    /// The token service.
    pub tokens: Option<TokenModel>,
    /// Changes within this time are taken together.
    pub tick: Duration,
    /// The drawn values, for the report.
    pub drawn: BTreeMap<String, String>,
    /// The faults.
    pub faults: Vec<SceneFault>,
}

impl Scene {
    /// Times in which the transfer service does not answer: its store is frozen, or it is down.
    pub(crate) fn service_away(&self) -> Vec<Interval> {
        let outages = self
            .faults
            .iter()
            .filter(|on| on.is_at(FaultKind::Outage, Service::Transfer));
        let outages = outages.flat_map(SceneFault::intervals);
        self.store.freezes.iter().copied().chain(outages).collect()
    }

    /// The number of workloads.
    pub(crate) fn n_workloads(&self) -> usize {
        self.asks.iter().map(|ask| ask.workload + 1).max().unwrap_or(0)
    }

    /// Resolves the simulated world of a plan, without its faults.
    pub fn new(plan: &SimPlan) -> Scene {
        Builder {
            plan,
            drawn: BTreeMap::new(),
        }
        .build()
    }
}

struct Builder<'p> {
    plan: &'p SimPlan,
    drawn: BTreeMap<String, String>,
}

impl Builder<'_> {
    fn build(mut self) -> Scene {
        let (plan, spec) = (self.plan, &self.plan.sim);
        let sites: Vec<Site> = plan.grid.sites.iter().map(|site| self.site(&site.name)).collect();
        let storages: Vec<Storage> = plan.grid.rses.iter().map(|rse| self.storage(rse, &sites)).collect();
        let groups = groups(plan);
        let mut links: IndexMap<Link, LinkScene> = IndexMap::new();
        let mut asks = Vec::new();
        for (workload, index) in plan.workloads.iter().zip(0..) {
            for link in workload.links() {
                if !links.contains_key(link) {
                    let mut scene = self.link(link, &storages);
                    pass_groups(&mut scene, &groups);
                    links.insert(link.clone(), scene);
                }
            }
            asks.extend(asks_of(workload, index, &links, plan));
        }
        Scene {
            sites,
            storages,
            links: links.into_values().collect(),
            asks,
            segments: spec.all_segments().cloned().collect(),
            groups,
            common: spec.common.clone(),
            store: spec.store.clone(),
            tokens: spec.tokens.or_else(|| tokens_of(&plan.grid)),
            tick: spec.tick,
            drawn: self.drawn,
            faults: Vec::new(),
        }
    }

    /// Draws the factor of an owner: from 1 ÷ (1 + spread) to 1 + spread, its logarithm even about zero.
    fn factor(&mut self, owner: &str, spread: Option<f64>) -> f64 {
        let spread = spread.unwrap_or(0.0);
        if spread == 0.0 {
            return 1.0;
        }
        let drawn = unit(stream(self.plan.seed, &format!("spread {owner}")).next_u64());
        let factor = libm::exp(libm::log(1.0 + spread) * (2.0 * drawn - 1.0));
        self.drawn.insert(format!("sim.{owner}.factor"), format!("{factor:.4}"));
        factor
    }

    fn site(&mut self, name: &weir_model::SiteName) -> Site {
        let mut model = self.plan.sim.site(name);
        let factor = self.factor(&format!("site.{name}"), model.spread);
        for rate in [&mut model.inward, &mut model.outward] {
            scale(rate, factor);
        }
        Site {
            name: name.to_string(),
            model,
        }
    }

    fn storage(&mut self, rse: &weir_model::Rse, sites: &[Site]) -> Storage {
        let mut model = self.plan.sim.rse(&rse.name);
        let factor = self.factor(&format!("rse.{}", rse.name), model.spread);
        for rate in [
            &mut model.read,
            &mut model.write,
            &mut model.disk,
            &mut model.stream_rate,
        ] {
            scale(rate, factor);
        }
        for curve in [&mut model.read_curve, &mut model.write_curve].into_iter().flatten() {
            curve.iter_mut().for_each(|point| point.rate = point.rate.scale(factor));
        }
        let bandwidth = match rse.kind {
            RseKind::Embedded { bandwidth, .. } => bandwidth,
            RseKind::External { .. } => None,
        };
        let limits = &self.plan.grid.transfer;
        let kinds = model.servers.iter().flatten();
        let servers = kinds.flat_map(|kind| (0..kind.count).map(|_| (kind.rate.scale(factor), kind.slots)));
        Storage {
            name: rse.name.to_string(),
            site: sites
                .iter()
                .position(|site| site.name == rse.site.as_str())
                .unwrap_or(0),
            servers: servers.collect(),
            failures: classes(model.failures.as_ref()),
            max_active: [
                model.max_active_in.unwrap_or(limits.max_active_per_rse_in),
                model.max_active_out.unwrap_or(limits.max_active_per_rse_out),
            ],
            model,
            bandwidth,
            broken: StorageFaults::default(),
        }
    }

    fn link(&mut self, link: &Link, storages: &[Storage]) -> LinkScene {
        let mut model = self.plan.sim.link(link);
        let factor = self.factor(&format!("link.{link}"), model.spread);
        for rate in [&mut model.capacity, &mut model.stream_rate] {
            scale(rate, factor);
        }
        let rtt = model.rtt.unwrap_or(RTT).mul_f64(factor);
        let place = |name: &weir_model::RseName| {
            storages
                .iter()
                .position(|storage| storage.name == name.as_str())
                .expect("links of a plan lie between RSEs of its grid")
        };
        let (source, destination) = (place(&link.source), place(&link.destination));
        let own = [&storages[source], &storages[destination]].map(|end| end.model.stream_rate);
        let streams = model.streams.unwrap_or(1);
        let mut scene = LinkScene {
            link: link.clone(),
            source,
            destination,
            capacity: model.capacity,
            rtt,
            via: self.segments(&model),
            window: model.window.unwrap_or(WINDOW),
            streams,
            loss: 0.0,
            stream_rates: [model.stream_rate, own[0], own[1]],
            rtt_exponent: self.plan.sim.common.rtt_exponent,
            stream: None,
            stream_limit: StreamLimit::Path,
            weight: 1.0,
            failures: classes(model.failures.as_ref()),
            stalls: model.stalls.unwrap_or(0.0),
            max_active: model.max_active.unwrap_or(self.plan.grid.transfer.max_active_per_link),
            groups: Vec::new(),
            broken: LinkFaults::default(),
        };
        scene.set_stream();
        scene
    }

    fn segments(&self, model: &LinkModel) -> Vec<usize> {
        let index = |name: &String| self.plan.sim.segments.iter().position(|segment| segment.name == *name);
        model.via.iter().flatten().filter_map(index).collect()
    }
}

/// 1 ÷ RTT to the exponent, relative to 100 ms; a round trip counts as at least 0.1 ms.
fn weight(rtt: Duration, exponent: f64) -> f64 {
    libm::pow(rtt.as_secs_f64().max(1e-4) / 0.1, -exponent)
}

/// The token service that a grid file describes, where the tokens of each file live too short: the grid's transfer service exchanges
/// that of the destination. Those of the sources are of few files, and one exchange serves many attempts.
fn tokens_of(grid: &Grid) -> Option<TokenModel> {
    let GridIssuer::Embedded(own) = &grid.issuer else {
        return None;
    };
    let exchanges = grid.transfer_tokens == TransferTokens::PerFile && grid.transfer_service.is_none();
    if !exchanges || own.token_lifetime > EXCHANGED_BELOW || own.answer_delay.is_zero() {
        return None;
    }
    let each = own.answer_delay / EXCHANGES_AT_ONCE;
    Some(TokenModel {
        rate: 1.0 / each.as_secs_f64(),
        // Without a queue the model adds the time in which the service makes one.
        latency: own.answer_delay.saturating_sub(each),
        per_attempt: 1,
    })
}

/// The groups of a plan. The segments of those with a capacity follow the file's own.
fn groups(plan: &SimPlan) -> Vec<GroupScene> {
    let mut segments = plan.sim.segments.len()..;
    let group = |group: &crate::spec::Group| GroupScene {
        name: group.name.clone(),
        members: plan
            .grid
            .rses
            .iter()
            .map(|rse| group.directions.map(|passes| passes && group.has(&rse.name)))
            .collect(),
        max_active: group.max_active,
        max_rate: group.max_rate,
        segment: group.segment.as_ref().and_then(|_| segments.next()),
    };
    plan.sim.groups.iter().map(group).collect()
}

/// Leads a link through the groups that its ends are in.
fn pass_groups(link: &mut LinkScene, groups: &[GroupScene]) {
    let passes = |group: &GroupScene| group.members[link.destination][0] || group.members[link.source][1];
    let places = groups.iter().enumerate().filter(|(_, group)| passes(group));
    link.groups = places.map(|(at, _)| at).collect();
    link.via
        .extend(link.groups.iter().filter_map(|group| groups[*group].segment));
}

fn scale(rate: &mut Option<BitRate>, factor: f64) {
    *rate = rate.map(|rate| rate.scale(factor).max(BitRate(1)));
}

/// The party with the lowest of the rates that path (two), source and destination set; the path where they are equal.
fn stream_limit([window, rate, source, destination]: [Option<BitRate>; 4]) -> StreamLimit {
    let limits = [
        (window.into_iter().chain(rate).min(), StreamLimit::Path),
        (source, StreamLimit::Source),
        (destination, StreamLimit::Destination),
    ];
    let lowest = limits
        .into_iter()
        .filter_map(|(rate, limit)| Some((rate?, limit)))
        .min_by_key(|(rate, _)| *rate);
    lowest.map_or(StreamLimit::Path, |(_, limit)| limit)
}

/// Window ÷ RTT; without round trip there is no such bound.
fn window_rate(window: Bytes, rtt: Duration, streams: u32) -> Option<BitRate> {
    (!rtt.is_zero()).then(|| BitRate::of(window * u64::from(streams), rtt))
}

fn classes(shares: Option<&BTreeMap<String, f64>>) -> Vec<(ErrorClass, f64)> {
    let known = |(class, share): (&String, &f64)| Some((ErrorClass::parse(class)?, *share));
    let above_zero = |(_, share): &(ErrorClass, f64)| *share > 0.0;
    shares
        .into_iter()
        .flatten()
        .filter_map(known)
        .filter(above_zero)
        .collect()
}

fn asks_of(workload: &Workload, index: usize, links: &IndexMap<Link, LinkScene>, plan: &SimPlan) -> Vec<Ask> {
    let place = |link: &Link| links.get_index_of(link).expect("every link of a workload is known");
    match workload {
        Workload::Rates(rates) => {
            let told = plan
                .sim
                .targets
                .as_ref()
                .is_none_or(|targets| targets.contains(&rates.name));
            let (from, until) = (rates.start, rates.start + rates.phases.end());
            let full = rates.start + rates.phases.full();
            let ask = |rated: &weir_plan::RatedLink| Ask {
                workload: index,
                link: place(&rated.link),
                rate: rated.rate,
                mean_rate: rates.mean_rate(rated.rate, &plan.phases),
                is_target: told,
                file_size: rated.file_size,
                from,
                full,
                until,
                lifetime: (rates.inject == Inject::Transfers).then_some(rates.lifetime),
            };
            rates.links.iter().map(ask).collect()
        }
        Workload::Matrix(_) | Workload::Ramp(_) => {
            let ask = |link: &Link| Ask {
                workload: index,
                link: place(link),
                rate: BitRate::ZERO,
                mean_rate: BitRate::ZERO,
                is_target: false,
                file_size: Bytes::ZERO,
                from: plan.phases.ramp,
                full: plan.phases.ramp,
                until: plan.phases.end(),
                lifetime: None,
            };
            workload.links().into_iter().map(ask).collect()
        }
    }
}

/// The outages of a storage element, in the order of time.
pub(crate) fn outages(storage: &Storage) -> Vec<Interval> {
    let mut list: Vec<Interval> = storage.model.outages.iter().flatten().copied().collect();
    list.sort_by_key(|outage| outage.at);
    list
}
