//! The services of a grid, where a grid file says something about them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::place::Place;

/// Who gives the tokens of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridIssuer {
    /// An issuer that starts with the grid; on the loopback address if it has no place. Storage that runs elsewhere and trusts it has to
    /// reach it.
    Embedded(Option<Place>),
    /// Another issuer, which every storage of the grid trusts.
    External(ExternalIssuer),
}

/// An issuer that runs elsewhere, asked by client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalIssuer {
    /// What its tokens name as `iss`: `https://`, letter by letter. Its token endpoint is where its discovery document says.
    pub url: String,
    /// The client that asks.
    pub client_id: String,
    /// The file that holds its secret.
    pub secret_file: PathBuf,
    /// The certificates that vouch for the issuer, in PEM; the system's own if absent.
    pub ca: Option<PathBuf>,
}

/// A transfer service that runs elsewhere and speaks the FTS3 REST API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalTransfer {
    /// Where it answers; `https://`, without a slash at the end.
    pub url: String,
    /// The certificates that vouch for it, in PEM; the system's own if absent.
    pub ca: Option<PathBuf>,
    /// The audience of the tokens for it.
    pub audience: String,
    /// A file with the token for it, read anew when it is needed; the grid's issuer gives one if absent.
    pub token_file: Option<PathBuf>,
}

/// The catalogue of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GridCatalog {
    /// How often it asks the transfer service for the state of its jobs.
    #[serde(with = "weir_units::duration")]
    pub poll: Duration,
}

impl Default for GridCatalog {
    /// One second: files on one machine take seconds.
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
        }
    }
}
