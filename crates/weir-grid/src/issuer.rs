//! The issuer of the grid's tokens: its own, or one that runs elsewhere.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use weir_auth::Secret;
use weir_auth::client::TokenSource;
use weir_http::Client;
use weir_model::{EmbeddedIssuer, ExternalIssuer, Grid, GridIssuer, Rse, RseKind, RseName, TokenFrom};

use crate::addresses::{Door, behind};
use crate::fronts::{ISSUER, Relays, in_front_of_issuer, relay};
use crate::ground::Ground;
use crate::runtime::not_started;
use crate::{ClientDescription, DoorDescription, GridError, KindDescription, configure};

/// The host of services that have no place of their own.
pub(crate) const SERVICE_HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The issuer of a grid, and the client that it knows.
#[derive(Debug)]
pub(crate) struct TokenIssuer {
    /// The value of `iss` in its tokens.
    pub(crate) url: String,
    pub(crate) token_url: String,
    pub(crate) client_id: String,
    pub(crate) secret_file: PathBuf,
    secret: Secret,
    /// The grid's own, which runs while this lives.
    running: Option<weir_issuer::Running>,
}

impl TokenIssuer {
    /// Starts the grid's own issuer, or asks another one where it gives tokens.
    pub(crate) async fn start(
        grid: &Grid,
        ground: &mut Ground,
        client: &Client,
        relays: Option<&mut Relays>,
    ) -> Result<Self, GridError> {
        match &grid.issuer {
            GridIssuer::Embedded(own) => Self::embedded(own, ground, relays),
            GridIssuer::External(external) => Self::external(external, client, relays).await,
        }
    }

    fn embedded(own: &EmbeddedIssuer, ground: &mut Ground, relays: Option<&mut Relays>) -> Result<Self, GridError> {
        let place = own.place.as_ref();
        let listen = match place {
            Some(place) => ground.addresses.place("issuer", place)?,
            None => ground.addresses.choose("issuer", SERVICE_HOST)?,
        };
        let mut door = Door::at(listen);
        if let Some(relays) = relays {
            door = door.behind(ground.addresses.choose(&behind("issuer"), listen.ip())?);
            relays.insert(ISSUER.to_owned(), relay(ISSUER, door)?);
        }
        let mut config = configure::issuer(own, ground, door.listen)?;
        config.url = configure::url_at(place, door);
        let identity = ground.identity("issuer", &configure::host_of(place, listen))?;
        let running =
            weir_issuer::Issuer::start(&config, &identity).map_err(|error| not_started("the issuer", error))?;
        Ok(Self {
            url: running.url().to_owned(),
            token_url: format!("{}/token", running.url()),
            client_id: configure::CLIENT_ID.to_owned(),
            secret_file: ground.secret_file.clone(),
            secret: ground.secret.clone(),
            running: Some(running),
        })
    }

    async fn external(
        external: &ExternalIssuer,
        client: &Client,
        relays: Option<&mut Relays>,
    ) -> Result<Self, GridError> {
        let endpoint = weir_auth::verifier::token_endpoint(client, &external.url).await;
        let mut token_url =
            endpoint.map_err(|why| not_started(&format!("without the issuer {}", external.url), why))?;
        if let Some(relays) = relays {
            token_url = in_front_of_issuer(&token_url, relays).await?;
        }
        Ok(Self {
            url: external.url.clone(),
            token_url,
            client_id: external.client_id.clone(),
            secret: read_secret(&external.secret_file)?,
            secret_file: external.secret_file.clone(),
            running: None,
        })
    }

    /// Where tokens for the grid's services come from.
    pub(crate) fn tokens(&self, client: &Client) -> TokenSource {
        TokenSource::client_credentials(client.clone(), &self.token_url, &self.client_id, &self.secret)
    }

    /// Where tokens for each RSE come from.
    pub(crate) fn storage_tokens(
        &self,
        grid: &Grid,
        client: &Client,
    ) -> Result<BTreeMap<RseName, TokenSource>, GridError> {
        let own = self.tokens(client);
        let of = |rse: &Rse| Ok((rse.name.clone(), source_for(rse, &own, client)?));
        grid.rses.iter().map(of).collect()
    }

    /// As `grid.json` has it.
    pub(crate) fn describe(&self) -> (DoorDescription, ClientDescription) {
        let issuer = DoorDescription {
            url: self.url.trim_end_matches('/').to_owned(),
            kind: KindDescription::of(self.running.is_some()),
        };
        let client = ClientDescription {
            id: self.client_id.clone(),
            secret_file: self.secret_file.clone(),
            token_url: Some(self.token_url.clone()),
        };
        (issuer, client)
    }

    /// Stops it, if it is the grid's own.
    pub(crate) async fn stop(self) {
        if let Some(running) = self.running {
            running.shutdown().await;
        }
    }
}

fn source_for(rse: &Rse, own: &TokenSource, client: &Client) -> Result<TokenSource, GridError> {
    let RseKind::External { token, .. } = &rse.kind else {
        return Ok(own.clone());
    };
    match token {
        TokenFrom::Grid => Ok(own.clone()),
        TokenFrom::File(path) => Ok(TokenSource::file(path)),
        TokenFrom::Issuer {
            token_url,
            client_id,
            secret_file,
            ..
        } => {
            let secret = read_secret(secret_file)?;
            Ok(TokenSource::client_credentials(
                client.clone(),
                token_url,
                client_id,
                &secret,
            ))
        }
    }
}

fn read_secret(file: &std::path::Path) -> Result<Secret, GridError> {
    Secret::read(file).map_err(|source| GridError::Access {
        path: file.to_owned(),
        source,
    })
}
