//! Measures the network: `cargo run --release -p weir-sim --example network_cost`.
//!
//! Each row runs all flows of a load to their ends. *Sites* is the worst case: every flow crosses two doors that many others
//! want, so that each start and each end changes rates nearly everywhere. *Own classes* gives every flow a cap of its own.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an instrument prints"
)]

use weir_sim::network::{ClassId, Moment, Network, Rate, ResourceId, Sharing, Weight};
use weir_units::Bytes;

/// Seconds that this thread has been on a processor, which other programs on the machine do not lengthen much.
fn cpu() -> f64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: u64 = times
        .split(' ')
        .next()
        .and_then(|nanos| nanos.parse().ok())
        .unwrap_or(0);
    nanos as f64 / 1e9
}

/// A reproducible sequence of numbers (Knuth's MMIX constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn unit(&mut self) -> f64 {
        self.below(1 << 24) as f64 / f64::from(1 << 24)
    }
}

#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    flows: u64,
    sites: u64,
    /// Seconds in which the flows start.
    starts: f64,
    caps: bool,
    weights: bool,
    wan: bool,
}

fn rate(bits_per_second: f64) -> Rate {
    Rate::bits_per_second(bits_per_second).unwrap_or_default()
}

/// A flow to come.
struct Start {
    at: Moment,
    class: ClassId,
    path: Vec<usize>,
    bytes: Bytes,
}

/// Bits per second of each site's doors, out and in, and of ten WAN links.
fn capacities(load: &Load) -> Vec<f64> {
    let mut numbers = Numbers(2);
    let doors = (0..2 * load.sites).map(|_| 1e10 * (1.0 + 9.0 * numbers.unit()));
    doors.chain([4e11; 10]).collect()
}

/// Draws the flows, in the order of starts.
fn draw(load: &Load, network: &mut Network) -> Vec<Start> {
    let mut numbers = Numbers(1);
    let links: Vec<ResourceId> = capacities(load)
        .into_iter()
        .map(|capacity| network.add_resource(rate(capacity), Sharing::Shared))
        .collect();
    let mut flows: Vec<Start> = (0..load.flows)
        .map(|_| {
            let source = numbers.below(load.sites);
            let destination = (source + 1 + numbers.below(load.sites - 1)) % load.sites;
            let mut path = vec![source as usize, (load.sites + destination) as usize];
            if load.wan {
                path.push((2 * load.sites + (source * 7 + destination) % 10) as usize);
            }
            let weight = if load.weights {
                1.0 + 0.1 * (source * 50 + destination) as f64
            } else {
                1.0
            };
            let cap = load.caps.then(|| rate(5e7 + 1e9 * numbers.unit()));
            let crossed: Vec<ResourceId> = path.iter().map(|link| links[*link]).collect();
            let class = network.class(&crossed, Weight::new(weight).unwrap_or(Weight::ONE), cap);
            let at = Moment::from_seconds(load.starts * numbers.unit()).unwrap_or_default();
            let bytes = Bytes(1_000_000_000 + numbers.below(4_000_000_000));
            Start { at, class, path, bytes }
        })
        .collect();
    flows.sort_by_key(|start| start.at);
    flows
}

/// What a run took: seconds, most flows at once, solutions, routes looked at in each.
struct Took {
    time: f64,
    live: usize,
    solutions: u64,
    routes: f64,
}

fn run(load: &Load) -> Took {
    let mut network = Network::with_finest_grain();
    let flows = draw(load, &mut network);
    let begin = cpu();
    let (mut live, mut most) = (0_usize, 0);
    let mut ended = Vec::new();
    let mut starts = flows.iter().peekable();
    loop {
        let next = network.next_moment();
        let start = starts.next_if(|start| next.is_none_or(|next| start.at <= next));
        let Some(now) = start.map(|start| start.at).or(next) else {
            break;
        };
        network.advance(now, &mut ended);
        live -= ended.drain(..).count();
        if let Some(start) = start {
            network.start(now, start.class, start.bytes);
            live += 1;
            most = most.max(live);
        }
    }
    let work = network.work();
    Took {
        time: cpu() - begin,
        live: most,
        solutions: work.solutions,
        routes: work.routes as f64 / work.solutions as f64,
    }
}

/// The same without caps and weights by the textbook: at each event, all rates from nothing.
fn run_textbook(load: &Load) -> f64 {
    let flows = draw(load, &mut Network::new());
    let capacities = capacities(load);
    let begin = cpu();
    let mut live: Vec<(&Start, f64, f64)> = Vec::new();
    let (mut now, mut starts) = (0.0, flows.iter().peekable());
    while !live.is_empty() || starts.peek().is_some() {
        fill(&capacities, &mut live);
        let end = live
            .iter()
            .map(|(_, left, rate)| now + left / rate)
            .fold(f64::INFINITY, f64::min);
        let start = starts.next_if(|start| start.at.as_seconds() <= end);
        let next = start.map_or(end, |start| start.at.as_seconds());
        for (_, left, rate) in &mut live {
            *left -= *rate * (next - now);
        }
        live.retain(|(_, left, _)| *left > 1e-3);
        live.extend(start.map(|start| (start, start.bytes.as_f64() * 8.0, 0.0)));
        now = next;
    }
    cpu() - begin
}

/// Fills link after link, the scarcest first.
fn fill(capacities: &[f64], live: &mut [(&Start, f64, f64)]) {
    let (mut free, mut waiting) = (capacities.to_vec(), vec![0_u32; capacities.len()]);
    for (start, _, rate) in live.iter_mut() {
        *rate = f64::NAN;
        start.path.iter().for_each(|link| waiting[*link] += 1);
    }
    loop {
        let shares = (0..free.len())
            .filter(|link| waiting[*link] > 0)
            .map(|link| (free[link] / f64::from(waiting[link]), link));
        let Some((share, scarcest)) = shares.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return;
        };
        for (start, _, rate) in live
            .iter_mut()
            .filter(|(start, _, rate)| rate.is_nan() && start.path.contains(&scarcest))
        {
            *rate = share;
            for link in &start.path {
                free[*link] -= share;
                waiting[*link] -= 1;
            }
        }
    }
}

fn row(load: &Load) {
    let took = run(load);
    println!(
        "{:<36} {:>7} {:>6} {:>8.3} s {:>6.1} µs {:>7} {:>7.0}",
        load.name,
        load.flows,
        took.live,
        took.time,
        took.time / load.flows as f64 * 1e6,
        took.solutions,
        took.routes
    );
}

fn main() {
    println!("load                                   flows   live       time  per flow  solved  routes");
    let small = Load {
        name: "50 sites",
        flows: 10_000,
        sites: 50,
        starts: 100.0,
        caps: false,
        weights: false,
        wan: false,
    };
    let large = Load {
        flows: 100_000,
        starts: 830.0,
        ..small
    };
    let loads = if std::env::args().any(|argument| argument == "small") {
        vec![small]
    } else {
        vec![small, large]
    };
    for load in loads {
        row(&load);
        row(&Load {
            name: "50 sites, WAN",
            wan: true,
            ..load
        });
        row(&Load {
            name: "50 sites, WAN, weights",
            wan: true,
            weights: true,
            ..load
        });
        row(&Load {
            name: "50 sites, own classes",
            caps: true,
            starts: load.starts / 2.0,
            ..load
        });
        row(&Load {
            name: "50 sites, WAN, own classes, weights",
            wan: true,
            caps: true,
            weights: true,
            starts: load.starts / 2.0,
            ..load
        });
        row(&Load {
            name: "200 sites, WAN, own classes",
            sites: 200,
            wan: true,
            caps: true,
            ..load
        });
    }
    let (ours, textbook) = (run(&small).time, run_textbook(&small));
    println!(
        "10,000 flows on 50 sites: {ours:.3} s, by the textbook {textbook:.3} s, {:.0} times as long",
        textbook / ours
    );
}
