//! The credentials of a grid without its services, for commands that run after a grid and need its external storages.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use weir_auth::client::TokenSource;
use weir_http::Client;
use weir_model::{Grid, RseName};

use crate::GridError;
use crate::access::CatalogAccess;
use crate::ground::Ground;
use crate::issuer::TokenIssuer;

/// The credentials of a grid that does not run. Its own issuer runs while this lives, at the address and with the keys that it had.
pub struct GridCredentials {
    issuer: TokenIssuer,
    client: Client,
    tokens: BTreeMap<RseName, TokenSource>,
    catalog: Option<CatalogAccess>,
    // Last: the directory is free when everything else is gone.
    _ground: Ground,
}

impl fmt::Debug for GridCredentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GridCredentials").finish_non_exhaustive()
    }
}

impl GridCredentials {
    /// Takes the directory of a grid, which is made if it is missing, and starts the issuer alone: unfinished transfers
    /// of the grid stay as they are.
    ///
    /// # Errors
    /// [`GridError`]; [`GridError::Taken`] while a grid runs on the directory.
    pub async fn open(grid: &Grid, dir: &Path) -> Result<Self, GridError> {
        let mut ground = Ground::lay(grid, dir)?;
        let client = ground.client()?;
        let issuer = TokenIssuer::start(grid, &mut ground, &client, None).await?;
        let tokens = issuer.storage_tokens(grid, &client)?;
        let elsewhere = grid.catalog.as_ref().and_then(|catalog| catalog.service.as_ref());
        let catalog = elsewhere.map(|catalog| CatalogAccess::external(catalog, &issuer.tokens(&client), &client));
        let catalog = catalog.transpose()?;
        Ok(Self {
            issuer,
            client,
            tokens,
            catalog,
            _ground: ground,
        })
    }

    /// A client that trusts the authorities of the grid, those of external endpoints included.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where tokens for the storage of an RSE come from. None if the grid has no such RSE.
    pub fn storage_tokens(&self, rse: &RseName) -> Option<&TokenSource> {
        self.tokens.get(rse)
    }

    /// URL and credentials of the catalogue, if it is an external one.
    pub fn catalog(&self) -> Option<&CatalogAccess> {
        self.catalog.as_ref()
    }

    /// Stops the issuer.
    pub async fn close(self) {
        self.issuer.stop().await;
    }
}
