//! Progressive filling as in the textbook, flow by flow, worked out from nothing at each event. Slow, and independent of
//! the crate under test: no classes, no clocks, no memory of an earlier solution.

/// A link in bytes per second.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) capacity: f64,
    pub(crate) shared: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) path: Vec<usize>,
    pub(crate) weight: f64,
    pub(crate) cap: f64,
    pub(crate) start: f64,
    pub(crate) bytes: f64,
    /// Stopped at this time, unless it has ended.
    pub(crate) stop: f64,
}

/// A capacity from some time on.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) at: f64,
    pub(crate) link: usize,
    pub(crate) capacity: f64,
}

/// The end of a flow, or what it had moved when it was stopped or when everything had come to rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    Ended(f64),
    Stopped(f64),
    Stuck(f64),
}

/// The rate of each of these flows: all rise together by weight, and stop at a full link or at their caps.
pub(crate) fn rates(links: &[Link], flows: &[&Flow]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut rising: Vec<usize> = (0..flows.len()).collect();
    let cap = |flow: &Flow| {
        let pipes = flow.path.iter().filter(|link| !links[**link].shared);
        pipes.map(|link| links[*link].capacity).fold(flow.cap, f64::min)
    };
    while !rising.is_empty() {
        let level_of = |link: usize| {
            let mut free = links[link].capacity;
            let mut weight = 0.0;
            for (index, flow) in flows.iter().enumerate() {
                let crossings = flow.path.iter().filter(|on| **on == link).count() as f64;
                if rising.contains(&index) {
                    weight += crossings * flow.weight;
                } else {
                    free -= crossings * rates[index];
                }
            }
            if weight > 0.0 {
                free.max(0.0) / weight
            } else {
                f64::INFINITY
            }
        };
        let limit = |index: &usize| {
            let flow = flows[*index];
            let shared = flow.path.iter().filter(|link| links[**link].shared);
            shared
                .map(|link| level_of(*link))
                .fold(cap(flow) / flow.weight, f64::min)
        };
        let limits: Vec<f64> = rising.iter().map(limit).collect();
        let lowest = limits.iter().copied().fold(f64::INFINITY, f64::min);
        let mut still = Vec::new();
        for (index, limit) in rising.iter().zip(&limits) {
            if *limit <= lowest * (1.0 + 1e-12) {
                rates[*index] = lowest * flows[*index].weight;
            } else {
                still.push(*index);
            }
        }
        rising = still;
    }
    rates
}

/// Runs the flows to their ends.
pub(crate) fn run(mut links: Vec<Link>, flows: &[Flow], changes: &[Change]) -> Vec<Fate> {
    let mut left: Vec<f64> = flows.iter().map(|flow| flow.bytes).collect();
    let mut fates: Vec<Option<Fate>> = vec![None; flows.len()];
    let mut now = 0.0;
    loop {
        for change in changes.iter().filter(|change| change.at == now) {
            links[change.link].capacity = change.capacity;
        }
        for (index, flow) in flows.iter().enumerate() {
            if fates[index].is_none() && flow.stop <= now {
                fates[index] = Some(Fate::Stopped(flow.bytes - left[index]));
            }
        }
        let live: Vec<usize> = (0..flows.len())
            .filter(|index| fates[*index].is_none() && flows[*index].start <= now)
            .collect();
        let refs: Vec<&Flow> = live.iter().map(|index| &flows[*index]).collect();
        let rates = rates(&links, &refs);
        let end = |place: usize| {
            let left = left[live[place]];
            if left == 0.0 || rates[place].is_infinite() {
                now
            } else {
                now + left / rates[place]
            }
        };
        let ends: Vec<f64> = (0..live.len()).map(end).collect();
        let starts = flows.iter().map(|flow| flow.start).filter(|at| *at > now);
        let stops = flows.iter().map(|flow| flow.stop).filter(|at| *at > now);
        let others = changes.iter().map(|change| change.at).filter(|at| *at > now);
        let other = starts.chain(stops).chain(others).fold(f64::INFINITY, f64::min);
        let next = ends.iter().copied().fold(other, f64::min);
        if next.is_infinite() {
            let stuck =
                |(index, fate): (usize, Option<Fate>)| fate.unwrap_or(Fate::Stuck(flows[index].bytes - left[index]));
            return fates.into_iter().enumerate().map(stuck).collect();
        }
        for (place, index) in live.iter().enumerate() {
            if ends[place] <= next * (1.0 + 1e-13) {
                fates[*index] = Some(Fate::Ended(ends[place]));
                left[*index] = 0.0;
            } else {
                left[*index] -= rates[place] * (next - now);
            }
        }
        now = next;
    }
}
