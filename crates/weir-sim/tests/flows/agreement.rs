//! The network against the reference, on files of many shapes drawn from seeds.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::{Value, json};
use weir_sim::flows::{Model, Scenario};

use super::reference::finishes;
use super::window;

/// Files of each shape.
const FILES: u64 = 600;

/// Rounding of the reference's clock.
const BLUR: f64 = 1e-13;

struct Draw(ChaCha8Rng);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())].clone()
    }

    /// Even between the two, or their logarithms.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        least * libm::pow(most / least, unit)
    }
}

/// The source of a shape's draws.
struct Shape {
    /// Links beside those of the pattern.
    links: usize,
    hops: usize,
    flows: usize,
    capacity: fn(&mut Draw) -> f64,
    latency: fn(&mut Draw) -> f64,
    start: fn(&mut Draw) -> f64,
    size: fn(&mut Draw) -> u64,
    limit: fn(&mut Draw) -> f64,
    streams: fn(&mut Draw) -> u64,
    /// One link in so many is a fat pipe; zero for none.
    fat_pipes: usize,
}

/// Few values, so that much is equal: shares that are exactly a cap, ends at one instant.
const TIES: Shape = Shape {
    links: 5,
    hops: 4,
    flows: 16,
    capacity: |draw| draw.one_of(&[1e9, 2e9, 3e9]),
    latency: |draw| draw.one_of(&[0.0, 0.5, 1.0]),
    start: |draw| draw.one_of(&[0.0, 0.0, 1.0, 2.0]),
    size: |draw| draw.one_of(&[0, 125_000_000, 250_000_000, 375_000_000]),
    limit: |draw| draw.one_of(&[0.0, 0.0, 5e8, 1e9, 1e9 / 3.0, 2.5e8]),
    streams: |draw| draw.one_of(&[1, 1, 2, 4]),
    fat_pipes: 5,
};

const ODD: Shape = Shape {
    links: 8,
    hops: 5,
    flows: 24,
    capacity: |draw| draw.between(1e8, 1e11),
    latency: |draw| draw.between(1e-4, 0.3),
    start: |draw| draw.between(1e-3, 20.0),
    size: |draw| draw.between(1.0, 1e10) as u64,
    limit: |draw| {
        if draw.below(2) == 0 {
            0.0
        } else {
            draw.between(1e7, 1e10)
        }
    },
    streams: |draw| draw.one_of(&[1, 2, 8, 64]),
    fat_pipes: 4,
};

/// Everything starts at once on few links.
const INSTANT: Shape = Shape {
    links: 3,
    hops: 3,
    flows: 30,
    latency: |_| 0.0,
    start: |_| 0.0,
    fat_pipes: 0,
    ..ODD
};

const FAT: Shape = Shape {
    fat_pipes: 2,
    hops: 6,
    ..ODD
};

/// Modems beside what nobody has yet, the next rack beside the far side of the sun.
const EXTREME: Shape = Shape {
    capacity: |draw| draw.one_of(&[1.0, 1e3, 1e18, 1e11, 7e17]),
    latency: |draw| draw.one_of(&[0.0, 0.0, 1e-9, 1e-3, 3600.0]),
    start: |draw| draw.one_of(&[0.0, 1e-9, 1e6]),
    size: |draw| draw.one_of(&[0, 1, 2, 1_000_000, 1 << 53, 1 << 63, u64::MAX]),
    limit: |draw| draw.one_of(&[0.0, 1.0, 1e18, 1e9]),
    streams: |draw| draw.one_of(&[1, 64, 1_000_000]),
    fat_pipes: 4,
    ..TIES
};

fn file(seed: u64, shape: &Shape) -> Value {
    let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
    let n_links = 1 + draw.below(shape.links);
    let names: Vec<String> = (0..n_links).map(|at| format!("l{at}")).collect();
    let link = |name: &String, draw: &mut Draw| {
        let fat = shape.fat_pipes > 0 && draw.below(shape.fat_pipes) == 0;
        let (bandwidth, latency) = ((shape.capacity)(draw), (shape.latency)(draw));
        let policy = if fat { "fatpipe" } else { "shared" };
        json!({"name": name, "bandwidth_bps": bandwidth, "latency_s": latency, "policy": policy})
    };
    let links: Vec<Value> = names.iter().map(|name| link(name, draw)).collect();
    // A link may be named twice, and a path may be empty.
    let path = |draw: &mut Draw| {
        let hops = draw.below(shape.hops + 1);
        (0..hops).map(|_| draw.one_of(&names)).collect::<Vec<String>>()
    };
    let nodes = ["A", "B"];
    let pairs = nodes.iter().flat_map(|src| nodes.iter().map(move |dst| (src, dst)));
    let routes: Vec<Value> = pairs
        .map(|(src, dst)| json!({"src": src, "dst": dst, "path": path(draw)}))
        .collect();
    let flow = |id: usize, draw: &mut Draw| {
        let mut flow = json!({"id": id, "start_s": (shape.start)(draw), "size_bytes": (shape.size)(draw)});
        let (src, dst) = (draw.one_of(&nodes), draw.one_of(&nodes));
        if draw.below(3) == 0 {
            (flow["src"], flow["dst"]) = (json!(src), json!(dst));
        } else {
            flow["path"] = json!(path(draw));
        }
        (flow["streams"], flow["rate_limit_bps"]) = (json!((shape.streams)(draw)), json!((shape.limit)(draw)));
        flow
    };
    let n_flows = 1 + draw.below(shape.flows);
    let flows: Vec<Value> = (0..n_flows).map(|id| flow(id, draw)).collect();
    json!({"nodes": nodes, "links": links, "routes": routes, "flows": flows})
}

/// True for what may be refused: ends after 10²⁰ s, sizes and latencies that have nothing to do with each other.
fn beyond(file: &Value, expected: &[f64]) -> bool {
    let flows = file["flows"].as_array().unwrap();
    let has = |of: &dyn Fn(&Value) -> bool| flows.iter().any(of);
    let (many, large) = (
        |flow: &Value| flow["streams"] == 1_000_000,
        |flow: &Value| flow["size_bytes"].as_f64() > Some(1e18),
    );
    expected.iter().any(|end| *end > 1e20)
        || (has(&many) && has(&large))
        || (has(&many) && file["links"].to_string().contains("3600"))
}

/// Each end is that of the reference, to `most` of the time from the flow's start in either model. What the reference cannot
/// tell does not count: `BLUR` of the time that has passed, and the unit of time for each of some ends.
fn agree(shape: &Shape, maxmin: f64, rtt: f64) {
    for seed in 0..FILES {
        let file = file(seed, shape);
        let text = serde_json::to_string(&file).unwrap();
        for (model, window, most) in [
            (Model::MaxMin, None, maxmin),
            (super::RTT, Some(4_194_304.0), rtt),
            (window(1000), Some(1000.0), rtt),
        ] {
            let expected = finishes(&file, window);
            let outcome = Scenario::parse(&text).unwrap().run(model);
            let Ok(outcome) = outcome else {
                assert!(beyond(&file, &expected), "seed {seed} {model:?} is refused: {text}");
                continue;
            };
            let outcome = serde_json::to_value(outcome).unwrap();
            for (at, expected) in expected.iter().enumerate() {
                let flow = &outcome["flows"][at];
                let (end, took) = (flow["finish_s"].as_f64().unwrap(), flow["duration_s"].as_f64().unwrap());
                let close = (end - expected).abs() <= most * took + BLUR * end + 2e-17;
                assert!(
                    close,
                    "seed {seed} {model:?}, flow {at}: {end} is not {expected}\n{text}"
                );
            }
        }
    }
}

/// If this fails, ends at one instant or shares that are exactly a cap come out wrong.
#[test]
fn files_with_many_equal_numbers_agree() {
    agree(&TIES, 1e-9, 1e-6);
}

/// If this fails, some flow has more or less than its share.
#[test]
fn files_with_odd_numbers_agree() {
    agree(&ODD, 1e-9, 1e-6);
}

/// If this fails, flows that start together do not share from the start.
#[test]
fn files_of_one_instant_agree() {
    agree(&INSTANT, 1e-9, 1e-6);
}

/// If this fails, a fat pipe is shared, or caps nothing.
#[test]
fn files_of_fat_pipes_agree() {
    agree(&FAT, 1e-9, 1e-6);
}

/// If this fails, a number that is allowed is too large or too small for the arithmetic. Weights have 32 bits after the
/// point, which at latencies of hours is 10⁻⁴.
#[test]
fn files_of_extremes_agree() {
    agree(&EXTREME, 1e-6, 1e-3);
}
