//! Flows that try the precision of the clock, and a loop that must always get on.

use std::fmt::Write as _;

use weir_sim::flows::{Model, Scenario};
use weir_sim::network::{Moment, Network, Rate, Sharing, Weight};
use weir_units::Bytes;

use super::{RTT, check, durations};

#[test]
fn a_byte_takes_less_than_a_nanosecond() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 1e11}],
                   "flows": [{"id": 1, "size_bytes": 1, "path": ["a"]}, {"id": 2, "size_bytes": 2, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[1.6e-10, 2.4e-10]);
}

#[test]
fn a_byte_takes_as_long_after_thirty_years() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 1e11}],
                   "flows": [{"id": 1, "start_s": 1e9, "size_bytes": 1, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[8e-11]);
}

#[test]
fn the_largest_file_on_the_slowest_link_ends() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 1}],
                   "flows": [{"id": 1, "size_bytes": 9223372036854775808, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[9_223_372_036_854_775_808.0 * 8.0]);
    let ten = format!(
        r#"{{"links": [{{"name": "a", "bandwidth_bps": 1}}], "flows": [{}]}}"#,
        (0..10)
            .map(|id| format!(r#"{{"id": {id}, "size_bytes": 18446744073709551615, "path": ["a"]}}"#))
            .collect::<Vec<_>>()
            .join(",")
    );
    let problem = Scenario::parse(&ten).unwrap().run(Model::MaxMin).unwrap_err();
    assert_eq!(problem.key, "flows[0]");
}

/// If this fails, a large allowance of a flow has washed out the digits of the capacity.
#[test]
fn a_limit_far_above_the_link_changes_nothing() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 1234.5}, {"name": "b", "bandwidth_bps": 54321.5}],
                   "flows": [{"id": 1, "size_bytes": 1000000, "path": ["a"], "rate_limit_bps": 1e18},
                             {"id": 2, "size_bytes": 1000000, "path": ["b", "a"], "rate_limit_bps": 3e17},
                             {"id": 3, "size_bytes": 1000000, "path": ["b"], "rate_limit_bps": 1e18}]}"#;
    let shared = 16e6 / 1234.5;
    check(text, Model::MaxMin, &[shared, shared, 8e6 / (54_321.5 - 1234.5 / 2.0)]);
    let close = r#"{"links": [{"name": "a", "bandwidth_bps": 1234.5, "latency_s": 1e-9}],
                    "flows": [{"id": 1, "size_bytes": 1000000, "path": ["a"], "streams": 64}]}"#;
    check(close, RTT, &[8e6 / 1234.5]);
}

#[test]
fn large_and_small_flows_stay_exact_beside_each_other() {
    let mut text = String::from(
        r#"{"links": [{"name": "a", "bandwidth_bps": 8e9}], "flows": [{"id": 0, "size_bytes": 9000000000000000000, "path": ["a"]}"#,
    );
    for id in 1..=1000 {
        let _ = write!(
            text,
            r#",{{"id": {id}, "start_s": {id}, "size_bytes": {id}, "path": ["a"]}}"#
        );
    }
    text.push_str("]}");
    let found = durations(&text, Model::MaxMin);
    for (id, found) in found.iter().enumerate().skip(1) {
        let expected = id as f64 * 2e-9;
        assert!((found - expected).abs() <= 1e-9 * expected, "flow {id}: {found}");
    }
    // All bytes at 1 GB/s, nothing lost and nothing idle.
    assert!((found[0] - 9_000_000_000.000_5).abs() < 1e-5, "{}", found[0]);
}

/// If this hangs, some rounding left a flow for ever short of its end.
#[test]
fn the_loop_gets_on_whatever_is_rounded() {
    let mut text = String::from(r#"{"links": ["#);
    for link in 0..30 {
        let comma = if link == 0 { "" } else { "," };
        let bandwidth = 1.0 + 1e18 / f64::from(3_u32.pow(link % 20)) / f64::from(link + 1);
        let latency = if link % 3 == 0 {
            0.0
        } else {
            1e-18 * f64::from(7_u32.pow(link % 11))
        };
        let _ = write!(
            text,
            r#"{comma}{{"name": "{link}", "bandwidth_bps": {bandwidth}, "latency_s": {latency}}}"#
        );
    }
    text.push_str(r#"], "flows": ["#);
    for flow in 0..2000_u64 {
        let comma = if flow == 0 { "" } else { "," };
        let size = match flow % 5 {
            0 => 1,
            1 => u64::MAX >> (flow % 60),
            2 => 3_u64.pow((flow % 40) as u32),
            3 => 0,
            _ => (1 << 53) + flow,
        };
        let start = (flow % 17) as f64 * 1e-18 + (flow % 13) as f64 * 1e9;
        let (a, b, c) = (flow % 30, flow * 7 % 30, flow * 11 % 30);
        let limit = if flow % 4 == 0 { 1e17 / (flow + 1) as f64 } else { 0.0 };
        let streams = 1 + flow % 1000;
        let _ = write!(
            text,
            r#"{comma}{{"id": {flow}, "start_s": {start}, "size_bytes": {size}, "path": ["{a}","{b}","{c}"], "streams": {streams}, "rate_limit_bps": {limit}}}"#
        );
    }
    text.push_str("]}");
    for model in [Model::MaxMin, RTT] {
        let scenario = Scenario::parse(&text).unwrap();
        let outcome = scenario.run(model).unwrap();
        assert_eq!(outcome.stats.flows, 2000);
        assert!(outcome.flows.iter().all(|flow| flow.finish >= Moment::ZERO));
        assert!(outcome.stats.solutions <= 8000, "{}", outcome.stats.solutions);
    }
}

/// If this fails, the bytes that flows report as moved are not those that they were given, or go back, or is more than the link carried.
#[test]
fn bytes_moved_are_whole_and_add_up() {
    let mut network = Network::new();
    let link = network.add_resource(Rate::bits_per_second(8e9 / 7.0).unwrap(), Sharing::Shared);
    let class = network.class(&[link], Weight::new(0.3).unwrap(), None);
    let sizes = [1_u64, 7, 1_000_003, 999_999_937, 12_345_678_901];
    let flows = sizes.map(|size| network.start(Moment::ZERO, class, Bytes(size)));
    let mut ended = Vec::new();
    let mut last = [0; 5];
    for step in 1..200_u64 {
        let now = weir_units::Timestamp(step * step * 2_500_000);
        network.advance(now, &mut ended);
        let mut sum = 0;
        for (at, flow) in flows.iter().enumerate() {
            let moved = network.moved(now, *flow).map_or(sizes[at], |bytes| bytes.0);
            assert!(moved >= last[at] && moved <= sizes[at]);
            last[at] = moved;
            sum += moved;
        }
        let carried = now.as_secs_f64() * 1e9 / 7.0;
        assert!(sum as f64 <= carried + 1.0, "{sum} > {carried}");
        let all: u64 = sizes.iter().sum();
        assert!(sum == all || sum as f64 >= carried - 6.0, "{sum} < {carried}");
    }
    assert_eq!(ended.len(), 5);
}

/// If this fails, weights far from one are cut off, or marks on a clock run over and the end is a wrong number.
#[test]
fn weights_far_apart_keep_their_ratio_or_are_refused() {
    // Bytes in the ratio of streams: all end together.
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e6}],
                   "flows": [{"id": 1, "size_bytes": 1000000, "streams": 1000000, "path": ["a"]},
                             {"id": 2, "size_bytes": 500000, "streams": 500000, "path": ["a"]},
                             {"id": 3, "size_bytes": 1, "streams": 1, "path": ["a"]}]}"#;
    let found = durations(text, RTT);
    assert!(found.iter().all(|took| (took - 1.500_001).abs() < 1e-5), "{found:?}");
    // The window of 4 MiB in two hours; the path of the first is no part of what is too far apart.
    let long = r#"{"links": [{"name": "a", "bandwidth_bps": 1e9, "latency_s": 3600}, {"name": "b", "bandwidth_bps": 1e9}],
                   "flows": [{"id": 1, "size_bytes": 18446744073709551615, "path": ["a"]}, {"id": 2, "size_bytes": 1, "path": ["b"]}]}"#;
    let rate = f64::from(4 << 20) / 7200.0;
    let found = durations(long, RTT);
    assert!(
        (found[0] / (3600.0 + 18_446_744_073_709_551_615.0 / rate) - 1.0).abs() < 1e-9,
        "{found:?}"
    );
    for (size, streams, expected) in [
        (
            1,
            1_000_000,
            "flows[0]: has too few streams for its latency to be weighed beside the others",
        ),
        (
            u64::MAX,
            1000,
            "flows[0]: moves more than can be counted beside the others",
        ),
    ] {
        let far = format!(
            r#"{{"links": [{{"name": "a", "bandwidth_bps": 1e9, "latency_s": 3600}}, {{"name": "b", "bandwidth_bps": 1e9}}],
                 "flows": [{{"id": 1, "size_bytes": {size}, "path": ["a", "b"]}},
                           {{"id": 2, "size_bytes": 1, "path": ["a", "a"]}},
                           {{"id": 3, "size_bytes": 1, "path": ["b"], "streams": {streams}}}]}}"#
        );
        let refused = Scenario::parse(&far).unwrap().run(RTT).map(|outcome| outcome.stats);
        let text = refused.unwrap_err().to_string().replace("flows[1]", "flows[0]");
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(durations(&far, Model::MaxMin).len(), 3);
    }
}

/// If this fails, a window that no link could fill overflows a sum.
#[test]
fn the_largest_window_in_the_shortest_round_trip_caps_nothing() {
    let flows: Vec<String> = (0..50)
        .map(|id| format!(r#"{{"id": {id}, "size_bytes": 1000000, "path": ["a"], "streams": 1000000}}"#))
        .collect();
    let text = format!(
        r#"{{"links": [{{"name": "a", "bandwidth_bps": 1e18, "latency_s": 1e-18}}], "flows": [{}]}}"#,
        flows.join(",")
    );
    let found = durations(&text, super::window(u64::MAX));
    assert!(
        found.iter().all(|took| (took / 4e-10 - 1.0).abs() < 1e-6),
        "{}",
        found[0]
    );
}

/// If this fails, each start of one instant costs a solution: a thousand flows with paths of their own take a million steps.
#[test]
fn starts_at_one_instant_are_worked_out_once() {
    let (mut links, mut flows) = (vec![r#"{"name": "all", "bandwidth_bps": 1e9}"#.to_owned()], Vec::new());
    for at in 0..1000 {
        links.push(format!(r#"{{"name": "{at}", "bandwidth_bps": {}}}"#, 1_000_000 + at));
        flows.push(format!(
            r#"{{"id": {at}, "size_bytes": 100000, "path": ["all", "{at}"]}}"#
        ));
    }
    let text = format!(r#"{{"links": [{}], "flows": [{}]}}"#, links.join(","), flows.join(","));
    let stats = Scenario::parse(&text).unwrap().run(Model::MaxMin).unwrap().stats;
    assert_eq!(stats.live_max, 1000);
    assert!(stats.solutions <= 1002, "{}", stats.solutions);
}
