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

/// Draws the flows: start, class, size; in the order of starts.
fn draw(load: &Load, network: &mut Network) -> Vec<(Moment, ClassId, Bytes)> {
    let mut numbers = Numbers(1);
    let doors: Vec<ResourceId> = (0..2 * load.sites)
        .map(|_| network.add_resource(rate(1e10 * (1.0 + 9.0 * numbers.unit())), Sharing::Shared))
        .collect();
    let wan: Vec<ResourceId> = (0..10)
        .map(|_| network.add_resource(rate(4e11), Sharing::Shared))
        .collect();
    let mut flows: Vec<(Moment, ClassId, Bytes)> = (0..load.flows)
        .map(|_| {
            let source = numbers.below(load.sites);
            let destination = (source + 1 + numbers.below(load.sites - 1)) % load.sites;
            let mut path = vec![doors[source as usize], doors[(load.sites + destination) as usize]];
            if load.wan {
                path.push(wan[(source * 7 + destination) as usize % 10]);
            }
            let weight = if load.weights {
                1.0 + 0.1 * (source * 50 + destination) as f64
            } else {
                1.0
            };
            let cap = load.caps.then(|| rate(5e7 + 1e9 * numbers.unit()));
            let class = network.class(&path, Weight::new(weight).unwrap_or(Weight::ONE), cap);
            let start = Moment::from_seconds(load.starts * numbers.unit()).unwrap_or_default();
            (start, class, Bytes(1_000_000_000 + numbers.below(4_000_000_000)))
        })
        .collect();
    flows.sort_by_key(|(start, ..)| *start);
    flows
}

fn run(load: &Load) {
    let mut network = Network::with_finest_grain();
    let flows = draw(load, &mut network);
    let begin = cpu();
    let (mut live, mut most) = (0_usize, 0);
    let mut ended = Vec::new();
    let mut starts = flows.iter().peekable();
    loop {
        let next = network.next_moment();
        let start = starts.next_if(|(at, ..)| next.is_none_or(|next| *at <= next));
        let Some(now) = start.map(|(at, ..)| *at).or(next) else {
            break;
        };
        network.advance(now, &mut ended);
        live -= ended.drain(..).count();
        if let Some((_, class, bytes)) = start {
            network.start(now, *class, *bytes);
            live += 1;
            most = most.max(live);
        }
    }
    let time = cpu() - begin;
    let work = network.work();
    println!(
        "{:<34} {:>7} {most:>6} {time:>8.3} s {:>7.1} µs {:>8} {:>7.0}",
        load.name,
        load.flows,
        time / load.flows as f64 * 1e6,
        work.solutions,
        work.routes as f64 / work.solutions as f64
    );
}

fn main() {
    println!("load                                 flows   live       time  per flow   solved  routes");
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
        starts: 500.0,
        ..small
    };
    let loads = if std::env::args().any(|argument| argument == "small") {
        vec![small]
    } else {
        vec![small, large]
    };
    for load in loads {
        run(&load);
        run(&Load {
            name: "50 sites, WAN",
            wan: true,
            ..load
        });
        run(&Load {
            name: "50 sites, WAN, weights",
            wan: true,
            weights: true,
            ..load
        });
        run(&Load {
            name: "50 sites, own classes",
            caps: true,
            ..load
        });
        run(&Load {
            name: "50 sites, WAN, own classes, weights",
            wan: true,
            caps: true,
            weights: true,
            ..load
        });
        run(&Load {
            name: "200 sites, WAN, own classes",
            sites: 200,
            wan: true,
            caps: true,
            ..load
        });
    }
}
