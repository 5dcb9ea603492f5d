//! Runs the flows of a scenario through the network.

use weir_units::Bytes;

use super::file::Id;
use super::{Flow, Problem, Scenario};
use crate::network::{ClassId, Moment, Network, Rate, ResourceId, Weight};

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

/// The shortest latency in seconds that makes a weight in `rtt`: that of a path without any would be infinite.
///
/// 100 ns is 20 m of fibre. Such a flow takes nearly all from one of 10 ms: it weighs 100,000 times as much.
const LATENCY_MIN: f64 = 1e-7;

/// The latency in seconds at which one stream has the weight one.
const LATENCY_UNIT: f64 = 0.1;

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

/// What it took.
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
pub struct Outcome {
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
    /// A flow that would not end within 10²⁰ s.
    pub fn run(&self, model: Model) -> Result<Outcome, Problem> {
        let mut network = Network::with_finest_grain();
        let links: Vec<ResourceId> = self
            .links
            .iter()
            .map(|link| network.add_resource(link.bandwidth, link.sharing))
            .collect();
        let mut starts: Vec<Start> = self
            .flows
            .iter()
            .enumerate()
            .map(|(at, flow)| self.begin(at, flow, model))
            .collect();
        self.classify(&mut starts, &links, &mut network);
        starts.sort_unstable_by_key(|start| (start.at, start.flow));
        let mut run = Run::new(network, self.flows.len());
        run.all(&starts, &self.flows);
        run.outcome(self, &starts)
    }

    /// When and how a flow begins to send.
    fn begin(&self, at: usize, flow: &Flow, model: Model) -> Start {
        let attos: u128 = flow.path.iter().map(|link| self.links[*link as usize].latency.0).sum();
        let latency = Moment(attos);
        let (weight, window) = match model {
            Model::MaxMin => (1.0, None),
            Model::Rtt { window } => {
                let (streams, latency) = (f64::from(flow.streams), latency.as_seconds());
                // Infinite, and so none, on a path without latency.
                let window = Rate::bits_per_second(streams * window.as_f64() * 8.0 / (2.0 * latency));
                (streams * LATENCY_UNIT / latency.max(LATENCY_MIN), window)
            }
        };
        let cap = match (flow.limit, window) {
            (Some(limit), Some(window)) => Some(if limit < window { limit } else { window }),
            (limit, window) => limit.or(window),
        };
        Start {
            at: Moment(flow.start.0 + attos),
            flow: at,
            weight: Weight::new(weight).unwrap_or(Weight::ONE),
            cap,
            class: None,
        }
    }

    /// Finds each flow's class, in the order of caps: the network keeps them in that order.
    fn classify(&self, starts: &mut [Start], links: &[ResourceId], network: &mut Network) {
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
                .map(|link| links[*link as usize])
                .collect();
            start.class = Some(network.class(&path, start.weight, start.cap));
        }
    }
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

    /// Starts and ends what starts and ends, in the order of time.
    fn all(&mut self, starts: &[Start], flows: &[Flow]) {
        let mut starts = starts.iter().peekable();
        let mut ended = Vec::new();
        loop {
            let next = self.network.next_moment();
            let start = starts.next_if(|start| next.is_none_or(|next| start.at <= next));
            let Some(now) = start.map(|start| start.at).or(next) else {
                break;
            };
            // Ends that double precision could not tell from this one are ends of the same instant.
            let to = if start.is_some() {
                now
            } else {
                Moment(now.0.saturating_add(now.0 >> 48))
            };
            let to = starts.peek().map_or(to, |start| to.min(start.at.max(now)));
            self.network.advance(to, &mut ended);
            for end in ended.drain(..) {
                self.finish[self.started[end.flow.number() as usize]] = Some(end.at);
                self.live -= 1;
            }
            if let Some((start, class)) = start.and_then(|start| Some((start, start.class?))) {
                self.network.start(now, class, flows[start.flow].size);
                self.started.push(start.flow);
                self.live += 1;
                self.live_max = self.live_max.max(self.live);
            }
        }
    }

    fn outcome(self, scenario: &Scenario, starts: &[Start]) -> Result<Outcome, Problem> {
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
        Ok(Outcome { flows, stats })
    }
}
