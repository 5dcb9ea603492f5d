//! Finds the doors of a running grid and the tokens for them.

use std::sync::Arc;

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
    /// The transfer service.
    pub(crate) transfer: TransferService,
    /// A client that trusts the grid's authorities.
    pub(crate) client: Client,
}

/// Where a transfer service answers, and the tokens for it.
#[derive(Debug, Clone)]
pub(crate) struct TransferService {
    /// Without a slash at the end.
    pub(crate) url: String,
    /// The audience of its tokens.
    pub(crate) audience: String,
    pub(crate) tokens: TokenSource,
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
            without_checksums: Arc::default(),
            url: url.trim_end_matches('/').to_owned(),
            audience: weir_grid::origin(url).to_owned(),
            scope_prefix: scope_prefix(&rse.kind),
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

/// The path of an RSE's base below the one at which the scopes of tokens begin there.
fn scope_prefix(kind: &RseKind) -> String {
    let RseKind::External {
        url,
        base_path: Some(base),
        ..
    } = kind
    else {
        return String::new();
    };
    let path = url[weir_grid::origin(url).len()..].trim_end_matches('/');
    path.strip_prefix(base.as_str()).unwrap_or_default().to_owned()
}

/// Makes the doors of a grid for the run of this name.
pub(crate) fn open(grid: &Grid, running: &EmbeddedGrid, run: &str) -> Result<Doors, RunError> {
    let description = running.description();
    let client = running.client().clone();
    let mut storage = Vec::with_capacity(grid.rses.len());
    for rse in &grid.rses {
        let name = rse.name.to_string();
        let found = description.rses.iter().find(|found| found.name == name);
        let (Some(found), Some(own)) = (found, running.storage_tokens(&rse.name)) else {
            return Err(RunError::NoDoor { rse: name });
        };
        storage.push(StorageDoor {
            without_checksums: Arc::default(),
            url: found.url.trim_end_matches('/').to_owned(),
            audience: found.audience.clone(),
            scope_prefix: scope_prefix(&rse.kind),
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
        transfer: TransferService {
            url: description.transfer.url.trim_end_matches('/').to_owned(),
            audience: running.transfer_audience().to_owned(),
            tokens: running.transfer_tokens().clone(),
        },
        client,
    })
}
