//! `weir grid up`: starts a grid and keeps it running, in the foreground or behind.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use weir_grid::{EmbeddedGrid, GridDescription, GridOptions, LOG_NAME, SiteProgram};

use super::{control_runtime, load, process_line};
use crate::cli::GridUpArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::shell::quoted;
use crate::signals::Signals;

#[derive(serde::Serialize)]
struct GridReady<'a> {
    dir: &'a Path,
    grid: &'a GridDescription,
}

#[derive(serde::Serialize)]
struct GridSignalled {
    signal: &'static str,
}

/// Runs the grid until SIGINT or SIGTERM.
pub(super) fn foreground(arguments: &GridUpArguments, output: &Output) -> Result<Exit, Failure> {
    let grid = load(&arguments.grid)?;
    if arguments.background {
        // Away from the terminal: its end and its Ctrl-C are no longer ours. Fails only if that is so already.
        let _leader = rustix::process::setsid();
    }
    control_runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        let mut options = GridOptions::default();
        options.catalog = true;
        if arguments.processes {
            options.sites = Some(site_program(arguments)?);
        }
        let start = EmbeddedGrid::start(&grid, &arguments.dir, options);
        let running = tokio::select! {
            running = start => running.map_err(super::failure)?,
            _ = signals.next() => return Ok(Exit::Interrupted),
        };
        tell(running.description(), &arguments.dir, output);
        let signal = signals.next().await;
        output.line("stopping; work in hand may end");
        // A second signal cuts it off.
        tokio::select! {
            stopped = running.shutdown() => stopped.map_err(super::failure)?,
            _ = signals.next() => return Ok(Exit::Interrupted),
        }
        output.done(&GridSignalled { signal });
        Ok(Exit::Done)
    })
}

/// The command that runs one site: `weir grid site`.
fn site_program(arguments: &GridUpArguments) -> Result<SiteProgram, Failure> {
    let program = std::env::current_exe().context("could not find the weir binary")?;
    let words = ["grid", "site", "--json", "--log-level", "info", "--dir"].map(OsString::from);
    let named = [arguments.dir.clone().into(), arguments.grid.clone().into()];
    Ok(SiteProgram {
        program,
        arguments: words.into_iter().chain(named).collect(),
        ..SiteProgram::default()
    })
}

/// Starts the grid in a process of its own and returns when it is ready.
pub(super) fn detached(arguments: &GridUpArguments, output: &Output) -> Result<Exit, Failure> {
    // Wrong files are told here, before there is a second process.
    load(&arguments.grid)?;
    weir_grid::prepare_directory(&arguments.dir).map_err(super::failure)?;
    let log = log_file(&arguments.dir)?;
    let program = std::env::current_exe().context("could not find the weir binary")?;
    let mut child = Command::new(program)
        .args([
            "grid",
            "up",
            "--background",
            "--json",
            "--log-level",
            "info",
            "--log-file",
        ])
        .arg(arguments.dir.join(LOG_NAME))
        .arg("--dir")
        .arg(&arguments.dir)
        .args(arguments.processes.then_some("--processes"))
        .arg(&arguments.grid)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("could not start the grid's process")?;
    let mut answer = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut answer)
            .context("could not hear from the grid's process")?;
    }
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
    if answer["event"] == "ready" {
        let grid = GridDescription::read(&arguments.dir).map_err(super::failure)?;
        tell(&grid, &arguments.dir, output);
        output.done(&GridReady {
            dir: &arguments.dir,
            grid: &grid,
        });
        return Ok(Exit::Done);
    }
    Err(child_failure(&answer, &arguments.dir))
}

/// The grid's log, for output that bypasses the logging: the last words of a crashing process.
fn log_file(dir: &Path) -> Result<std::fs::File, Failure> {
    let path = dir.join(LOG_NAME);
    let file = weir_auth::files::open_log(&path);
    Ok(file.with_context(|| format!("could not write {}", path.display()))?)
}

/// The background process's report of its end, as our own failure.
fn child_failure(answer: &serde_json::Value, dir: &Path) -> Failure {
    let error = &answer["error"];
    let Some(message) = error["message"].as_str() else {
        let log = dir.join(LOG_NAME).display().to_string();
        return Failure::could_not_run(anyhow!("the grid's process ended early")).with_remedy(format!("look at {log}"));
    };
    let causes = error["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = causes
        .iter()
        .rev()
        .filter_map(serde_json::Value::as_str)
        .chain([message]);
    let chain = texts.fold(None, |inner: Option<anyhow::Error>, text| match inner {
        None => Some(anyhow!(text.to_string())),
        Some(inner) => Some(inner.context(text.to_string())),
    });
    let failure = Failure::could_not_run(chain.unwrap_or_else(|| anyhow!("the grid's process ended early")));
    match error["remedy"].as_str() {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}

/// Says that the grid is ready, where its doors are, and how to use it.
fn tell(grid: &GridDescription, dir: &Path, output: &Output) {
    output.event("ready", &GridReady { dir, grid });
    output.line(format!("{} is ready (process {})", grid.name, grid.pid));
    output.line(format!("  issuer    {}", grid.issuer.url));
    output.line(format!("  transfer  {}", grid.transfer.url));
    if let Some(catalog) = &grid.catalog {
        output.line(format!("  catalog   {}", catalog.url));
    }
    let width = grid
        .rses
        .iter()
        .map(|rse| rse.name.chars().count())
        .max()
        .unwrap_or_default();
    for rse in &grid.rses {
        output.line(format!("  rse       {:width$}  {}", rse.name, rse.url));
    }
    for process in &grid.processes {
        output.line(process_line(process));
    }
    let dir = quoted(&dir.display().to_string());
    output.line(format!("use it     eval \"$(weir grid env {dir})\""));
    output.line(format!("stop it    weir grid down {dir}"));
}
