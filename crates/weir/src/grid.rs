//! `weir grid …`: a long-lived embedded grid, and the commands that look at it from outside.

mod down;
mod env;
mod site;
mod status;
mod up;

use std::path::Path;

use anyhow::Context;
use weir_grid::{GridDescription, GridError, ProcessDescription};
use weir_model::Grid;

use crate::cli::GridCommand;
use crate::failure::{Exit, Failure};
use crate::output::Output;

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

/// The description of the grid that runs on a directory.
fn running_grid(dir: &Path) -> Result<GridDescription, Failure> {
    if weir_grid::GridProcess::find(dir).map_err(failure)?.is_none() {
        return Err(failure(GridError::NotRunning { dir: dir.to_owned() }));
    }
    GridDescription::read(dir).map_err(failure)
}

/// Describes the process of a site.
fn process_line(process: &ProcessDescription) -> String {
    match process.pid {
        Some(pid) => format!("  site      {}  process {pid}", process.site),
        None => format!(
            "  site      {}  its process has ended: `weir grid site GRID {0} --dir DIR` starts another",
            process.site
        ),
    }
}

/// Reads a grid file.
fn load(file: &Path) -> Result<Grid, Failure> {
    Grid::load(file).map_err(|problems| Failure::problems(&format!("the grid file {}", file.display()), &problems))
}

/// The runtime of a long command; work of others runs on runtimes of its own.
fn control_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("weir-control")
        .enable_all()
        .build();
    Ok(runtime.context("could not start the control runtime")?)
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
