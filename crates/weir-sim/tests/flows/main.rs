//! Flows files: their meaning, refusals, and flows that try the precision of the clock.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests")]

mod agreement;
mod meaning;
mod precision;
mod reference;
mod refusals;

use weir_sim::flows::{Model, Scenario};
use weir_units::Bytes;

const RTT: Model = Model::Rtt { window: Model::WINDOW };

/// Runs a file, and gives each flow's duration in seconds.
fn durations(text: &str, model: Model) -> Vec<f64> {
    let outcome = Scenario::parse(text).unwrap().run(model).unwrap();
    let value = serde_json::to_value(&outcome).unwrap();
    let flows = value["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow["duration_s"].as_f64().unwrap()).collect()
}

#[track_caller]
fn check(text: &str, model: Model, expected: &[f64]) {
    let found = durations(text, model);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 1e-10 * expected,
            "{found} is not {expected}"
        );
    }
}

fn window(bytes: u64) -> Model {
    Model::Rtt { window: Bytes(bytes) }
}
