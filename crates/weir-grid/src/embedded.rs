//! The embedded grid: every room in one process, spoken to through its doors.

use std::collections::BTreeMap;
use std::path::Path;

use weir_auth::client::TokenSource;
use weir_model::{Grid, RseName};

use crate::ground::Ground;
use crate::{GridDescription, GridError};

/// How an embedded grid is run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GridOptions {
    /// Threads that move data; default: one for each core.
    pub data_threads: usize,
}

impl Default for GridOptions {
    fn default() -> Self {
        Self {
            data_threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        }
    }
}

/// A running grid. Call [`EmbeddedGrid::shutdown`] to let work in hand end; dropping it cuts everything off.
#[derive(Debug)]
pub struct EmbeddedGrid {
    ground: Ground,
    description: GridDescription,
    client: weir_http::Client,
    tokens: BTreeMap<RseName, TokenSource>,
}

impl EmbeddedGrid {
    /// Starts every service of the grid on this directory and returns when every door answers.
    ///
    /// The runtime this is called on becomes the control runtime: issuer, transfer service and whoever drives the grid
    /// live there. Storage gets a runtime of its own, so that no amount of data stalls a decision, a progress line or
    /// Ctrl-C.
    ///
    /// # Errors
    /// [`GridError`]; whatever had been started is stopped again.
    #[allow(clippy::unused_async, reason = "the services are awaited")]
    pub async fn start(grid: &Grid, dir: &Path, _options: GridOptions) -> Result<Self, GridError> {
        let _ground = Ground::lay(grid, dir)?;
        Err(GridError::Start {
            door: "the grid".into(),
            source: "this build has no services yet".into(),
        })
    }

    /// What a client needs to know; the content of `grid.json`.
    pub fn description(&self) -> &GridDescription {
        &self.description
    }

    /// The grid's directory, absolute.
    pub fn dir(&self) -> &Path {
        &self.ground.dir
    }

    /// A client that trusts the authorities of the grid, those of external endpoints included.
    pub fn client(&self) -> &weir_http::Client {
        &self.client
    }

    /// Where tokens for the storage of an RSE come from: the grid's issuer, or what the grid file says of an external
    /// one. The audience to ask for is in the [`GridDescription`]. None if the grid has no such RSE.
    pub fn storage_tokens(&self, rse: &RseName) -> Option<&TokenSource> {
        self.tokens.get(rse)
    }

    /// Stops injection of new work first, then what it stands on: transfer service, storage, issuer.
    ///
    /// # Errors
    /// [`GridError::Access`] if the description could not be removed.
    #[allow(clippy::unused_async, reason = "the services are awaited")]
    pub async fn shutdown(self) -> Result<(), GridError> {
        GridDescription::remove(&self.ground.dir)
    }
}
