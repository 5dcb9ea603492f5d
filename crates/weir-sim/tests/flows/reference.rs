//! Flows files run slowly, from what the two models mean: written apart from the crate, with none of its code.
//!
//! Rates are found by raising all that can rise, together and by weight, until something is full or at its cap. Time goes
//! from event to event; each flow's bytes are counted down.

use serde_json::Value;

/// A flow as the file has it, with what its model makes of it.
struct Flow {
    /// Index of a link, and how often the path crosses it.
    crossings: Vec<(usize, f64)>,
    weight: f64,
    /// Bits per second; infinite if nothing but links bounds it.
    cap: f64,
    /// When its first bit leaves.
    begin: f64,
    bits: f64,
}

struct Link {
    capacity: f64,
    shared: bool,
}

/// Gives when each flow of a file ends, in seconds; `window` in bytes for `rtt`, `None` for `maxmin`.
pub(crate) fn finishes(file: &Value, window: Option<f64>) -> Vec<f64> {
    let (links, flows) = read(file, window);
    let mut left: Vec<f64> = flows.iter().map(|flow| flow.bits).collect();
    let mut finish = vec![f64::NAN; flows.len()];
    let mut now = 0.0;
    loop {
        let waiting = |at: &usize| finish[*at].is_nan() && flows[*at].begin > now;
        let next_begin = (0..flows.len()).filter(waiting).map(|at| flows[at].begin);
        let next_begin = next_begin.fold(f64::INFINITY, f64::min);
        let is_live = |at: &usize| finish[*at].is_nan() && flows[*at].begin <= now;
        let live: Vec<usize> = (0..flows.len()).filter(is_live).collect();
        let rates = share(&links, &flows, &live);
        let takes = |(at, rate): (&usize, &f64)| if left[*at] == 0.0 { 0.0 } else { left[*at] / rate };
        let takes: Vec<f64> = live.iter().zip(&rates).map(takes).collect();
        let soonest = takes.iter().copied().fold(f64::INFINITY, f64::min);
        if live.is_empty() && next_begin.is_infinite() {
            return finish;
        }
        let step = soonest.min(next_begin - now);
        let until = if soonest <= next_begin - now {
            now + step
        } else {
            next_begin
        };
        for (place, at) in live.iter().enumerate() {
            if takes[place] <= step * (1.0 + 1e-13) {
                finish[*at] = until;
            } else {
                left[*at] = (left[*at] - rates[place] * step).max(0.0);
            }
        }
        now = until;
    }
}

fn read(file: &Value, window: Option<f64>) -> (Vec<Link>, Vec<Flow>) {
    let list = |key: &str| file[key].as_array().cloned().unwrap_or_default();
    let links = list("links");
    let position = |name: &Value| links.iter().position(|link| link["name"] == *name).unwrap();
    let of_route = |flow: &Value| {
        let fits = |route: &&Value| route["src"] == flow["src"] && route["dst"] == flow["dst"];
        list("routes").iter().find(fits).unwrap()["path"].clone()
    };
    let number = |entry: &Value, key: &str, default: f64| entry[key].as_f64().unwrap_or(default);
    let flow = |flow: &Value| {
        let path = if flow["path"].is_array() {
            flow["path"].clone()
        } else {
            of_route(flow)
        };
        let path: Vec<usize> = path.as_array().unwrap().iter().map(position).collect();
        // Not `sum`, which is -0 of nothing.
        let latency = path
            .iter()
            .fold(0.0, |all, link| all + number(&links[*link], "latency_s", 0.0));
        let mut crossings: Vec<(usize, f64)> = Vec::new();
        for link in path {
            match crossings.iter_mut().find(|(other, _)| *other == link) {
                Some((_, times)) => *times += 1.0,
                None => crossings.push((link, 1.0)),
            }
        }
        let limit = number(flow, "rate_limit_bps", 0.0);
        let mut cap = if limit == 0.0 { f64::INFINITY } else { limit };
        let streams = number(flow, "streams", 1.0);
        let mut weight = 1.0;
        if let Some(window) = window {
            cap = cap.min(streams * window * 8.0 / (2.0 * latency));
            weight = streams / latency.max(1e-7);
        }
        let begin = number(flow, "start_s", 0.0) + latency;
        let bits = 8.0 * flow["size_bytes"].as_f64().unwrap();
        Flow {
            crossings,
            weight,
            cap,
            begin,
            bits,
        }
    };
    let flows = list("flows").iter().map(flow).collect();
    let link = |link: &Value| Link {
        capacity: link["bandwidth_bps"].as_f64().unwrap(),
        shared: link["policy"] != "fatpipe",
    };
    (links.iter().map(link).collect(), flows)
}

/// Weighted max-min fair rates of the flows that are live.
fn share(links: &[Link], flows: &[Flow], live: &[usize]) -> Vec<f64> {
    let mut rates = vec![0.0; live.len()];
    let mut stopped = vec![false; live.len()];
    let cap = |flow: &Flow| {
        let pipes = flow.crossings.iter().filter(|(link, _)| !links[*link].shared);
        pipes.map(|(link, _)| links[*link].capacity).fold(flow.cap, f64::min)
    };
    while stopped.contains(&false) {
        // The level, in bits per second and weight, at which each shared link would be full.
        let mut full = vec![f64::INFINITY; links.len()];
        for (at, link) in links.iter().enumerate().filter(|(_, link)| link.shared) {
            let (mut free, mut weight) = (link.capacity, 0.0);
            for (place, index) in live.iter().enumerate() {
                let times = flows[*index].crossings.iter().find(|(other, _)| *other == at);
                let times = times.map_or(0.0, |(_, times)| *times);
                if stopped[place] {
                    free -= times * rates[place];
                } else {
                    weight += times * flows[*index].weight;
                }
            }
            if weight > 0.0 {
                full[at] = free.max(0.0) / weight;
            }
        }
        let stops = |place: usize| {
            let flow = &flows[live[place]];
            let shared = flow.crossings.iter().filter(|(link, _)| links[*link].shared);
            shared
                .map(|(link, _)| full[*link])
                .fold(cap(flow) / flow.weight, f64::min)
        };
        let rising: Vec<usize> = (0..live.len()).filter(|place| !stopped[*place]).collect();
        let stops: Vec<f64> = rising.iter().map(|place| stops(*place)).collect();
        let level = stops.iter().copied().fold(f64::INFINITY, f64::min);
        for (place, stop) in rising.into_iter().zip(stops) {
            if stop <= level * (1.0 + 1e-12) || level.is_infinite() {
                stopped[place] = true;
                rates[place] = stop * flows[live[place]].weight;
            }
        }
    }
    check(links, flows, live, &rates, &cap);
    rates
}

/// Holds the rates to the definition: each flow is at its cap, or on a full link on which none has more per weight.
fn check(links: &[Link], flows: &[Flow], live: &[usize], rates: &[f64], cap: &dyn Fn(&Flow) -> f64) {
    let on = |link: usize| {
        let times = move |flow: &Flow| {
            flow.crossings
                .iter()
                .find(|(other, _)| *other == link)
                .map(|(_, times)| *times)
        };
        let users = live.iter().zip(rates);
        users.filter_map(move |(at, rate)| Some((times(&flows[*at])?, flows[*at].weight, *rate)))
    };
    for (at, rate) in live.iter().zip(rates) {
        let flow = &flows[*at];
        let level = rate / flow.weight;
        let is_bottleneck = |link: usize| {
            let load: f64 = on(link).map(|(times, _, rate)| times * rate).sum();
            assert!(load <= links[link].capacity * (1.0 + 1e-9));
            load >= links[link].capacity * (1.0 - 1e-9)
                && on(link).all(|(_, weight, rate)| rate / weight <= level * (1.0 + 1e-9))
        };
        let mut shared = flow
            .crossings
            .iter()
            .map(|(link, _)| *link)
            .filter(|link| links[*link].shared);
        assert!(
            *rate >= cap(flow) * (1.0 - 1e-9) || shared.any(is_bottleneck),
            "the reference is not fair"
        );
    }
}
