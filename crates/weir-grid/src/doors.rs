//! A grid seen from outside: checks of its doors, and tokens for users.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use http::{Method, Request};
use serde::Serialize;
use weir_auth::client::TokenSource;
use weir_auth::{Secret, files};
use weir_http::{Client, ClientConfig, TrustRoots, body};

use crate::{GridDescription, GridError, KindDescription};

/// Longest wait for a door to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The scopes of the token file: all operations of a user on storage, and none of an operator.
const USER_SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/ storage.stage:/";

/// The scopes of an operator's token: it sets limits, bans and drains at the transfer service, and has no rights at storage.
const OPERATOR_SCOPES: &str = "fts fts:admin";

/// How a door answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoorStatus {
    /// `issuer`, `transfer`, `catalog`, or the name of an RSE.
    pub door: String,
    /// `issuer`, `transfer`, `catalog` or `storage`; `external issuer`, `external transfer` or `external storage` if it does not run with
    /// the grid.
    pub kind: &'static str,
    /// Where it was asked.
    pub url: String,
    /// True if it answered with anything but a fault of its own (5xx).
    pub up: bool,
    /// Its name and version.
    pub version: Option<String>,
    /// Why it is not up.
    pub error: Option<String>,
}

impl DoorStatus {
    /// Whether it runs with the grid.
    pub(crate) fn is_embedded(&self) -> bool {
        !self.kind.starts_with("external")
    }
}

/// Asks every door once, all at the same time; the answers come in the order issuer, transfer, catalogue, RSEs.
///
/// # Errors
/// [`GridError::Start`] if the authorities of the grid cannot be read. A door that does not answer is no error.
pub async fn knock(grid: &GridDescription) -> Result<Vec<DoorStatus>, GridError> {
    let client = client(grid)?;
    let mut knocks = vec![
        (
            "issuer".to_owned(),
            kind_of(grid.issuer.kind, "issuer", "external issuer"),
            Method::GET,
            format!("{}/.well-known/openid-configuration", grid.issuer.url),
        ),
        (
            "transfer".to_owned(),
            kind_of(grid.transfer.kind, "transfer", "external transfer"),
            Method::GET,
            format!("{}/", grid.transfer.url),
        ),
    ];
    if let Some(catalog) = &grid.catalog {
        let ping = format!("{}/ping", catalog.url);
        knocks.push(("catalog".to_owned(), "catalog", Method::GET, ping));
    }
    for rse in &grid.rses {
        let kind = kind_of(rse.kind, "storage", "external storage");
        knocks.push((rse.name.clone(), kind, Method::OPTIONS, format!("{}/", rse.url)));
    }
    let mut asked = Vec::new();
    for (door, kind, method, url) in knocks {
        let client = client.clone();
        asked.push(tokio::spawn(async move {
            knock_once(&client, door, kind, method, url).await
        }));
    }
    let mut doors = Vec::new();
    for answer in asked {
        match answer.await {
            Ok(status) => doors.push(status),
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    Ok(doors)
}

fn kind_of(kind: KindDescription, embedded: &'static str, external: &'static str) -> &'static str {
    match kind {
        KindDescription::Embedded => embedded,
        KindDescription::External => external,
    }
}

async fn knock_once(client: &Client, door: String, kind: &'static str, method: Method, url: String) -> DoorStatus {
    let request = Request::builder().method(method).uri(&url).body(body::empty());
    let outcome = match request {
        Ok(request) => client
            .send_within(request, PATIENCE)
            .await
            .map_err(|error| weir_auth::error_chain(&error)),
        Err(error) => Err(error.to_string()),
    };
    let (version, error) = match &outcome {
        Ok(response) => {
            let server = response
                .headers()
                .get(http::header::SERVER)
                .and_then(|value| value.to_str().ok());
            let fault = response
                .status()
                .is_server_error()
                .then(|| format!("it answered {}", response.status()));
            (server.map(str::to_owned), fault)
        }
        Err(error) => (None, Some(error.clone())),
    };
    DoorStatus {
        door,
        kind,
        url,
        up: error.is_none(),
        version,
        error,
    }
}

/// Asks the issuer for a token that every door of the grid takes, and puts it into the token file (mode 0600).
///
/// # Errors
/// [`GridError::Start`] if the issuer gives none; [`GridError::Access`] if a file cannot be read or written.
pub async fn renew_token_file(grid: &GridDescription) -> Result<Secret, GridError> {
    fetch(grid, USER_SCOPES, &audiences(grid), &grid.token_file).await
}

/// Gets a token of an operator of the transfer service from the issuer, and writes it into a file beside the token file
/// (mode 0600). Gives the path of the new file; its token is not renewed.
///
/// # Errors
/// As [`renew_token_file`].
pub async fn operator_token(grid: &GridDescription) -> Result<(PathBuf, Secret), GridError> {
    let file = grid.token_file.with_file_name("operator-token");
    let token = fetch(grid, OPERATOR_SCOPES, &grid.transfer.url, &file).await?;
    Ok((file, token))
}

async fn fetch(grid: &GridDescription, scopes: &str, audiences: &str, file: &Path) -> Result<Secret, GridError> {
    let start = |source| GridError::Start {
        door: "a token for the token file".into(),
        source,
    };
    let access = |path: &Path, source| GridError::Access {
        path: path.to_owned(),
        source,
    };
    let secret_file = &grid.client.secret_file;
    let secret = Secret::read(secret_file).map_err(|source| access(secret_file, source))?;
    let source = TokenSource::client_credentials(client(grid)?, grid.token_url(), &grid.client.id, &secret);
    let token = source
        .token(scopes, audiences)
        .await
        .map_err(|error| start(error.into()))?;
    files::write_private(file, format!("{}\n", token.expose()).as_bytes()).map_err(|source| access(file, source))?;
    Ok(token)
}

/// Every door of the grid by name: a token for these is good here and nowhere else.
fn audiences(grid: &GridDescription) -> String {
    let rses = grid.rses.iter().map(|rse| rse.audience.as_str());
    // Rucio's client shows the token to the catalogue, and to the storages that it uploads to.
    let catalog = grid.catalog.iter().map(|catalog| catalog.url.as_str());
    let all: Vec<&str> = std::iter::once(grid.transfer.url.as_str())
        .chain(rses)
        .chain(catalog)
        .collect();
    all.join(" ")
}

/// A client that trusts the authorities of the grid and no other.
fn client(grid: &GridDescription) -> Result<Client, GridError> {
    let config = ClientConfig {
        connect_timeout: PATIENCE,
        ..ClientConfig::new(TrustRoots::file(&grid.ca.file))
    };
    Client::new(config).map_err(|source| GridError::Start {
        door: "a client".into(),
        source: source.into(),
    })
}
