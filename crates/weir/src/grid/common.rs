//! Functions that several commands of a grid share.

use std::path::Path;

use anyhow::Context;
use weir_grid::{GridDescription, GridError, ProcessDescription};
use weir_model::Grid;

use crate::failure::Failure;

/// The description of the grid that runs on a directory.
pub(super) fn running_grid(dir: &Path) -> Result<GridDescription, Failure> {
    if weir_grid::GridProcess::find(dir).map_err(failure)?.is_none() {
        return Err(failure(GridError::NotRunning { dir: dir.to_owned() }));
    }
    GridDescription::read(dir).map_err(failure)
}

/// Describes the process of a site.
pub(super) fn process_line(process: &ProcessDescription) -> String {
    match process.pid {
        Some(pid) => format!("  site      {}  process {pid}", process.site),
        None => format!(
            "  site      {}  its process has ended: the grid starts another if it died, `weir grid site GRID {0} --dir DIR` does in any case",
            process.site
        ),
    }
}

/// Reads a grid file.
pub(super) fn load(file: &Path) -> Result<Grid, Failure> {
    Grid::load(file).map_err(|problems| Failure::problems(&format!("the grid file {}", file.display()), &problems))
}

/// The runtime of a long command; work of others runs on runtimes of its own.
pub(super) fn control_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("weir-control")
        .enable_all()
        .build();
    Ok(runtime.context("could not start the control runtime")?)
}

/// An error of the grid with its remedy.
pub(super) fn failure(error: GridError) -> Failure {
    let remedy = error.remedy();
    let failure = Failure::could_not_run(error);
    match remedy {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}
