//! One run, from preflight to report.

mod outcome;

mod task;

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_grid::{EmbeddedGrid, GridOptions, SiteProgram, clock_library};
use weir_plan::Plan;

use self::task::RunTask;
use crate::execute::progress::{Progress, Update};
use crate::options::{Options, Stop};
use crate::output::folder::RunFolder;
use crate::sites::SitesReport;
use crate::{
    RunError, faults,
    prepare::{host, preflight},
};
pub use outcome::RunOutcome;
use outcome::{Done, Purpose};

/// The grid of a run whose sites have processes of their own, in the run folder.
const GRID_FILE: &str = "grid.toml";

/// Runs a plan against its grid and writes the run folder.
///
/// Starts the embedded part of the grid, puts source files in place, injects, observes, drains, audits, compares
/// counters, cleans up everywhere and reports. To be called on a runtime of its own: data moves on the grid's.
///
/// # Errors
/// When the challenge could not begin; later errors are in the report.
pub async fn run(
    plan: Plan,
    options: Options,
    progress: Arc<dyn Progress>,
    stop: Stop,
) -> Result<RunOutcome, RunError> {
    preflight::check(&plan, &options, &*progress).await?;
    let (folder, scratch) = lay_ground(&plan, &options)?;
    let outcome = Box::pin(run_in(
        &plan,
        &options,
        &progress,
        &stop,
        &folder,
        &scratch,
        Purpose::Run,
    ))
    .await;
    let outcome = outcome.map(|done| match done {
        Done::Run(outcome) => *outcome,
        Done::Sites(_) => unreachable!("a run ends with its outcome"),
    });
    clear(&options, &folder, &scratch);
    if let Err(error) = &outcome {
        folder.log(&weir_auth::error_chain(error));
    }
    outcome
}

/// Checks the storages of a plan as a run would before it begins, and leaves nothing; `None` if all of them start with
/// the grid.
///
/// The grid is started for it, in a folder of its own below `options.out`, which is removed unless something could not
/// be deleted.
///
/// # Errors
/// When the grid could not start. Problems at a storage are in the report.
pub async fn check_sites(
    plan: Plan,
    options: Options,
    progress: Arc<dyn Progress>,
    stop: Stop,
) -> Result<Option<SitesReport>, RunError> {
    let (folder, scratch) = lay_ground(&plan, &options)?;
    let outcome = Box::pin(run_in(
        &plan,
        &options,
        &progress,
        &stop,
        &folder,
        &scratch,
        Purpose::Sites,
    ))
    .await;
    clear(&options, &folder, &scratch);
    let report = outcome.map(|done| match done {
        Done::Sites(report) => report,
        Done::Run(_) => unreachable!("a look at the sites ends with its report"),
    })?;
    let left = report
        .iter()
        .flat_map(|report| &report.sites)
        .flat_map(|site| &site.checks);
    if !left
        .into_iter()
        .any(|check| check.name == "delete" && check.outcome.has_failed())
    {
        let _gone = std::fs::remove_dir_all(folder.path());
    }
    Ok(report)
}

/// Makes the run folder and the directory of the data areas.
fn lay_ground(plan: &Plan, options: &Options) -> Result<(Arc<RunFolder>, PathBuf), RunError> {
    let moment = jiff::Timestamp::now();
    let folder = Arc::new(RunFolder::create(&options.out, &plan.name, moment)?);
    folder.write("challenge.toml", |to| to.write_all(plan.resolved.as_bytes()))?;
    folder.log(&format!("weir {} runs {}", env!("CARGO_PKG_VERSION"), options.command));
    // Always a directory of the run's own, because it is removed with all that is in it.
    let scratch = match (&options.scratch, folder.path().file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => folder.path().join("scratch"),
    };
    let made = scratch.parent().map_or(Ok(()), std::fs::create_dir_all);
    // Only a new folder: the creator of an existing one could read it, or have put something into it.
    let made = made.and_then(|()| DirBuilder::new().mode(0o700).create(&scratch));
    made.map_err(|source| RunError::Folder {
        path: scratch.clone(),
        source,
    })?;
    Ok((folder, scratch))
}

/// Removes the data areas, unless they are kept.
fn clear(options: &Options, folder: &RunFolder, scratch: &Path) {
    if !options.keep
        && let Err(error) = std::fs::remove_dir_all(scratch)
    {
        folder.log(&format!("could not remove {}: {error}", scratch.display()));
    }
}

/// The command that runs one site of the grid: `weir grid site`, with the grid's part of the challenge as its file.
fn site_program(plan: &Plan, options: &Options, folder: &RunFolder, scratch: &Path) -> Result<SiteProgram, RunError> {
    let broken = |source: std::io::Error| RunError::Folder {
        path: folder.path().join(GRID_FILE),
        source,
    };
    let table: toml::Table = plan.resolved.parse().map_err(std::io::Error::other).map_err(broken)?;
    let grid = table.get("grid").map(toml::to_string).transpose();
    let grid = grid.map_err(std::io::Error::other).map_err(broken)?.unwrap_or_default();
    folder.write(GRID_FILE, |to| to.write_all(grid.as_bytes()))?;
    let words = ["grid", "site", "--json", "--log-level", "info", "--bound", "--dir"].map(OsString::from);
    let absolute = |path: &Path| std::path::absolute(path).map_err(broken);
    let named = [
        absolute(scratch)?.into(),
        absolute(&folder.path().join(GRID_FILE))?.into(),
    ];
    let mut program = SiteProgram::default();
    program.program = options.program.clone().unwrap_or_default();
    program.arguments = words.into_iter().chain(named).collect();
    program.is_bound = true;
    program.clock = clock_library().filter(|_| options.breakable || faults::needs_clock(plan));
    Ok(program)
}

/// Runs with the grid's life around it.
async fn run_in(
    plan: &Plan,
    options: &Options,
    progress: &Arc<dyn Progress>,
    stop: &Stop,
    folder: &Arc<RunFolder>,
    scratch: &Path,
    purpose: Purpose,
) -> Result<Done, RunError> {
    let step = |text: String| {
        folder.log(&text);
        progress.show(&Update::Step { text });
    };
    progress.show(&Update::Folder {
        folder: folder.path().to_owned(),
    });
    step("the grid starts".to_owned());
    let host = host::describe(scratch);
    let mut grid_options = GridOptions::default();
    grid_options.catalog = plan.makes_rules();
    grid_options.relays = options.breakable || faults::needs_relays(plan, &options.ground);
    if faults::with_processes(plan, options) {
        grid_options.sites = Some(site_program(plan, options, folder, scratch)?);
    }
    let grid = tokio::select! {
        grid = EmbeddedGrid::start(&plan.grid, scratch, grid_options) => grid?,
        () = stop.soft.cancelled() => return Err(RunError::Interrupted),
    };
    let run = RunTask {
        plan,
        options,
        progress,
        stop,
        folder,
        scratch,
        host,
    };
    let outcome = run.with(&grid, purpose).await;
    // Dropping the grid cuts everything off, as a second interruption demands.
    let stopped = tokio::select! {
        stopped = grid.shutdown() => stopped,
        () = stop.hard.cancelled() => Ok(()),
    };
    if let Err(error) = stopped {
        folder.log(&weir_auth::error_chain(&error));
    }
    outcome
}
