//! `weir sim …`: run, compare, flows.

mod compare;
mod flows;
mod plan;
mod progress;
mod run;

use crate::cli::SimCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use plan::plan;

/// Runs the command.
pub(crate) fn run(command: SimCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        SimCommand::Run(arguments) => run::run(&arguments, output),
        SimCommand::Compare(arguments) => compare::run(&arguments, output),
        SimCommand::Flows(arguments) => flows::run(&arguments, output),
    }
}
