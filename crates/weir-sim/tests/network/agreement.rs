//! The network and the naive model agree on when each flow ends and on what it has moved.

use proptest::prelude::*;
use weir_sim::network::{FlowId, Moment, Network, Rate, ResourceId, Sharing, Weight};
use weir_units::Bytes;

use super::naive::{Change, Fate, Flow, Link, run};

/// Links, flows and changes of capacity; all times are whole microseconds.
#[derive(Debug, Clone)]
struct Scenario {
    links: Vec<Link>,
    flows: Vec<Flow>,
    changes: Vec<Change>,
}

/// Few distinct values make many ties, which is where solvers go wrong; odd ones make none.
fn capacity() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => prop::sample::select(vec![1e6, 2e6, 3e6, 1e7]),
        4 => 1e5..1e8_f64,
        1 => Just(1e3),
    ]
}

fn micros(max: u32) -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        (0..max).prop_map(|time| f64::from(time) * 1e-6),
        (0..max / 1_000_000).prop_map(f64::from)
    ]
}

fn link() -> impl Strategy<Value = Link> {
    let shared = prop_oneof![9 => Just(true), 1 => Just(false)];
    (capacity(), shared).prop_map(|(capacity, shared)| Link { capacity, shared })
}

fn flow(links: usize, weighted: bool) -> impl Strategy<Value = Flow> {
    let weight = if weighted {
        prop_oneof![prop::sample::select(vec![0.25, 1.0, 2.0, 20.0]), 0.01..1000.0_f64].boxed()
    } else {
        Just(1.0).boxed()
    };
    let cap = prop_oneof![
        2 => Just(f64::INFINITY),
        1 => prop::sample::select(vec![1e5, 3e5, 1e6]),
        1 => 1e4..1e7_f64,
        // So far above any capacity that their sum has no digit left for it.
        1 => 1e14..1e17_f64,
    ];
    let bytes = prop_oneof![3 => 1..100_000_000_u64, 1 => Just(1_000_000), 1 => 0..3_u64];
    let stop = prop_oneof![9 => Just(f64::INFINITY), 1 => micros(20_000_000)];
    let path = prop::collection::vec(0..links, 1..5);
    (path, weight, cap, micros(10_000_000), bytes, stop).prop_map(|(path, weight, cap, start, bytes, after)| Flow {
        path,
        // The unit of the network: a multiple of 2⁻³².
        weight: Weight::new(weight).unwrap().as_f64(),
        cap,
        start,
        bytes: bytes as f64,
        stop: if after.is_finite() {
            ((start + after) * 1e6).round() / 1e6
        } else {
            after
        },
    })
}

fn change(links: usize) -> impl Strategy<Value = Change> {
    let capacity = prop_oneof![5 => capacity(), 1 => Just(0.0)];
    // Off the grid of starts: where a capacity goes in the very moment of an end, both answers are right.
    (micros(20_000_000), 0..links, capacity).prop_map(|(at, link, capacity)| Change {
        at: at + 3.7e-7,
        link,
        capacity,
    })
}

fn scenario(weighted: bool) -> impl Strategy<Value = Scenario> {
    prop::collection::vec(link(), 1..9).prop_flat_map(move |links| {
        let flows = prop::collection::vec(flow(links.len(), weighted), 1..40);
        let changes = prop::collection::vec(change(links.len()), 0..4);
        (Just(links), flows, changes).prop_map(|(links, flows, mut changes)| {
            changes.sort_by(|a, b| a.at.total_cmp(&b.at));
            changes.dedup_by(|a, b| a.at == b.at && a.link == b.link);
            Scenario { links, flows, changes }
        })
    })
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Change(usize),
    Stop(usize),
    Start(usize),
}

fn moment(seconds: f64) -> Moment {
    Moment::from_seconds(seconds).unwrap()
}

fn rate(bytes_per_second: f64) -> Rate {
    Rate::bits_per_second(bytes_per_second * 8.0).unwrap()
}

/// Drives the network through a scenario, and holds after every instant that no capacity is exceeded.
fn drive(mut network: Network, scenario: &Scenario) -> Vec<Fate> {
    let resources: Vec<ResourceId> = scenario
        .links
        .iter()
        .map(|link| {
            let sharing = if link.shared { Sharing::Shared } else { Sharing::FatPipe };
            network.add_resource(rate(link.capacity), sharing)
        })
        .collect();
    let mut steps = Vec::new();
    steps.extend((0..scenario.changes.len()).map(|at| (moment(scenario.changes[at].at), Step::Change(at))));
    for (at, flow) in scenario.flows.iter().enumerate() {
        steps.push((moment(flow.start), Step::Start(at)));
        if flow.stop.is_finite() {
            steps.push((moment(flow.stop), Step::Stop(at)));
        }
    }
    steps.sort_by_key(|(at, step)| (*at, matches!(step, Step::Stop(_))));
    let mut ids: Vec<Option<FlowId>> = vec![None; scenario.flows.len()];
    let mut fates: Vec<Option<Fate>> = vec![None; scenario.flows.len()];
    let mut capacities: Vec<f64> = scenario.links.iter().map(|link| link.capacity).collect();
    let mut ended = Vec::new();
    let mut steps = steps.into_iter().peekable();
    loop {
        let next = network.next_moment();
        let step = steps.next_if(|(at, _)| next.is_none_or(|next| *at <= next));
        let Some(now) = step.map(|(at, _)| at).or(next) else {
            break;
        };
        network.advance(now, &mut ended);
        for end in ended.drain(..) {
            assert!(end.at <= now);
            let at = ids
                .iter()
                .position(|id| *id == Some(end.flow))
                .expect("ended once, after its start");
            ids[at] = None;
            fates[at] = Some(Fate::Ended(end.at.to_string().parse().unwrap()));
        }
        match step {
            None => {}
            Some((_, Step::Change(at))) => {
                let change = &scenario.changes[at];
                capacities[change.link] = change.capacity;
                network.set_capacity(now, resources[change.link], rate(change.capacity));
            }
            Some((_, Step::Start(at))) => {
                let flow = &scenario.flows[at];
                let path: Vec<ResourceId> = flow.path.iter().map(|link| resources[*link]).collect();
                let cap = flow.cap.is_finite().then(|| rate(flow.cap));
                let class = network.class(&path, Weight::new(flow.weight).unwrap(), cap);
                ids[at] = Some(network.start(now, class, Bytes(flow.bytes as u64)));
            }
            Some((_, Step::Stop(at))) => {
                if let Some(moved) = ids[at].and_then(|id| network.stop(now, id)) {
                    fates[at] = Some(Fate::Stopped(moved.as_f64()));
                    ids[at] = None;
                }
            }
        }
        for (link, resource) in resources
            .iter()
            .enumerate()
            .filter(|(link, _)| scenario.links[*link].shared)
        {
            let used = network.used(*resource).as_f64() / 8.0;
            assert!(
                used <= capacities[link] * (1.0 + 1e-9) + 1e-3,
                "{link}: {used} > {}",
                capacities[link]
            );
        }
    }
    let last = moment(1e9);
    let mut rest = |at: usize| {
        let moved = ids[at]
            .and_then(|id| network.moved(last, id))
            .expect("every flow has a fate");
        Fate::Stuck(moved.as_f64())
    };
    fates
        .into_iter()
        .enumerate()
        .map(|(at, fate)| fate.unwrap_or_else(|| rest(at)))
        .collect()
}

fn agree(scenario: &Scenario, network: Network, slack: f64) -> Result<(), TestCaseError> {
    let expected = run(scenario.links.clone(), &scenario.flows, &scenario.changes);
    let found = drive(network, scenario);
    for (at, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let flow = &scenario.flows[at];
        let close = match (expected, found) {
            (Fate::Ended(a), Fate::Ended(b)) => (a - b).abs() <= 1e-9 * a + slack,
            // The naive model keeps fractions of bytes, and one of 1e-9 of the size in rounding.
            (Fate::Stopped(a), Fate::Stopped(b)) | (Fate::Stuck(a), Fate::Stuck(b)) => {
                (a - b).abs() <= 1.0 + 1e-8 * flow.bytes
            }
            // At the very moment of its end a flow may be stopped or have ended.
            (Fate::Ended(end), Fate::Stopped(_)) | (Fate::Stopped(_), Fate::Ended(end)) => {
                (end - flow.stop).abs() <= 1e-9 * end + slack
            }
            _ => false,
        };
        prop_assert!(close, "flow {at}: expected {expected:?}, found {found:?}");
    }
    Ok(())
}

/// If this fails, a flow that comes to a path whose other flows have all ended gets what those had.
///
/// In one step the links' other flows end and a heavier one starts across both. It stands at the level of the first link
/// until then, and its rate there is 2,000 times the capacity of the second.
#[test]
fn a_heavier_flow_in_the_place_of_lighter_ones() {
    let mut network = Network::new();
    let wide = network.add_resource(rate(1e8), Sharing::Shared);
    let narrow = network.add_resource(rate(1e7), Sharing::Shared);
    let light = network.class(&[wide], Weight::new(4.0).unwrap(), None);
    let lighter = network.class(&[narrow], Weight::new(0.25).unwrap(), None);
    let heavy = network.class(&[narrow, wide], Weight::new(1000.0).unwrap(), None);
    let gone = [light, lighter].map(|class| network.start(Moment::ZERO, class, Bytes(1_000_000_000)));
    for flow in gone {
        network.stop(moment(1.0), flow).unwrap();
    }
    network.start(moment(1.0), heavy, Bytes(10_000_000));
    assert!(
        (network.rate(heavy).as_f64() - 8e7).abs() < 1.0,
        "{:?}",
        network.rate(heavy)
    );
    assert_eq!(network.next_moment(), Some(moment(2.0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// If this fails, some flow got more or less than its max-min fair share.
    #[test]
    fn equal_weights_agree(scenario in scenario(false)) {
        agree(&scenario, Network::with_finest_grain(), 0.0)?;
    }

    /// If this fails, some flow got more or less than its weighted max-min fair share.
    #[test]
    fn weights_agree(scenario in scenario(true)) {
        agree(&scenario, Network::with_finest_grain(), 0.0)?;
    }

    /// If this fails, a quantum lets flows have more than the links carry, or keeps some from ending.
    #[test]
    fn a_quantum_delays_and_never_exceeds(scenario in scenario(true), quantum in 1..2_000_000_u64) {
        let scenario = Scenario { changes: Vec::new(), ..scenario };
        let mut network = Network::new();
        network.set_quantum(std::time::Duration::from_micros(quantum));
        for (flow, fate) in scenario.flows.iter().zip(drive(network, &scenario)) {
            let link = |link: &usize| scenario.links[*link].capacity;
            let fastest = flow.path.iter().map(link).fold(flow.cap, f64::min);
            match fate {
                Fate::Ended(end) => {
                    let soonest = flow.start + flow.bytes / fastest;
                    prop_assert!(end >= soonest * (1.0 - 1e-9), "{end} before {soonest}: {}", soonest - end);
                }
                Fate::Stopped(moved) => prop_assert!(moved <= flow.bytes && flow.stop.is_finite()),
                Fate::Stuck(_) => prop_assert!(false, "flow from {} never ended", flow.start),
            }
        }
    }

    /// If this fails, whole nanoseconds shift ends by more than a nanosecond for each end before.
    #[test]
    fn nanoseconds_agree(scenario in scenario(true)) {
        agree(&scenario, Network::new(), 1e-7)?;
    }
}
