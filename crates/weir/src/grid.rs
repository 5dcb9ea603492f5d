//! `weir grid …`: a long-lived embedded grid, and the commands that look at it from outside.

mod common;

mod down;
mod env;
mod site;
mod status;
mod up;

use crate::cli::GridCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use common::{control_runtime, failure, load, process_line, running_grid};

/// Runs the command.
pub(crate) fn run(command: GridCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        GridCommand::Up(arguments) if arguments.detach => up::detached(&arguments, output),
        GridCommand::Up(arguments) => up::foreground(&arguments, output),
        GridCommand::Env(arguments) => env::run(&arguments, output),
        GridCommand::Status(arguments) => status::run(&arguments.dir, output),
        GridCommand::Down(arguments) => down::run(&arguments.dir, output),
        GridCommand::Site(arguments) => site::run(&arguments, output),
    }
}
