//! `weir sim …`: flows.

mod flows;

use crate::cli::SimCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Does what the command asks.
pub(crate) fn run(command: SimCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        SimCommand::Flows(arguments) => flows::run(&arguments, output),
    }
}
