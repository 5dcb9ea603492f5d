//! The services of a grid, where a grid file says something about them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::catalog::Scope;
use crate::place::Place;

/// The issuer of a grid's tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GridIssuer {
    /// An issuer that starts with the grid.
    Embedded(EmbeddedIssuer),
    /// Another issuer, which every storage of the grid trusts.
    External(ExternalIssuer),
}

/// An issuer that starts with the grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EmbeddedIssuer {
    /// Where it answers; on the loopback address if absent. Storage that runs elsewhere and trusts it has to reach it.
    pub place: Option<Place>,
    /// How long its tokens live.
    #[serde(with = "weir_units::duration")]
    pub token_lifetime: Duration,
    /// How long it holds back the answer to each request for a token.
    #[serde(with = "weir_units::duration")]
    pub answer_delay: Duration,
}

impl Default for EmbeddedIssuer {
    /// Tokens of one hour, at once, on the loopback address.
    fn default() -> Self {
        Self {
            place: None,
            token_lifetime: Duration::from_secs(3600),
            answer_delay: Duration::ZERO,
        }
    }
}

impl Default for GridIssuer {
    fn default() -> Self {
        Self::Embedded(EmbeddedIssuer::default())
    }
}

/// The files that share the tokens with which their transfers are submitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransferTokens {
    /// All files at a storage.
    #[default]
    Shared,
    /// None: each file has tokens of its own, for its path alone. The transfer service of the grid renews them.
    PerFile,
}

impl TransferTokens {
    /// The word of the grid file: `shared`, `per-file`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerFile => "per-file",
        }
    }
}

/// An issuer that runs elsewhere, asked by client credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalIssuer {
    /// The value of `iss` in its tokens: `https://`, compared letter by letter. The issuer's discovery document names its token endpoint.
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
    /// The certificate that it is shown in place of a token; it is delegated to the service, which then acts in its name at storages.
    pub certificate: Option<ClientCertificate>,
}

/// The catalogue of a grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GridCatalog {
    /// How often it asks the transfer service for the state of its jobs, if it starts with the grid.
    #[serde(with = "weir_units::duration")]
    pub poll: Duration,
    /// The catalogue, if it does not start with the grid.
    pub service: Option<ExternalCatalog>,
}

impl Default for GridCatalog {
    /// One second: files on one machine take seconds.
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            service: None,
        }
    }
}

/// A catalogue that runs elsewhere and speaks the Rucio REST API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalCatalog {
    /// Where it answers; `https://`, without a slash at the end.
    pub url: String,
    /// Where logins are made, the same.
    pub auth_url: String,
    /// The certificates that vouch for both, in PEM; the system's own if absent.
    pub ca: Option<PathBuf>,
    /// The account that owns the rules.
    pub account: String,
    /// The scope of everything that challenges add.
    pub scope: Scope,
    /// How they are let in.
    pub login: CatalogLogin,
}

/// The way to log in to a catalogue that runs elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogLogin {
    /// By user name and password, for a token of its own.
    Password {
        /// The user name.
        user: String,
        /// A file that holds the password.
        password_file: PathBuf,
    },
    /// By a certificate, for a token of its own.
    Certificate(ClientCertificate),
    /// By a token of an issuer that it trusts.
    Token {
        /// The audience of that token.
        audience: String,
        /// Its scope.
        scope: String,
        /// A file with the token, read anew when it is needed; the grid's issuer gives one if absent.
        token_file: Option<PathBuf>,
    },
}

/// A certificate and its private key, or a proxy, which a client shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientCertificate {
    /// The certificate with its chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM; the same file holds both if they are one.
    pub key: PathBuf,
}
