//! `weir grid down`: stops the process that runs a grid, and no other.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use weir_grid::{GridError, GridProcess};

use super::failure;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Longest wait for a grid to end: each door has its own grace of 10 s, one after the other.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(serde::Serialize)]
struct GridStopped {
    /// None if it had ended before, and only its sites were left.
    pid: Option<u32>,
    /// Sites whose process had outlived the grid's.
    sites: Vec<String>,
}

/// Asks the grid to stop and waits until it has.
pub(super) fn run(dir: &Path, output: &Output) -> Result<Exit, Failure> {
    let Some(process) = GridProcess::find(dir).map_err(failure)? else {
        return sites_alone(dir, output);
    };
    let pid = process.pid();
    if !process.stop(PATIENCE).map_err(failure)? {
        let error = anyhow!("the grid (process {pid}) did not stop within {} s", PATIENCE.as_secs());
        return Err(Failure::could_not_run(error).with_remedy(format!("look at its log; then `kill -9 {pid}`")));
    }
    output.line(format!(
        "stopped (process {pid}); keys and data stay in {}",
        dir.display()
    ));
    output.done(&GridStopped {
        pid: Some(pid),
        sites: weir_grid::stop_sites(dir).map_err(failure)?,
    });
    Ok(Exit::Done)
}

/// Stops the processes of sites whose grid was killed.
fn sites_alone(dir: &Path, output: &Output) -> Result<Exit, Failure> {
    let sites = weir_grid::stop_sites(dir).map_err(failure)?;
    if sites.is_empty() {
        return Err(failure(GridError::NotRunning { dir: dir.to_owned() }));
    }
    output.line(format!(
        "the grid's process had ended; stopped the processes that it had left: site {}",
        sites.join(", site ")
    ));
    output.done(&GridStopped { pid: None, sites });
    Ok(Exit::Done)
}
