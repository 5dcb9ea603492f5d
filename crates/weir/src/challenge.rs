//! `weir challenge …`: run, new, check, plan and clean.

mod check;
mod clean;
mod lines;
mod new;
mod plan;
mod preflight;
mod resolve;
mod run;
mod screen;
mod sites;
mod summary;
mod watch;

pub(crate) use run::{exit, failure, ran};
pub(crate) use sites::finding;
pub(crate) use summary::print;

use crate::cli::ChallengeCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;
pub(crate) use resolve::{resolve, resolve_simulated};

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
