//! The storages of one site of a grid, in a process of their own.
//!
//! The grid's process chooses every address and makes every key before it starts the processes of its sites. They read
//! these, and write only their own files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use weir_http::Network;
use weir_model::{Grid, Rse, SiteName};

use crate::addresses::{Door, behind};
use crate::disk::{Behind, Disk};
use crate::ground::Ground;
use crate::limits::Started;
use crate::runtime::{not_started, run_on, runtime};
use crate::user::User;
use crate::{GridError, configure, reach};

/// The storages of one site. Call [`SiteStorages::shutdown`] to let requests in hand end.
pub struct SiteStorages {
    storages: Vec<Started>,
    data_runtime: Option<Runtime>,
    // Last: another process may take the site when everything else is gone.
    ground: Ground,
}

impl fmt::Debug for SiteStorages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SiteStorages").finish_non_exhaustive()
    }
}

impl SiteStorages {
    /// Starts the storages of a site at the addresses that the grid on this directory has assigned. Only one process at
    /// a time can.
    ///
    /// # Errors
    /// [`GridError`]; storages that had been started are stopped again.
    pub async fn start(grid: &Grid, dir: &Path, site: &SiteName, data_threads: usize) -> Result<Self, GridError> {
        let rses: Vec<&Rse> = embedded_at(grid, site).collect();
        if rses.is_empty() {
            return Err(no_site(grid, site));
        }
        let ground = Ground::enter(grid, dir, site.as_str())?;
        let user = User::known(grid, &ground);
        let issuer_url = configure::issuer_url(grid, &ground)?;
        let mut addresses = Vec::new();
        for rse in grid.rses.iter().filter(|rse| rse.kind.is_embedded()) {
            addresses.push(ground.known_address(rse.name.as_str())?.ip());
        }
        let reach = reach::storages(grid, addresses).await;
        let mut started = Self {
            storages: Vec::new(),
            data_runtime: Some(runtime("weir-data", data_threads)?),
            ground,
        };
        for rse in rses {
            if let Err(error) = started.add(rse, &user, &issuer_url, &reach).await {
                started.shutdown().await;
                return Err(error);
            }
        }
        Ok(started)
    }

    async fn add(&mut self, rse: &Rse, user: &User, issuer_url: &str, reach: &[Network]) -> Result<(), GridError> {
        let name = rse.name.as_str();
        let mut door = Door::at(self.ground.known_address(name)?);
        if let Some(listen) = self.ground.addresses.known(&behind(name)) {
            door = door.behind(listen);
        }
        let runtime = self.data_runtime.as_ref().expect("it is taken at the end");
        let storage = start_storage(runtime, (&self.ground, user), (rse, None), (door, issuer_url, reach)).await?;
        self.storages.push(storage);
        Ok(())
    }

    /// Where they answer.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        self.storages.iter().map(Started::url)
    }

    /// Stops them; requests in hand may end within the grace of each.
    pub async fn shutdown(mut self) {
        if let Some(runtime) = self.data_runtime.take() {
            stop_storages(&runtime, std::mem::take(&mut self.storages)).await;
            runtime.shutdown_background();
        }
    }
}

impl Drop for SiteStorages {
    fn drop(&mut self) {
        if let Some(runtime) = self.data_runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the storage of an embedded RSE.
pub(crate) async fn start_storage(
    runtime: &Runtime,
    of: (&Ground, &User),
    (rse, disk): (&Rse, Option<Arc<Disk>>),
    (door, issuer_url, reach): (Door, &str, &[Network]),
) -> Result<Started, GridError> {
    let config = configure::storage(of, rse, door, issuer_url, reach)?;
    let areas: Arc<dyn weir_storage::OpenArea> = match disk {
        Some(disk) => Arc::new(Behind(disk)),
        None => Arc::new(weir_storage::Directories),
    };
    let storage = run_on(runtime, weir_storage::Storage::start_on(config.clone(), areas)).await;
    let running = storage.map_err(|error| not_started(&format!("the storage of {}", rse.name), error))?;
    Ok(Started::new(rse.name.to_string(), config, running))
}

/// Stops storages, all at the same time.
pub(crate) async fn stop_storages(runtime: &Runtime, storages: Vec<Started>) {
    let ends: Vec<_> = storages
        .into_iter()
        .map(|storage| runtime.spawn(storage.shutdown()))
        .collect();
    for end in ends {
        let _ended_or_panicked = end.await;
    }
}

/// The RSEs of a site that the grid runs itself.
pub(crate) fn embedded_at<'a>(grid: &'a Grid, site: &'a SiteName) -> impl Iterator<Item = &'a Rse> {
    let rses = grid.rses.iter().filter(|rse| rse.kind.is_embedded());
    rses.filter(move |rse| rse.site == *site)
}

fn no_site(grid: &Grid, site: &SiteName) -> GridError {
    let sites = grid.sites.iter().map(|site| &site.name);
    let known: Vec<&str> = sites
        .filter(|site| embedded_at(grid, site).next().is_some())
        .map(SiteName::as_str)
        .collect();
    GridError::NoSite {
        site: site.to_string(),
        known: known.join(", "),
    }
}
