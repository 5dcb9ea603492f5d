//! Finds the doors of a running grid and the tokens for them.

use std::sync::Arc;

use weir_fts_api::{Bearer, FtsClient, FtsCredential};
use weir_grid::{CatalogAccess, EmbeddedGrid, GridCredentials, KindDescription, TransferCredential};
use weir_http::Identity;
use weir_model::{Grid, RseKind};

use crate::RunError;
use crate::inject::rules::CatalogService;
use crate::services::rest::Service;
use crate::services::storage::StorageDoor;

/// The doors of a grid, with their credentials.
#[derive(Debug)]
pub(crate) struct Doors {
    /// One per RSE, in the order of the grid file.
    pub(crate) storage: Vec<StorageDoor>,
    /// The transfer service.
    pub(crate) transfer: FtsClient,
    /// The certificate that is delegated to the transfer service, if it takes no token.
    pub(crate) delegated: Option<Identity>,
    /// The catalogue, if the grid has one.
    pub(crate) catalog: Option<CatalogService>,
}

/// Scope of tokens for a transfer service, as Rucio asks for it.
const TRANSFER_SCOPE: &str = "fts";

/// Makes the doors of external storages, for the leftovers of the run of this name.
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
    let access = running.transfer();
    let (credential, delegated) = match &access.credential {
        TransferCredential::Token { tokens, audience } => {
            let bearer = Bearer {
                source: tokens.clone(),
                audience: audience.clone(),
                scope: TRANSFER_SCOPE.to_owned(),
            };
            (FtsCredential::Bearer(bearer), None)
        }
        TransferCredential::Certificate(identity) => (FtsCredential::Certificate, Some(identity.clone())),
    };
    let transfer = FtsClient::new(&access.url, access.client.clone(), credential);
    Ok(Doors {
        storage,
        transfer,
        delegated,
        catalog: running.catalog().map(catalog),
    })
}

/// The catalogue that this opens.
pub(crate) fn catalog(access: &CatalogAccess) -> CatalogService {
    let token = Bearer {
        source: access.tokens.clone(),
        audience: access.audience.clone(),
        scope: access.token_scope.clone(),
    };
    CatalogService {
        service: Service {
            url: access.url.clone(),
            token,
            account: access.account.clone(),
            client: access.client.clone(),
        },
        account: access.account.clone(),
        scope: access.scope.clone(),
        is_own: access.is_own,
    }
}
