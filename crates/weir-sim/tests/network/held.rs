//! The account of what held flows back: whole, and by limits that are reached.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weir_sim::network::{ClassId, Moment, Network, Rate, ResourceId, Sharing, Weight};
use weir_units::{Bytes, Timestamp};

/// Path, cap in MB/s, start in ms, size in kB.
type Flow = (Vec<usize>, Option<u32>, u64, u64);

#[derive(Debug, Clone)]
struct Scenario {
    capacities: Vec<u32>,
    flows: Vec<Flow>,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    prop::collection::vec(1..50_u32, 1..6).prop_flat_map(|capacities| {
        let path = prop::collection::vec(0..capacities.len(), 1..4);
        let flow = (path, prop::option::of(1..40_u32), 0..3_000_u64, 1..50_000_u64);
        (Just(capacities), prop::collection::vec(flow, 1..30))
            .prop_map(|(capacities, flows)| Scenario { capacities, flows })
    })
}

fn megabytes(rate: u32) -> Rate {
    Rate::bits_per_second(f64::from(rate) * 8e6).unwrap()
}

/// The rate of each resource and of each class, and the flows in each class, in a stretch without change.
struct Stretch {
    used: Vec<f64>,
    rates: BTreeMap<ClassId, f64>,
}

fn look(network: &mut Network, resources: &[ResourceId], classes: &[ClassId]) -> Stretch {
    Stretch {
        used: resources
            .iter()
            .map(|resource| network.used(*resource).as_f64())
            .collect(),
        rates: classes
            .iter()
            .map(|class| (*class, network.rate(*class).as_f64()))
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In every stretch between two changes each flow is held by exactly one limit, for all of the stretch, and that
    /// limit is reached: the resource is full, or the flow is at its cap.
    #[test]
    fn every_flow_is_held_by_a_limit_that_is_reached(scenario in scenario()) {
        let mut network = Network::new();
        let capacity = |rate: &u32| network.add_resource(megabytes(*rate), Sharing::Shared);
        let resources: Vec<ResourceId> = scenario.capacities.iter().map(capacity).collect();
        let mut starts: Vec<&Flow> = scenario.flows.iter().collect();
        starts.sort_by_key(|flow| flow.2);
        let (mut starts, mut running) = (starts.into_iter().peekable(), BTreeMap::<ClassId, u64>::new());
        let (mut classes, mut ended) = (Vec::new(), Vec::new());
        let mut caps = BTreeMap::new();
        let (mut last, mut owner) = (Moment::ZERO, 0);
        loop {
            let start = starts.peek().map(|flow| Moment::from(Timestamp::from_millis(flow.2)));
            let Some(now) = network.next_moment().into_iter().chain(start).min() else { break };
            let before = look(&mut network, &resources, &classes);
            let mut expected = running.clone();
            network.advance(now, &mut ended);
            let passed = now.since(last) / 1_000_000_000;
            for held in network.take_held(now) {
                let flows = expected.remove(&held.class).unwrap_or_default();
                // Moments have attoseconds, and the sums are rounded.
                let exact = u128::from(flows) * passed;
                prop_assert!(held.nanos.abs_diff(exact) <= u128::from(flows) * 2 + 2, "{flows} × {passed}: {held:?}");
                match held.by {
                    Some(by) => {
                        let at = resources.iter().position(|resource| *resource == by).unwrap();
                        let full = f64::from(scenario.capacities[at]) * 8e6;
                        prop_assert!(before.used[at] >= full * (1.0 - 1e-6), "{} of {full}", before.used[at]);
                    }
                    None => prop_assert!(before.rates[&held.class] >= caps[&held.class] * (1.0 - 1e-6)),
                }
            }
            prop_assert!(expected.values().all(|flows| *flows == 0) || passed == 0, "nobody held {expected:?} for {passed} ns");
            last = now;
            for end in ended.drain(..) {
                *running.get_mut(&end.class).unwrap() -= 1;
            }
            if start == Some(now) && let Some((path, cap, _, kilobytes)) = starts.next() {
                let path: Vec<ResourceId> = path.iter().map(|at| resources[*at]).collect();
                // Half of the flows share a class with others of the same path and cap.
                owner += 1;
                let class = network.class_of(owner % 2 * owner, &path, Weight::ONE, cap.map(megabytes));
                caps.insert(class, cap.map_or(f64::INFINITY, |cap| f64::from(cap) * 8e6));
                network.start(now, class, Bytes(kilobytes * 1_000));
                *running.entry(class).or_default() += 1;
                if !classes.contains(&class) {
                    classes.push(class);
                }
            }
        }
    }
}
