//! `weir challenge …`: run, new, check, plan and clean.

mod check;
mod clean;
mod lines;
mod new;
mod plan;
mod run;
mod screen;
mod sites;
mod summary;
mod watch;

use std::path::Path;

use weir_plan::{Challenge, Overrides, Plan};
use weir_sim::SimPlan;

pub(crate) use run::{exit, failure, ran};
pub(crate) use sites::finding;
pub(crate) use summary::print;

use crate::cli::{ChallengeCommand, OverrideArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: ChallengeCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        ChallengeCommand::Run(arguments) => run::run(&arguments, output),
        ChallengeCommand::New(arguments) => new::run(&arguments, output),
        ChallengeCommand::Check(arguments) => check::run(&arguments, output),
        ChallengeCommand::Plan(arguments) => plan::run(&arguments, output),
        ChallengeCommand::Clean(arguments) => clean::run(&arguments, output),
    }
}

/// Reads a challenge file and resolves it with the overrides of the command line.
pub(crate) fn resolve(file: &Path, overrides: &OverrideArguments) -> Result<Plan, Failure> {
    let overrides = Overrides {
        scale: overrides.scale,
        duration: overrides.duration,
        seed: overrides.seed,
    };
    let what = format!("the challenge {}", file.display());
    let challenge = Challenge::load(file).map_err(|problems| Failure::problems(&what, &problems))?;
    challenge
        .resolve(&overrides)
        .map_err(|problems| Failure::problems(&what, &problems))
}

/// The same with the simulated world, which a real run passes over.
pub(crate) fn resolve_simulated(file: &Path, overrides: &OverrideArguments) -> Result<SimPlan, Failure> {
    let plan = resolve(file, overrides)?;
    let what = format!("the challenge {}", file.display());
    SimPlan::of(plan).map_err(|problems| Failure::problems(&what, &problems))
}
