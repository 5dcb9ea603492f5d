//! The processes of a grid's sites: starting, watching and stopping them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use weir_model::Grid;

use crate::description::{GridDescription, ProcessDescription};
use crate::ground::Ground;
use crate::site_process::{SiteFigures, SiteOrder, SiteProcess, SiteProgram};
use crate::{GridError, GridProcess, lock, site};

/// Longest wait for the process of a site to end: its storages have a grace of 10 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pause between two looks at the processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The processes of a grid's sites. Until they are watched they end with this value; after that they live on without it,
/// unless they are bound to it.
#[derive(Debug)]
pub struct Processes {
    dir: PathBuf,
    program: SiteProgram,
    sites: Mutex<Vec<SiteProcess>>,
    is_watched: AtomicBool,
}

impl Drop for Processes {
    fn drop(&mut self) {
        if self.program.is_bound || !self.is_watched.load(Ordering::Relaxed) {
            self.sites.get_mut().iter_mut().for_each(SiteProcess::kill);
        }
    }
}

impl Processes {
    /// Starts one for each site with embedded RSEs, without waiting for any.
    pub(crate) fn start(grid: &Grid, ground: &Ground, program: &SiteProgram) -> Result<Self, GridError> {
        let processes = Self {
            dir: ground.dir.clone(),
            program: program.clone(),
            sites: Mutex::default(),
            is_watched: AtomicBool::new(false),
        };
        let logs = ground.folder("log")?;
        let sites = grid.sites.iter().map(|site| &site.name);
        for name in sites.filter(|name| site::embedded_at(grid, name).next().is_some()) {
            let log = logs.join(format!("site-{name}.log"));
            let process = SiteProcess::start(program, name, &ground.dir, log)?;
            processes.sites.lock().push(process);
        }
        Ok(processes)
    }

    /// The process of each site, as it is now.
    pub(crate) fn describe(&self) -> Vec<ProcessDescription> {
        let describe = |process: &SiteProcess| ProcessDescription {
            site: process.site.to_string(),
            pid: process.pid(),
        };
        self.sites.lock().iter().map(describe).collect()
    }

    /// A process that has ended since the last look, as an error.
    pub(crate) fn ended(&self) -> Option<GridError> {
        self.sites.lock().iter_mut().find_map(SiteProcess::ended)
    }

    /// The sites with a process.
    pub fn sites(&self) -> Vec<String> {
        self.sites
            .lock()
            .iter()
            .map(|process| process.site.to_string())
            .collect()
    }

    /// Stops, kills or starts the process of a site. A site without one is passed over.
    ///
    /// # Errors
    /// [`GridError::SiteForeign`] if the process was not started with the grid; [`GridError::Access`] if it does not start.
    pub fn order(&self, site: &str, order: SiteOrder) -> Result<(), GridError> {
        let mut sites = self.sites.lock();
        let process = sites.iter_mut().find(|process| process.site.as_str() == site);
        process.map_or(Ok(()), |process| process.order(&self.program, order))
    }

    /// Whether clocks can be set back.
    pub fn has_clock(&self) -> bool {
        self.program.clock.is_some()
    }

    /// Sets the clock of a site back by this time; it takes up to a second. It needs [`SiteProgram::clock`].
    ///
    /// # Errors
    /// [`GridError::Access`] if its file cannot be written.
    pub fn skew(&self, site: &str, behind: Duration) -> Result<(), GridError> {
        let sites = self.sites.lock();
        let process = sites.iter().find(|process| process.site.as_str() == site);
        process.map_or(Ok(()), |process| process.skew(behind))
    }

    /// The history of a site's process.
    pub fn figures(&self, site: &str) -> SiteFigures {
        let sites = self.sites.lock();
        let process = sites.iter().find(|process| process.site.as_str() == site);
        process.map(SiteProcess::figures).unwrap_or_default()
    }

    /// Starts the processes again that died, and keeps `grid.json` true: which sites have a process, and which.
    pub(crate) async fn watch(self: Arc<Self>, mut description: GridDescription) {
        self.is_watched.store(true, Ordering::Relaxed);
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            while let Some(error) = self.ended() {
                tracing::error!(error = weir_auth::error_chain(&error), "a site has no storage now");
            }
            for process in self.sites.lock().iter_mut() {
                match process.restart(&self.program) {
                    Ok(true) => tracing::info!(site = process.site.as_str(), "started the site again"),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(error = weir_auth::error_chain(&error), "could not start the site again");
                    }
                }
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

/// The processes of sites of the grid on this directory, whatever started them.
///
/// # Errors
/// [`GridError::Access`] if the directory cannot be read.
pub fn running_sites(dir: &Path) -> Result<Vec<ProcessDescription>, GridError> {
    let mut running = Vec::new();
    for site in lock::sites_with_locks(dir) {
        if let Some(process) = GridProcess::find(&lock::site_folder(dir, &site))? {
            let pid = Some(process.pid());
            running.push(ProcessDescription { site, pid });
        }
    }
    Ok(running)
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
