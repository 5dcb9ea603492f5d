//! `weir grid status`: which doors of a grid answer.

use std::path::Path;

use anyhow::Context;
use weir_grid::{DoorStatus, GridDescription, ProcessDescription};

use crate::failure::{Exit, Failure};
use crate::output::Output;

#[derive(serde::Serialize)]
struct Status<'a> {
    name: &'a str,
    pid: u32,
    version: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    processes: &'a [ProcessDescription],
    doors: &'a [DoorStatus],
}

/// Knocks on every door once.
pub(super) fn run(dir: &Path, output: &Output) -> Result<Exit, Failure> {
    let grid = super::running_grid(dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start")?;
    let doors = runtime.block_on(weir_grid::knock(&grid)).map_err(super::failure)?;
    print(&grid, &doors, output);
    if doors.iter().all(|door| door.up) {
        Ok(Exit::Done)
    } else {
        Ok(Exit::CouldNotRun)
    }
}

fn print(grid: &GridDescription, doors: &[DoorStatus], output: &Output) {
    output.line(format!("{}: process {}, weir {}", grid.name, grid.pid, grid.version));
    let width = doors
        .iter()
        .map(|door| door.door.chars().count())
        .max()
        .unwrap_or_default();
    for door in doors {
        let mark = if door.up { "up  " } else { "DOWN" };
        let detail = door.error.as_deref().or(door.version.as_deref()).unwrap_or_default();
        let line = format!("  {mark} {:width$}  {}  {detail}", door.door, door.url);
        output.line(line.trim_end());
    }
    for process in &grid.processes {
        output.line(super::process_line(process));
    }
    output.done(&Status {
        name: &grid.name,
        pid: grid.pid,
        version: &grid.version,
        processes: &grid.processes,
        doors,
    });
}
