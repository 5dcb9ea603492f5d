//! Runs the flows of a scenario through the network.

use weir_units::Bytes;

use super::file::Id;
use super::{Problem, Scenario, ScenarioFlow};
use crate::network::{ClassId, Moment, Network, Rate, ResourceId, Sharing, Weight};

/// How flows share a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// All alike, however long their paths and however many their streams.
    MaxMin,
    /// As TCP does: in proportion to streams ÷ latency, and each stream at most a window in a round trip.
    Rtt {
        /// Bytes under way of one stream.
        window: Bytes,
    },
}

impl Model {
    /// The window where none is given: 4 MiB, the largest that Linux gives a receiver by default, and SimGrid's.
    pub const WINDOW: Bytes = Bytes(4 << 20);
}

/// The shortest latency in seconds that counts as a weight in `rtt`: a path without latency would weigh infinitely.
///
/// 100 ns is 20 m of fibre. Such a flow takes nearly all bandwidth from a flow of 10 ms: it weighs 100,000 times as
/// much.
const LATENCY_MIN: f64 = 1e-7;

/// Weights of a file lie about one: the lightest not below this, where they do not differ too much...
const LIGHTEST: f64 = 1.0 / 4096.0;

/// ... the heaviest here where nothing else asks for more, so that a byte is many steps of its clock...
const HEAVY: f64 = 65_536.0;

/// ... and never beyond half of what a [`Weight`] holds.
const HEAVIEST: f64 = 2_147_483_648.0;

/// The least weight that is not rounded by more than 2.4·10⁻⁴.
const WEIGHT_LEAST: f64 = 1.0 / 2_097_152.0;

/// Largest sum over all flows of bytes ÷ weight: 2⁷⁷. In steps of a clock it is 2¹²⁵, so no sum of two exceeds 128
/// bits.
const ALL_MOVED: f64 = 151_115_727_451_828_646_838_272.0;

/// How a flow went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowOutcome {
    pub(super) id: Id,
    /// When its last byte arrived.
    pub finish: Moment,
    /// Attoseconds from its start to then, the latency of its path included.
    pub duration: u128,
    /// Its size.
    pub size: Bytes,
}

/// The costs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Flows that ended; all did.
    pub flows: usize,
    /// Links of the file.
    pub links: usize,
    /// Flows that have in common path, weight and cap count once.
    pub classes: usize,
    /// Most flows under way at once.
    pub live_max: usize,
    /// Times that rates were worked out again.
    pub solutions: u64,
    /// Bytes moved.
    pub bytes: u128,
}

/// How all went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioOutcome {
    /// In the order of the file.
    pub flows: Vec<FlowOutcome>,
    /// Of the whole run.
    pub stats: Stats,
}

impl Scenario {
    /// Runs all flows to their ends.
    ///
    /// A flow sends its first byte one latency of its path after its start; from then on it has a share of each link.
    ///
    /// # Errors
    /// A flow that would not end within 10²⁰ s, or more bytes for their weights than can be counted.
    pub fn run(&self, model: Model) -> Result<ScenarioOutcome, Problem> {
        let mut network = Network::with_finest_grain();
        let links: Vec<ResourceId> = self
            .links
            .iter()
            .map(|link| network.add_resource(link.bandwidth, link.sharing))
            .collect();
        let shared = self.shared_links();
        let unit = self.weight_unit(&shared);
        let begin = |(at, flow): (usize, &ScenarioFlow)| self.begin(at, flow, model, unit, &shared);
        let mut starts: Vec<Start> = self.flows.iter().enumerate().map(begin).collect();
        self.check_weights(&starts)?;
        self.classify(&mut starts, &links, &shared, &mut network);
        starts.sort_unstable_by_key(|start| (start.at, start.flow));
        let mut run = Run::new(network, self.flows.len());
        run.all(&starts, &self.flows);
        run.outcome(self, &starts)
    }

    /// Marks links that flows can share; any other link only caps the one flow on it, or each of them.
    fn shared_links(&self) -> Vec<bool> {
        let mut users: Vec<Option<usize>> = vec![None; self.links.len()];
        let mut shared = vec![false; self.links.len()];
        for (at, flow) in self.flows.iter().enumerate() {
            for link in flow.path.iter().map(|link| *link as usize) {
                let others = users[link].replace(at).is_some_and(|user| user != at);
                shared[link] |= others && self.links[link].sharing == Sharing::Shared;
            }
        }
        shared
    }

    /// The rate that unshared links allow a flow: a link crossed twice carries each byte twice, a fat pipe does not.
    fn cap_alone(&self, flow: &ScenarioFlow, shared: &[bool]) -> Option<Rate> {
        let mut path: Vec<u32> = flow
            .path
            .iter()
            .copied()
            .filter(|link| !shared[*link as usize])
            .collect();
        path.sort_unstable();
        let cap = |same: &[u32]| {
            let on = &self.links[same[0] as usize];
            let crossings = if on.sharing == Sharing::FatPipe { 1 } else { same.len() };
            Rate::bits_per_second(on.bandwidth.as_f64() / crossings as f64)
        };
        path.chunk_by(|one, other| one == other).filter_map(cap).reduce(lower)
    }

    /// The latency of a flow's path.
    fn latency(&self, flow: &ScenarioFlow) -> Moment {
        Moment(flow.path.iter().map(|link| self.links[*link as usize].latency.0).sum())
    }

    /// Streams ÷ seconds of a path's latency.
    fn pull(&self, flow: &ScenarioFlow) -> f64 {
        f64::from(flow.streams) / self.latency(flow).as_seconds().max(LATENCY_MIN)
    }

    /// The weight of a flow of one stream and one second of latency in `rtt`: only ratios count, so it keeps all in range.
    fn weight_unit(&self, shared: &[bool]) -> f64 {
        let shares = |flow: &&ScenarioFlow| flow.path.iter().any(|link| shared[*link as usize]);
        let pulls = || self.flows.iter().filter(shares).map(|flow| self.pull(flow));
        let (lightest, heaviest) = (
            pulls().fold(f64::MAX, f64::min),
            pulls().fold(f64::MIN_POSITIVE, f64::max),
        );
        (LIGHTEST / lightest).clamp(HEAVY / heaviest, HEAVIEST / heaviest)
    }

    /// Refuses weights that would not keep their ratio, and values that would not fit into the clocks.
    fn check_weights(&self, starts: &[Start]) -> Result<(), Problem> {
        let way = |start: &Start| self.flows[start.flow].size.as_f64() / start.weight.as_f64();
        let lightest = starts.iter().min_by_key(|start| start.weight);
        let lightest = lightest.filter(|start| start.weight.as_f64() < WEIGHT_LEAST);
        let longest = starts.iter().max_by(|one, other| way(one).total_cmp(&way(other)));
        let longest = longest.filter(|_| starts.iter().map(way).sum::<f64>() > ALL_MOVED);
        let refuse = |start: &Start, message: &str, remedy: &str| Problem {
            line: None,
            key: format!("flows[{}]", start.flow),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        };
        if let Some(start) = lightest {
            let message = "has too few streams for its latency to be weighed beside the others";
            let remedy = "leave it out, or those that have 10¹⁵ times as many streams for their latency";
            return Err(refuse(start, message, remedy));
        }
        if let Some(start) = longest {
            let message = "moves more than can be counted beside the others";
            let remedy = "give all together less to move, or latencies that are closer to each other";
            return Err(refuse(start, message, remedy));
        }
        Ok(())
    }

    /// When and how a flow begins to send.
    fn begin(&self, at: usize, flow: &ScenarioFlow, model: Model, unit: f64, shared: &[bool]) -> Start {
        let latency = self.latency(flow);
        let attos = latency.0;
        let (weight, window) = match model {
            Model::MaxMin => (1.0, None),
            Model::Rtt { window } => {
                let bits = f64::from(flow.streams) * window.as_f64() * 8.0;
                // Infinite, and so none, on a path without latency.
                let window = Rate::bits_per_second(bits / (2.0 * latency.as_seconds()));
                (self.pull(flow) * unit, window)
            }
        };
        let path = || flow.path.iter().filter(|link| shared[**link as usize]);
        // A cap that no link on the path could reach holds nothing back.
        let narrowest = path().map(|link| self.links[*link as usize].bandwidth).reduce(lower);
        let caps = self.cap_alone(flow, shared).into_iter().chain(flow.limit).chain(window);
        let cap = caps
            .reduce(lower)
            .filter(|cap| narrowest.is_none_or(|most| *cap < most));
        // A flow that shares no link needs no weight, and without one moves by whole bytes.
        let weight = if narrowest.is_some() { weight } else { 1.0 };
        Start {
            at: Moment(flow.start.0 + attos),
            flow: at,
            weight: Weight::new(weight).unwrap_or(Weight::ONE),
            cap,
            class: None,
        }
    }

    /// Finds each flow's class, in the order of caps: the network keeps them in that order.
    fn classify(&self, starts: &mut [Start], links: &[ResourceId], shared: &[bool], network: &mut Network) {
        let cap = |start: &Start| {
            start
                .cap
                .map_or(f64::INFINITY, |cap| cap.as_f64() / start.weight.as_f64())
        };
        starts.sort_unstable_by(|a, b| cap(a).total_cmp(&cap(b)).then(a.flow.cmp(&b.flow)));
        for start in starts {
            let path: Vec<ResourceId> = self.flows[start.flow]
                .path
                .iter()
                .filter(|link| shared[**link as usize])
                .map(|link| links[*link as usize])
                .collect();
            start.class = Some(network.class(&path, start.weight, start.cap));
        }
    }
}

fn lower(one: Rate, other: Rate) -> Rate {
    if other < one { other } else { one }
}

/// A flow about to send its first byte.
struct Start {
    at: Moment,
    flow: usize,
    weight: Weight,
    cap: Option<Rate>,
    class: Option<ClassId>,
}

/// A run under way.
struct Run {
    network: Network,
    /// The flow of each start of the network, which numbers them from zero.
    started: Vec<usize>,
    finish: Vec<Option<Moment>>,
    live: usize,
    live_max: usize,
}

impl Run {
    fn new(network: Network, flows: usize) -> Run {
        Run {
            network,
            started: Vec::with_capacity(flows),
            finish: vec![None; flows],
            live: 0,
            live_max: 0,
        }
    }

    /// Runs all starts and ends, in the order of time.
    fn all(&mut self, starts: &[Start], flows: &[ScenarioFlow]) {
        let mut starts = starts.iter().peekable();
        let mut ended = Vec::new();
        loop {
            let next = self.network.next_moment();
            let start = starts.peek().map(|start| start.at);
            let start = start.filter(|start| next.is_none_or(|next| *start <= next));
            // Ends that double precision could not tell from this one are ends of the same instant.
            let blur = |now: Moment| Moment(now.0.saturating_add(now.0 >> 48));
            let Some(to) = start.or_else(|| next.map(blur)) else {
                break;
            };
            let to = starts.peek().map_or(to, |start| to.min(start.at));
            self.network.advance(to, &mut ended);
            for end in ended.drain(..) {
                self.finish[self.started[end.flow.number() as usize]] = Some(end.at);
                self.live -= 1;
            }
            // All of one instant before rates are asked for again: they are worked out once.
            while let Some(start) = starts.next_if(|next| start == Some(next.at)) {
                let Some(class) = start.class else { continue };
                self.network.start(to, class, flows[start.flow].size);
                self.started.push(start.flow);
                self.live += 1;
            }
            self.live_max = self.live_max.max(self.live);
        }
    }

    fn outcome(self, scenario: &Scenario, starts: &[Start]) -> Result<ScenarioOutcome, Problem> {
        let mut flows = Vec::with_capacity(self.finish.len());
        for (at, (finish, flow)) in self.finish.iter().zip(&scenario.flows).enumerate() {
            let finish = finish.ok_or_else(|| Problem {
                line: None,
                key: format!("flows[{at}]"),
                message: "would not end within 1e20 s".to_owned(),
                remedy: "give it less to move, or links with more bandwidth".to_owned(),
            })?;
            flows.push(FlowOutcome {
                id: flow.id.clone(),
                finish,
                duration: finish.since(flow.start),
                size: flow.size,
            });
        }
        let mut classes: Vec<ClassId> = starts.iter().filter_map(|start| start.class).collect();
        classes.sort_unstable();
        classes.dedup();
        let stats = Stats {
            flows: flows.len(),
            links: scenario.links.len(),
            classes: classes.len(),
            live_max: self.live_max,
            solutions: self.network.work().solutions,
            bytes: flows.iter().map(|flow| u128::from(flow.size.0)).sum(),
        };
        Ok(ScenarioOutcome { flows, stats })
    }
}
