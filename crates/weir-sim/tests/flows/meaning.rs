//! Each key does what it says, in both models. The figures are worked out by hand.

use weir_sim::flows::{Model, Scenario};

use super::{RTT, check, window};

#[test]
fn latency_delays_the_first_byte_and_counts_in_the_duration() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e9, "latency_s": 0.25},
                             {"name": "b", "bandwidth_bps": 8e9, "latency_s": 0.5}],
                   "flows": [{"id": 1, "start_s": 3, "size_bytes": 1000000000, "path": ["a", "b"]},
                             {"id": 2, "start_s": 3, "size_bytes": 0, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[1.75, 0.25]);
}

#[test]
fn equal_flows_share_equally_and_the_rest_goes_to_who_can_use_it() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e9}, {"name": "b", "bandwidth_bps": 2e9}],
                   "flows": [{"id": 1, "size_bytes": 1750000000, "path": ["a"]},
                             {"id": 2, "size_bytes": 250000000, "path": ["a", "b"]}]}"#;
    // Flow 2 has 0.25 GB/s for 1 s, flow 1 0.75 GB/s and then 1 GB/s for the other 1 GB.
    check(text, Model::MaxMin, &[2.0, 1.0]);
}

#[test]
fn streams_and_round_trips_count_only_where_the_model_says_so() {
    let text = r#"{"links": [{"name": "wan", "bandwidth_bps": 8e6, "latency_s": 0}, {"name": "near", "bandwidth_bps": 1e12, "latency_s": 0.01},
                             {"name": "far", "bandwidth_bps": 1e12, "latency_s": 0.03}],
                   "flows": [{"id": 1, "size_bytes": 750000, "path": ["near", "wan"]},
                             {"id": 2, "size_bytes": 250000, "start_s": 0, "path": ["far", "wan"]},
                             {"id": 3, "size_bytes": 0, "path": []}]}"#;
    // The second begins 20 ms after the first, which has 730,000 B left; then they share 3 to 1 until the first ends, and
    // the second has the link alone.
    let first = 730_000.0 / 750_000.0;
    let second = first + (250_000.0 - first * 250_000.0) / 1e6;
    check(text, RTT, &[0.03 + first, 0.03 + second, 0.0]);
    let streams = r#"{"links": [{"name": "wan", "bandwidth_bps": 8e6, "latency_s": 0.5}],
                      "flows": [{"id": 1, "size_bytes": 750000, "streams": 3, "path": ["wan"]},
                                {"id": 2, "size_bytes": 250000, "path": ["wan"]}]}"#;
    check(streams, RTT, &[1.5, 1.5]);
    check(streams, Model::MaxMin, &[1.5, 1.0]);
}

#[test]
fn a_window_caps_each_stream_in_rtt_alone() {
    let text = r#"{"links": [{"name": "wan", "bandwidth_bps": 1e11, "latency_s": 0.1}],
                   "flows": [{"id": 1, "size_bytes": 200000000, "streams": 2, "path": ["wan"]}]}"#;
    // Two windows of 4,000,000 B in 0.2 s: 40 MB/s.
    check(text, window(4_000_000), &[5.1]);
    check(text, Model::MaxMin, &[0.1 + 0.2 / 12.5]);
}

#[test]
fn a_rate_limit_leaves_the_rest_to_others() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e9}],
                   "flows": [{"id": 1, "size_bytes": 1000000000, "rate_limit_bps": 2e9, "path": ["a"]},
                             {"id": 2, "size_bytes": 3000000000, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[4.0, 4.0]);
}

#[test]
fn a_fat_pipe_is_shared_by_nobody() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e9, "policy": "fatpipe"}],
                   "flows": [{"id": 1, "size_bytes": 1000000000, "path": ["a"]}, {"id": 2, "size_bytes": 2000000000, "path": ["a"]}]}"#;
    check(text, Model::MaxMin, &[1.0, 2.0]);
}

#[test]
fn a_link_named_twice_is_crossed_twice() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e9, "latency_s": 0.5}],
                   "flows": [{"id": 1, "size_bytes": 1000000000, "path": ["a", "a"]}]}"#;
    check(text, Model::MaxMin, &[3.0]);
}

#[test]
fn a_path_without_links_takes_no_time_but_for_a_limit() {
    let text = r#"{"flows": [{"id": 1, "size_bytes": 9223372036854775808, "path": []},
                             {"id": 2, "size_bytes": 1000, "rate_limit_bps": 8000, "path": []}]}"#;
    for model in [Model::MaxMin, RTT] {
        check(text, model, &[0.0, 1.0]);
    }
    let outcome = Scenario::parse(text).unwrap().run(Model::MaxMin).unwrap();
    let value = serde_json::to_value(&outcome).unwrap();
    assert!(value["flows"][0]["mean_bps"].is_null());
    assert_eq!(value["flows"][1]["mean_bps"], 8000.0);
}

#[test]
fn routes_serve_flows_without_a_path() {
    let text = r#"{"nodes": ["A", "B"], "links": [{"name": "ab", "bandwidth_bps": 8e9}, {"name": "slow", "bandwidth_bps": 8e8}],
                   "routes": [{"src": "A", "dst": "B", "path": ["ab"]}],
                   "flows": [{"id": "x", "size_bytes": 1e9, "src": "A", "dst": "B"},
                             {"id": "y", "start_s": 5, "size_bytes": 1e8, "src": "A", "dst": "B", "path": ["slow"]}]}"#;
    check(text, Model::MaxMin, &[1.0, 1.0]);
}

#[test]
fn without_any_latency_streams_alone_make_the_weight() {
    let text = r#"{"links": [{"name": "a", "bandwidth_bps": 8e6}],
                   "flows": [{"id": 1, "size_bytes": 750000, "streams": 3, "path": ["a"]}, {"id": 2, "size_bytes": 250000, "path": ["a"]}]}"#;
    check(text, RTT, &[1.0, 1.0]);
}

#[test]
fn ids_come_back_as_they_were() {
    let text = r#"{"flows": [{"id": "a/1", "size_bytes": 0, "path": []}, {"id": -7, "size_bytes": 0, "path": []}]}"#;
    let outcome = Scenario::parse(text).unwrap().run(Model::MaxMin).unwrap();
    let value = serde_json::to_value(&outcome).unwrap();
    assert_eq!(value["flows"][0]["id"], "a/1");
    assert_eq!(value["flows"][1]["id"], -7);
    assert_eq!(value["stats"]["flows"], 2);
}
