//! Tokens with which the catalogue asks transfer services and storages.

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde::{Deserialize, Serialize};
use weir_auth::{
    Secret,
    client::{TokenError, TokenSource},
};
use weir_fts_api::Bearer;
use weir_http::Client;
use weir_service::config::Invalid;

use crate::{requests::slice::Site, rses::protocols::Protocol};

/// The source of tokens: an issuer, or a file that another program renews.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokensConfig {
    /// The token endpoint of an issuer, such as `https://iam.example.org/token`.
    #[serde(default)]
    pub token_url: Option<String>,
    /// The client that the catalogue is there.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Its secret, in a file that only its owner can read.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Instead of an issuer: a file with one token for all services.
    #[serde(default)]
    pub file: Option<PathBuf>,
}

impl TokensConfig {
    /// Its paths, for [`weir_service::config::Configuration::paths`].
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.secret_file.iter_mut().chain(&mut self.file)
    }

    /// Its problems.
    pub fn check(&self) -> Vec<Invalid> {
        let whole = [
            self.token_url.is_some(),
            self.client_id.is_some(),
            self.secret_file.is_some(),
        ];
        let mut invalid = Vec::new();
        if whole.contains(&true) && (whole.contains(&false) || self.file.is_some()) {
            invalid.push(Invalid::new(
                "tokens",
                "neither an issuer nor a file is named whole",
                "set token_url, client_id and secret_file, or file alone",
            ));
        }
        if let Some(url) = self.token_url.as_ref().filter(|url| !keeps_secrets(url)) {
            let problem = format!("the client's secret would go to {url} unencrypted");
            invalid.push(Invalid::new(
                "tokens.token_url",
                problem,
                "name a URL that begins with https://",
            ));
        }
        if let Some(path) = &self.secret_file {
            match std::fs::metadata(path) {
                Err(error) => {
                    let problem = format!("{} could not be read: {error}", path.display());
                    invalid.push(Invalid::new(
                        "tokens.secret_file",
                        problem,
                        "name a file that holds the secret",
                    ));
                }
                Ok(about) if about.permissions().mode() & 0o077 != 0 => {
                    let problem = format!(
                        "the mode of {} is {:04o}",
                        path.display(),
                        about.permissions().mode() & 0o777
                    );
                    let remedy = "make it 0600, and replace the secret if others read it";
                    invalid.push(Invalid::new("tokens.secret_file", problem, remedy));
                }
                Ok(_) => {}
            }
        }
        invalid
    }
}

/// Whether a token or a secret may be sent to this URL: over TLS, or to this machine.
pub(crate) fn keeps_secrets(url: &str) -> bool {
    let url = url.parse::<http::Uri>().unwrap_or_default();
    match (url.scheme_str(), url.host()) {
        (Some("https"), Some(_)) => true,
        (Some("http"), Some(host)) => weir_http::is_loopback_host(host),
        _ => false,
    }
}

/// The scope of tokens for a transfer service, as Rucio asks for it.
const FTS_SCOPE: &str = "fts";

/// Tokens for requests. Clones share their cache.
#[derive(Debug, Clone)]
pub struct Credentials(Option<TokenSource>);

impl Credentials {
    /// As the configuration says. Without an issuer and a file there are no tokens.
    ///
    /// # Errors
    /// The secret cannot be read.
    pub fn new(config: &TokensConfig, client: &Client) -> Result<Self, TokenError> {
        let source = match (&config.token_url, &config.client_id, &config.secret_file, &config.file) {
            (Some(url), Some(id), Some(path), _) => {
                let secret = Secret::read(path).map_err(|source| TokenError::File {
                    path: path.clone(),
                    source: source.into(),
                })?;
                Some(TokenSource::client_credentials(
                    client.clone(),
                    url.clone(),
                    id,
                    &secret,
                ))
            }
            (.., Some(file)) => Some(TokenSource::file(file)),
            _ => None,
        };
        Ok(Self(source))
    }

    /// Returns the source of tokens for the transfer service at this URL; `None` if the configuration names no source.
    /// The audience of the tokens is the host of the URL, as in Rucio's requests.
    pub fn of_fts(&self, url: &str) -> Option<Bearer> {
        self.0.clone().map(|source| Bearer {
            source,
            audience: host(url).to_owned(),
            scope: FTS_SCOPE.to_owned(),
        })
    }

    /// A token with these scopes for this audience.
    ///
    /// # Errors
    /// [`TokenError`].
    pub async fn token_for(&self, scopes: &str, audience: &str) -> Result<Option<Secret>, TokenError> {
        let Some(source) = &self.0 else { return Ok(None) };
        source.token(scopes, audience).await.map(Some)
    }

    /// A token for files of an RSE, reached by this protocol. Its audience is the RSE's attribute `audience`, else the host; the scopes are those
    /// of the protocol's folder, without the RSE's attribute `oidc_base_path`.
    ///
    /// # Errors
    /// [`TokenError`].
    pub async fn to_storage(
        &self,
        site: &Site,
        protocol: &Protocol,
        rights: &[&str],
    ) -> Result<Option<Secret>, TokenError> {
        let attributes = &site.described.attributes;
        let audience = attributes.get("audience").unwrap_or(&protocol.endpoint.hostname);
        let base = attributes.get("oidc_base_path").map_or("", String::as_str);
        let path = protocol.prefix.strip_prefix(base).unwrap_or(&protocol.prefix);
        let path = format!("/{}", path.trim_matches('/'));
        let scopes = rights.iter().map(|right| format!("{right}:{path}")).collect::<Vec<_>>();
        self.token_for(&scopes.join(" "), audience).await
    }
}

/// The host of a URL, without its port.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audience_is_the_host() {
        assert_eq!(host("https://fts.example.org:8446"), "fts.example.org");
        assert_eq!(host("davs://[::1]:8443/data"), "[::1]");
        assert_eq!(host("https://se.example.org/a:1"), "se.example.org");
    }

    #[test]
    fn half_an_issuer_is_refused() {
        let half = TokensConfig {
            token_url: Some("https://iam.example.org/token".into()),
            ..TokensConfig::default()
        };
        assert_eq!(half.check().len(), 1);
        assert!(TokensConfig::default().check().is_empty());
    }

    #[test]
    fn tokens_are_sent_encrypted_or_to_this_machine() {
        for url in [
            "https://fts.example.org:8446",
            "http://127.0.0.1:8446",
            "http://[::1]:1/x",
            "http://localhost:1",
        ] {
            assert!(keeps_secrets(url), "{url}");
        }
        for url in [
            "http://fts.example.org",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org/token",
            "http://127.0.0.1@fts.example.org",
            "https://",
            "fts.example.org",
        ] {
            assert!(!keeps_secrets(url), "{url}");
        }
    }

    #[test]
    fn a_configuration_that_sends_a_secret_in_the_clear_is_refused() {
        let tokens = TokensConfig {
            token_url: Some("http://iam.example.org/token".to_owned()),
            ..TokensConfig::default()
        };
        assert!(tokens.check().iter().any(|invalid| invalid.key == "tokens.token_url"));
    }
}
