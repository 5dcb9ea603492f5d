//! `weir sim run`: a challenge in virtual time.

use weir_challenge::{Rows, SimulationOptions, simulate};
use weir_sim::policies::Policy;

use crate::challenge::{exit, failure, print, ran};
use crate::cli::{SimPolicy, SimRows, SimRunArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;

/// Simulates the challenge of a file.
pub(super) fn run(arguments: &SimRunArguments, output: &Output) -> Result<Exit, Failure> {
    let plan = super::plan(&arguments.file, &arguments.overrides)?;
    let policy = policy(arguments.policy);
    let options = SimulationOptions {
        policy,
        out: arguments.out.clone(),
        rows: match arguments.rows {
            SimRows::All => Rows::All,
            SimRows::Sample => Rows::Sample,
            SimRows::None => Rows::None,
        },
        command: command(arguments, policy, plan.seed, plan.scale),
    };
    let outcome = simulate(&plan, &options).map_err(failure)?;
    print(&outcome, output);
    output.done(&ran(&outcome));
    Ok(exit(&outcome))
}

fn policy(policy: SimPolicy) -> Policy {
    match policy {
        SimPolicy::Weir => Policy::Weir,
        SimPolicy::WeirTargets => Policy::WeirTargets,
        SimPolicy::Fts => Policy::Fts,
        SimPolicy::Fixed => Policy::Fixed,
    }
}

/// Writes the command line that runs the same again, seed and scale spelled out.
fn command(arguments: &SimRunArguments, policy: Policy, seed: u64, scale: f64) -> String {
    let file = quoted(&arguments.file.display().to_string());
    let mut words = vec![format!("weir sim run {file} --policy {policy} --scale {scale}")];
    if let Some(duration) = arguments.overrides.duration {
        let duration = weir_units::duration::format(duration);
        words.push(format!("--duration {}", quoted(&duration)));
    }
    words.push(format!("--seed {seed}"));
    words.join(" ")
}
