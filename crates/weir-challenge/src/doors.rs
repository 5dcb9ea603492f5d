//! Finds the doors of a running grid and the tokens for them.

use weir_auth::Secret;
use weir_auth::client::TokenSource;
use weir_grid::{EmbeddedGrid, GridCredentials, KindDescription};
use weir_http::Client;
use weir_model::{Grid, RseKind};

use crate::RunError;
use crate::storage::StorageDoor;

/// The doors of a grid, and what opens them.
#[derive(Debug)]
pub(crate) struct Doors {
    /// One per RSE, in the order of the grid file.
    pub(crate) storage: Vec<StorageDoor>,
    /// Where the transfer service answers.
    pub(crate) transfer: String,
    /// Tokens of the grid's own issuer.
    pub(crate) tokens: TokenSource,
    /// A client that trusts the grid's authorities.
    pub(crate) client: Client,
}

/// Makes the doors of the storages that are not a grid's own, for what the run of this name left there.
pub(crate) fn external(grid: &Grid, credentials: &GridCredentials, run: &str) -> Result<Vec<StorageDoor>, RunError> {
    let mut doors = Vec::new();
    for rse in &grid.rses {
        let RseKind::External { url, .. } = &rse.kind else {
            continue;
        };
        let name = rse.name.to_string();
        let Some(tokens) = credentials.storage_tokens(&rse.name) else {
            return Err(RunError::NoDoor { rse: name });
        };
        doors.push(StorageDoor {
            url: url.trim_end_matches('/').to_owned(),
            audience: weir_grid::origin(url).to_owned(),
            embedded: false,
            quota: None,
            directory: format!("/weir/{run}"),
            tokens: tokens.clone(),
            client: credentials.client().clone(),
            name,
        });
    }
    Ok(doors)
}

/// Makes the doors of a grid for the run of this name.
pub(crate) fn open(grid: &Grid, running: &EmbeddedGrid, run: &str) -> Result<Doors, RunError> {
    let description = running.description();
    let client = running.client().clone();
    let secret_file = &description.client.secret_file;
    let secret = Secret::read(secret_file);
    let secret = secret.map_err(|source| RunError::Secret {
        path: secret_file.clone(),
        source,
    })?;
    let token_url = format!("{}/token", description.issuer.url);
    let tokens = TokenSource::client_credentials(client.clone(), token_url, &description.client.id, &secret);
    let mut storage = Vec::with_capacity(grid.rses.len());
    for rse in &grid.rses {
        let name = rse.name.to_string();
        let found = description.rses.iter().find(|found| found.name == name);
        let (Some(found), Some(own)) = (found, running.storage_tokens(&rse.name)) else {
            return Err(RunError::NoDoor { rse: name });
        };
        storage.push(StorageDoor {
            url: found.url.trim_end_matches('/').to_owned(),
            audience: found.audience.clone(),
            embedded: found.kind == KindDescription::Embedded,
            quota: match &rse.kind {
                RseKind::Embedded { quota, .. } => Some(quota.0),
                RseKind::External { .. } => None,
            },
            directory: format!("/weir/{run}"),
            tokens: own.clone(),
            client: client.clone(),
            name,
        });
    }
    Ok(Doors {
        storage,
        transfer: description.transfer.url.clone(),
        tokens,
        client,
    })
}
