//! A process for each site: starting, watching and stopping them.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_auth::files;
use weir_model::{Grid, SiteName};

use crate::description::{GridDescription, ProcessDescription};
use crate::ground::Ground;
use crate::{GridError, GridProcess, lock, site};

/// Longest wait for the process of a site to end: its storages have a grace of 10 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks at the processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The program that runs the storages of one site ([`crate::SiteStorages`]) until it receives SIGTERM.
#[derive(Debug, Clone)]
pub struct SiteProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; the name of the site is added as the last.
    pub arguments: Vec<OsString>,
}

/// The processes of a grid's sites. Until they are watched they end with this value; after that they live on without it.
#[derive(Debug)]
pub(crate) struct Processes {
    dir: PathBuf,
    sites: Vec<SiteProcess>,
    is_watched: bool,
}

impl Drop for Processes {
    fn drop(&mut self) {
        if !self.is_watched {
            self.kill();
        }
    }
}

#[derive(Debug)]
struct SiteProcess {
    site: SiteName,
    log: PathBuf,
    /// None once it has ended and that was said.
    child: Option<Child>,
}

impl Processes {
    /// Starts one for each site with embedded RSEs, without waiting for any.
    pub(crate) fn start(grid: &Grid, ground: &Ground, program: &SiteProgram) -> Result<Self, GridError> {
        let mut processes = Self {
            dir: ground.dir.clone(),
            sites: Vec::new(),
            is_watched: false,
        };
        let logs = ground.folder("log")?;
        let sites = grid.sites.iter().map(|site| &site.name);
        for name in sites.filter(|name| site::embedded_at(grid, name).next().is_some()) {
            let log = logs.join(format!("site-{name}.log"));
            let child = spawn(program, name, &log).map_err(|source| GridError::Access {
                path: program.program.clone(),
                source,
            })?;
            processes.sites.push(SiteProcess {
                site: name.clone(),
                log,
                child: Some(child),
            });
        }
        Ok(processes)
    }

    /// The process of each site, as it is now.
    pub(crate) fn describe(&self) -> Vec<ProcessDescription> {
        let describe = |process: &SiteProcess| ProcessDescription {
            site: process.site.to_string(),
            pid: pid_of(&self.dir, process.site.as_str()),
        };
        self.sites.iter().map(describe).collect()
    }

    /// A process that has ended since the last look, as an error.
    pub(crate) fn ended(&mut self) -> Option<GridError> {
        self.sites.iter_mut().find_map(|process| {
            let status = process.child.as_mut()?.try_wait().ok()??;
            process.child = None;
            Some(GridError::SiteEnded {
                site: process.site.to_string(),
                status: status.to_string(),
                said: last_line(&process.log),
                log: process.log.clone(),
            })
        })
    }

    /// Kills the processes started here: the start of the grid has failed.
    fn kill(&mut self) {
        for child in self.sites.iter_mut().filter_map(|process| process.child.as_mut()) {
            let _ended_before = child.kill();
            let _reaped = child.wait();
        }
    }

    /// Keeps `grid.json` true: which sites have a process, and which. Says so if one ends.
    pub(crate) async fn watch(mut self, mut description: GridDescription) {
        self.is_watched = true;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            while let Some(error) = self.ended() {
                tracing::error!(error = weir_auth::error_chain(&error), "a site has no storage any more");
            }
            let now = self.describe();
            if now != description.processes {
                description.processes = now;
                if let Err(error) = description.write(&self.dir) {
                    tracing::warn!(error = weir_auth::error_chain(&error), "could not describe the grid");
                }
            }
        }
    }
}

fn spawn(program: &SiteProgram, site: &SiteName, log: &Path) -> std::io::Result<Child> {
    let output = files::open_log(log)?;
    let mut command = Command::new(&program.program);
    command
        .args(&program.arguments)
        .arg(site.as_str())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        // Ctrl-C is for the grid's process, which stops its sites after the transfer service.
        .process_group(0);
    command.spawn()
}

fn pid_of(dir: &Path, site: &str) -> Option<u32> {
    let found = GridProcess::find(&lock::site_folder(dir, site));
    found.ok().flatten().map(|process| process.pid())
}

/// The last line of a process's log, for an error.
fn last_line(log: &Path) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    const MOST: i64 = 4096;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = i64::try_from(file.metadata()?.len()).unwrap_or(i64::MAX);
        file.seek(SeekFrom::End(-length.min(MOST)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.trim_ascii().is_empty());
    weir_auth::peer_text(line.unwrap_or(b"nothing"))
}

/// Stops every process of a site of the grid on this directory, whatever started it; returns the sites that had one.
///
/// # Errors
/// [`GridError::Access`] if one may not be signalled, [`GridError::SiteRuns`] if one does not end within 20 s.
pub fn stop_sites(dir: &Path) -> Result<Vec<String>, GridError> {
    let mut running = Vec::new();
    for name in lock::sites_with_locks(dir) {
        if let Some(process) = GridProcess::find(&lock::site_folder(dir, &name))? {
            process.ask_to_stop()?;
            running.push((name, process));
        }
    }
    let mut stopped = Vec::new();
    for (name, process) in running {
        if !process.wait(PATIENCE)? {
            return Err(GridError::SiteRuns {
                site: name,
                pid: process.pid(),
            });
        }
        stopped.push(name);
    }
    Ok(stopped)
}

/// [`stop_sites`], for a runtime: it waits elsewhere.
pub(crate) async fn stop_all(dir: &Path) -> Result<Vec<String>, GridError> {
    let dir = dir.to_owned();
    match tokio::task::spawn_blocking(move || stop_sites(&dir)).await {
        Ok(stopped) => stopped,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
