//! `weir incident …`: the library of incidents.

mod library;
mod list;
mod parallel;
mod ran;
mod real;
mod run;
mod score;
mod show;
mod vary;

use crate::cli::IncidentCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: IncidentCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        IncidentCommand::List => list::run(output),
        IncidentCommand::Show(arguments) => show::run(&arguments, output),
        IncidentCommand::Run(arguments) => run::run(&arguments, output),
        IncidentCommand::Vary(arguments) => vary::run(&arguments, output),
        IncidentCommand::Score(arguments) => score::run(&arguments, output),
    }
}
