//! Issuers, and how tokens are renewed.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_auth::Secret;

use weir_service::config::Invalid;

/// An accepted token issuer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerConfig {
    /// As tokens write it in `iss`, character by character.
    pub url: String,
    /// The VO that its users belong to.
    pub vo: String,
    /// The client id of this service at the issuer, for fresh tokens. Default: none is requested, and tokens are used
    /// as they are.
    #[serde(default)]
    pub client_id: Option<String>,
    /// The secret of that client, in a file that only its owner can read.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
}

impl IssuerConfig {
    /// An issuer that is not asked for fresh tokens.
    pub fn new(url: impl Into<String>, vo: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            vo: vo.into(),
            ..Self::default()
        }
    }

    /// The first problem of this table, if it has one.
    pub fn problem(&self) -> Option<&'static str> {
        match (&self.client_id, &self.secret_file) {
            (Some(id), _) if id.is_empty() => Some("client_id is empty"),
            (Some(_), None) => Some("client_id needs a secret_file"),
            (None, Some(_)) => Some("secret_file needs a client_id"),
            _ => None,
        }
    }

    /// Client and secret, if there are any.
    ///
    /// # Errors
    /// If the file cannot be read, or others than its owner may: a secret that was open must be replaced, not used.
    pub fn credentials(&self) -> Result<Option<(String, Secret)>, Invalid> {
        let (Some(id), Some(path)) = (&self.client_id, &self.secret_file) else {
            return Ok(None);
        };
        let read = |path: &Path| -> std::io::Result<(u32, Secret)> {
            let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
            Ok((mode, Secret::read(path)?))
        };
        let (mode, secret) = read(path).map_err(|error| {
            let problem = format!("{} could not be read: {error}", path.display());
            Invalid::new("issuer.secret_file", problem, "name a file that holds the secret")
        })?;
        if mode & 0o077 != 0 {
            let problem = format!("the mode of {} is {mode:04o}", path.display());
            let remedy = "make it 0600, and replace the secret if others read it";
            return Err(Invalid::new("issuer.secret_file", problem, remedy));
        }
        Ok(Some((id.clone(), secret)))
    }
}

/// A program that submits jobs with tokens that were issued to others, and has them renewed: Rucio, DIRAC. It is named by a token's
/// issuer and subject, or by a certificate's name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokerConfig {
    /// `iss` of the token that it submits with, one of the `[[issuer]]`s.
    #[serde(default)]
    pub issuer: Option<String>,
    /// `sub` of that token.
    #[serde(default)]
    pub subject: Option<String>,
    /// The name of its certificate: `/DC=ch/DC=cern/CN=Robot: Rucio`.
    #[serde(default)]
    pub dn: Option<String>,
}

impl BrokerConfig {
    /// A broker that submits with tokens.
    pub fn by_token(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            issuer: Some(issuer.into()),
            subject: Some(subject.into()),
            dn: None,
        }
    }

    /// The first problem of this table beside these issuers, if it has one.
    pub fn problem(&self, issuers: &[IssuerConfig]) -> Option<&'static str> {
        match (&self.issuer, &self.subject, &self.dn) {
            (Some(url), Some(_), None) if issuers.iter().any(|issuer| issuer.url == *url) => None,
            (Some(_), Some(_), None) => Some("the issuer of a [[broker]] is none of the [[issuer]]s"),
            (None, None, Some(_)) => None,
            _ => Some("a [[broker]] needs either issuer and subject (of its token) or a dn (of its certificate)"),
        }
    }
}

/// How tokens are renewed, of issuers with a `client_id`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokensConfig {
    /// A token that lives no longer than this is renewed before it is used. FTS3: 300 s.
    #[serde(with = "weir_units::duration")]
    pub refresh_margin: Duration,
    /// A token that still waits is exchanged so long before it expires, or at half its life if that is later.
    #[serde(with = "weir_units::duration")]
    pub exchange_ahead: Duration,
    /// Requests to one issuer at once.
    pub requests: usize,
    /// Limit for one request.
    #[serde(with = "weir_units::duration")]
    pub request_timeout: Duration,
    /// Pause after a failed request to an issuer. Transfers that need it wait until the next try.
    #[serde(with = "weir_units::duration")]
    pub issuer_pause: Duration,
}

impl Default for TokensConfig {
    fn default() -> Self {
        Self {
            refresh_margin: Duration::from_secs(300),
            exchange_ahead: Duration::from_secs(3600),
            requests: 8,
            request_timeout: Duration::from_secs(10),
            issuer_pause: Duration::from_secs(30),
        }
    }
}

impl TokensConfig {
    /// The problems of this table.
    pub fn problems(&self) -> Vec<&'static str> {
        // Requests would fail, and waiting transfers and the search for expiring tokens would retry all the time.
        let short = |time: Duration| time < Duration::from_secs(1);
        let checks = [
            (self.requests == 0 || self.requests > 1000, "requests is from 1 to 1000"),
            (short(self.issuer_pause), "issuer_pause is 1s or more"),
            (short(self.request_timeout), "request_timeout is 1s or more"),
            (short(self.exchange_ahead), "exchange_ahead is 1s or more"),
        ];
        checks
            .into_iter()
            .filter(|(wrong, _)| *wrong)
            .map(|(_, why)| why)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, "hush\n").unwrap();
        let issuer = IssuerConfig {
            client_id: Some("fts".into()),
            secret_file: Some(path.clone()),
            ..IssuerConfig::new("https://i", "vo")
        };
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let error = issuer.credentials().unwrap_err().to_string();
        assert!(error.contains("0640") && !error.contains("hush"), "{error}");
        mode(0o600);
        assert_eq!(issuer.credentials().unwrap().unwrap().1.expose(), "hush");
        assert!(IssuerConfig::new("https://i", "vo").credentials().unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(issuer.credentials().is_err());
    }
}
