//! `weir incident …`: the library of incidents.

mod library;
mod list;
mod ran;
mod real;
mod run;
mod show;

use crate::cli::IncidentCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs the command.
pub(crate) fn run(command: IncidentCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        IncidentCommand::List => list::run(output),
        IncidentCommand::Show(arguments) => show::run(&arguments, output),
        IncidentCommand::Run(arguments) => run::run(&arguments, output),
    }
}
