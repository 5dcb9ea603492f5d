//! `weir sim …`: run, compare, flows.

mod compare;
mod flows;
mod run;

use std::path::Path;

use anyhow::anyhow;
use weir_plan::Plan;

use crate::challenge::resolve;
use crate::cli::{OverrideArguments, SimCommand};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Does what the command asks.
pub(crate) fn run(command: SimCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        SimCommand::Run(arguments) => run::run(&arguments, output),
        SimCommand::Compare(arguments) => compare::run(&arguments, output),
        SimCommand::Flows(arguments) => flows::run(&arguments, output),
    }
}

/// Reads a challenge that the simulated world can run: one that holds rates.
fn plan(file: &Path, overrides: &OverrideArguments) -> Result<Plan, Failure> {
    let plan = resolve(file, overrides)?;
    if plan.rates().next().is_some() {
        return Ok(plan);
    }
    let error = anyhow!("the challenge {} has no workload of kind \"rates\"", file.display());
    Err(Failure::bad_input(error).with_remedy("simulate one that has; run this one with weir challenge run"))
}
