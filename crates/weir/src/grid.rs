//! `weir grid …`: a long-lived embedded grid, and the commands that look at it from outside.

mod down;
mod env;
mod status;
mod up;

use std::path::Path;

use weir_grid::{GridDescription, GridError};

use crate::cli::GridCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Does what the command asks.
pub(crate) fn run(command: GridCommand, output: &Output) -> Result<Exit, Failure> {
    match command {
        GridCommand::Up(arguments) if arguments.detach => up::detached(&arguments, output),
        GridCommand::Up(arguments) => up::foreground(&arguments, output),
        GridCommand::Env(arguments) => env::run(&arguments, output),
        GridCommand::Status(arguments) => status::run(&arguments.dir, output),
        GridCommand::Down(arguments) => down::run(&arguments.dir, output),
    }
}

/// The description of the grid that runs on a directory.
fn running_grid(dir: &Path) -> Result<GridDescription, Failure> {
    if weir_grid::GridProcess::find(dir).map_err(failure)?.is_none() {
        return Err(failure(GridError::NotRunning { dir: dir.to_owned() }));
    }
    GridDescription::read(dir).map_err(failure)
}

/// An error of the grid with its remedy.
fn failure(error: GridError) -> Failure {
    let remedy = error.remedy();
    let failure = Failure::could_not_run(error);
    match remedy {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}
