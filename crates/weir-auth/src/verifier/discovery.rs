//! An issuer's metadata: OpenID Connect Discovery 1.0, RFC 8414.

use serde::Deserialize;

use super::fetch::{Fetch, FetchError};
use crate::error::printable;

/// Largest discovery document read, in bytes.
const DISCOVERY_MAX: usize = 64 * 1024;

/// An issuer's metadata, as far as anybody here needs it. It speaks for the issuer that was asked.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    issuer: String,
    #[serde(default)]
    pub(crate) jwks_uri: Option<String>,
    #[serde(default)]
    pub(crate) token_endpoint: Option<String>,
}

impl Metadata {
    /// Asks the issuer; errors are sentences.
    pub(crate) async fn fetch(fetch: &dyn Fetch, issuer: &str) -> Result<Self, String> {
        if !is_https(issuer) {
            return Err("the issuer's URL does not begin with https://".to_owned());
        }
        let document = match fetch.get(&openid_url(issuer), DISCOVERY_MAX).await {
            Err(FetchError::NotFound(_)) => fetch.get(&oauth_url(issuer), DISCOVERY_MAX).await,
            other => other,
        };
        let document = document.map_err(|error| error.to_string())?;
        let document: Self = serde_json::from_slice(&document)
            .map_err(|_| "its discovery document is not JSON with issuer and jwks_uri".to_owned())?;
        if document.issuer != issuer {
            return Err(format!(
                "its discovery document speaks for {}",
                printable(&document.issuer)
            ));
        }
        Ok(document)
    }
}

/// The token endpoint of an issuer, by its metadata.
///
/// # Errors
/// A sentence: it does not answer, answers for another issuer, or names no endpoint behind TLS.
pub async fn token_endpoint(fetch: &dyn Fetch, issuer: &str) -> Result<String, String> {
    let url = Metadata::fetch(fetch, issuer).await?.token_endpoint;
    url.filter(|url| is_https(url))
        .ok_or_else(|| "its discovery document names no token_endpoint that begins with https://".to_owned())
}

pub(super) fn is_https(url: &str) -> bool {
    url.get(..8)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// OpenID Connect Discovery 1.0 section 4: after the issuer's path.
fn openid_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

/// RFC 8414 section 3: between the issuer's host and its path.
fn oauth_url(issuer: &str) -> String {
    let issuer = issuer.trim_end_matches('/');
    let path = issuer[8..].find('/').map_or(issuer.len(), |slash| slash + 8);
    format!(
        "{}/.well-known/oauth-authorization-server{}",
        &issuer[..path],
        &issuer[path..]
    )
}
