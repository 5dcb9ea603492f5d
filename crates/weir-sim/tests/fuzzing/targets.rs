//! Properties of the simulator for any file. Shared by the fuzz targets and the corpus test.

use std::path::Path;
use std::time::Duration;

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::compare::compare;
use weir_sim::flows::{Model, Scenario};
use weir_sim::world::Probe;
use weir_units::Bytes;

/// A flows file: refused with reasons, or run to its end in both models.
pub(crate) fn flows(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let scenario = match Scenario::parse(text) {
        Ok(scenario) => scenario,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.remedy.is_empty()));
            return;
        }
    };
    for model in [
        Model::MaxMin,
        Model::Rtt { window: Model::WINDOW },
        Model::Rtt { window: Bytes(1) },
    ] {
        // Refused is what would take longer than time has numbers for.
        let Ok(outcome) = scenario.run(model) else { continue };
        for flow in &outcome.flows {
            assert!(flow.finish.0 >= flow.duration);
        }
        let written = serde_json::to_string(&outcome).expect("an outcome is JSON");
        assert!(!written.contains("inf") && !written.contains("NaN"));
    }
}

/// A challenge file: refused with reasons, or run under every policy without breaking a rule of the world.
pub(crate) fn worlds(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Files beside it are no part of the input.
    if text.contains('/') {
        return;
    }
    let Ok(challenge) = Challenge::parse(text, Path::new("fuzzed.toml")) else {
        return;
    };
    let Ok(plan) = challenge.resolve(&Overrides::default()) else {
        return;
    };
    let Ok(plan) = SimPlan::of(plan) else {
        return;
    };
    // A run waits until its store is thawed, and the imitation of FTS looks around every two seconds until then.
    let freezes = plan.sim.store.freezes.iter();
    let thawed = freezes.map(|freeze| freeze.at.saturating_add(freeze.length)).max();
    let ended = plan.phases.end() + plan.phases.drain;
    let long = ended.max(thawed.unwrap_or_default()) > Duration::from_secs(3_600);
    if long || plan.summary().transfers > 2_000 {
        return;
    }
    for policy in compare(&plan, |_| Probe::default()).policies {
        assert!(
            policy.violations.is_empty(),
            "{}: {:?}",
            policy.policy,
            policy.violations
        );
        assert!(policy.of_optimum.is_none_or(f64::is_finite));
    }
}
