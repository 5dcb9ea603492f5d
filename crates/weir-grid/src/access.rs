//! Credentials for the services that a challenge drives, the grid's own and external ones.

use weir_auth::Secret;
use weir_auth::client::{RucioLogin, TokenSource};
use weir_http::{Client, Identity};
use weir_model::{CatalogLogin, ClientCertificate, ExternalCatalog, ExternalTransfer};

use crate::GridError;
use crate::catalog::ROOT;
use crate::runtime::not_started;

/// Scope of tokens for the grid's own catalogue, which identifies users by the subject of the token.
const OWN_TOKEN_SCOPE: &str = "fts";

/// The scope of challenges' files in the grid's own catalogue.
const OWN_SCOPE: &str = "weir-challenge";

/// URL and credentials of a catalogue, and the account that owns the rules.
#[derive(Debug, Clone)]
pub struct CatalogAccess {
    /// Where it answers; without a slash at the end.
    pub url: String,
    /// The account.
    pub account: String,
    /// The scope of challenges' files.
    pub scope: String,
    /// Where its tokens come from.
    pub tokens: TokenSource,
    /// The audience to ask for.
    pub audience: String,
    /// The scope of the tokens to ask for.
    pub token_scope: String,
    /// A client that trusts it.
    pub client: Client,
    /// Whether it starts with the grid.
    pub is_own: bool,
}

impl CatalogAccess {
    /// Access to the grid's own catalogue.
    pub(crate) fn own(url: &str, issuer: &TokenSource, client: &Client) -> Self {
        Self {
            url: url.to_owned(),
            account: ROOT.to_owned(),
            scope: OWN_SCOPE.to_owned(),
            tokens: issuer.clone(),
            audience: url.to_owned(),
            token_scope: OWN_TOKEN_SCOPE.to_owned(),
            client: client.clone(),
            is_own: true,
        }
    }

    /// Access to an external catalogue.
    pub(crate) fn external(
        catalog: &ExternalCatalog,
        issuer: &TokenSource,
        client: &Client,
    ) -> Result<Self, GridError> {
        let (mut audience, mut token_scope) = (String::new(), String::new());
        let log_in = |client, login| TokenSource::rucio(client, &catalog.auth_url, &catalog.account, login);
        let tokens = match &catalog.login {
            CatalogLogin::Password { user, password_file } => {
                let password = Secret::read(password_file).map_err(|source| GridError::Access {
                    path: password_file.clone(),
                    source,
                })?;
                let user = user.clone();
                log_in(client.clone(), RucioLogin::Password { user, password })
            }
            CatalogLogin::Certificate(identity) => log_in(showing(client, identity)?, RucioLogin::Certificate),
            CatalogLogin::Token {
                audience: wanted,
                scope,
                token_file,
            } => {
                audience.clone_from(wanted);
                token_scope.clone_from(scope);
                token_file.as_ref().map_or_else(|| issuer.clone(), TokenSource::file)
            }
        };
        Ok(Self {
            url: catalog.url.clone(),
            account: catalog.account.clone(),
            scope: catalog.scope.to_string(),
            tokens,
            audience,
            token_scope,
            client: client.clone(),
            is_own: false,
        })
    }
}

/// URL and credential of a transfer service.
#[derive(Debug, Clone)]
pub struct TransferAccess {
    /// Where it answers; without a slash at the end.
    pub url: String,
    /// A client that trusts it, and shows the certificate if there is one.
    pub client: Client,
    /// The credential of each request.
    pub credential: TransferCredential,
}

/// A credential for a transfer service.
#[derive(Debug, Clone)]
pub enum TransferCredential {
    /// A token with this audience.
    Token {
        /// Where it comes from.
        tokens: TokenSource,
        /// The audience to ask for.
        audience: String,
    },
    /// A certificate, which is delegated to it.
    Certificate(Identity),
}

impl TransferAccess {
    /// Access to the grid's own transfer service.
    pub(crate) fn own(url: &str, issuer: &TokenSource, client: &Client) -> Self {
        Self {
            url: url.to_owned(),
            client: client.clone(),
            credential: TransferCredential::Token {
                tokens: issuer.clone(),
                audience: url.to_owned(),
            },
        }
    }

    /// Access to an external transfer service.
    pub(crate) fn external(
        service: &ExternalTransfer,
        issuer: &TokenSource,
        client: &Client,
    ) -> Result<Self, GridError> {
        let url = service.url.clone();
        if let Some(identity) = &service.certificate {
            return Ok(Self {
                url,
                client: showing(client, identity)?,
                credential: TransferCredential::Certificate(read(identity)?),
            });
        }
        let tokens = service.token_file.as_ref();
        Ok(Self {
            url,
            client: client.clone(),
            credential: TransferCredential::Token {
                tokens: tokens.map_or_else(|| issuer.clone(), TokenSource::file),
                audience: service.audience.clone(),
            },
        })
    }
}

fn read(identity: &ClientCertificate) -> Result<Identity, GridError> {
    let (certificate, key) = (&identity.certificate, &identity.key);
    Identity::load(certificate, key)
        .map_err(|error| not_started(&format!("a client with {}", certificate.display()), error))
}

fn showing(client: &Client, identity: &ClientCertificate) -> Result<Client, GridError> {
    let shown = client.showing(&read(identity)?);
    shown.map_err(|error| not_started(&format!("a client with {}", identity.certificate.display()), error))
}
