//! The identities that the door takes beside passwords: tokens of trusted issuers, and client certificates.

use std::{path::PathBuf, sync::Arc, time::SystemTime};

use serde::{Deserialize, Serialize};
use weir_auth::{
    TrustedIssuer, Verifier, VerifierConfig,
    x509::{ClientCertificates, ClientCertificatesConfig, X509Error},
};
use weir_http::{ChainCheck, Client};

/// Tokens as logins.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// Accepted issuers: `iss`, character by character.
    pub issuers: Vec<String>,
    /// Names of this catalogue in `aud`, beside its URL. Default: none.
    #[serde(default)]
    pub audiences: Vec<String>,
}

/// Client certificates as logins.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct X509Config {
    /// The directory of authorities, such as `/etc/grid-security/certificates`.
    pub authorities: PathBuf,
}

/// The identities that are taken.
#[derive(Debug, Clone, Default)]
pub struct Logins {
    /// Verifies tokens. `None`: none are taken.
    pub tokens: Option<Verifier>,
    /// Verifies client certificates. `None`: none are asked for.
    pub certificates: Option<ClientCertificates>,
}

impl Logins {
    /// As the configuration says, of a catalogue at this URL.
    ///
    /// # Errors
    /// The directory of authorities cannot be read.
    pub fn new(
        (oidc, x509): (Option<&OidcConfig>, Option<&X509Config>),
        url: &str,
        client: &Client,
    ) -> Result<Self, X509Error> {
        let verifier = |oidc: &OidcConfig| {
            let own = url.trim_end_matches('/');
            let mut audiences = vec![own.to_owned(), format!("{own}/")];
            audiences.extend(oidc.audiences.iter().cloned());
            let config = VerifierConfig {
                issuers: oidc.issuers.iter().map(|url| TrustedIssuer::new(url.clone())).collect(),
                audiences,
                any_audience: false,
                ..VerifierConfig::default()
            };
            Verifier::new(config, client.clone())
        };
        let certificates = |x509: &X509Config| {
            ClientCertificates::open(ClientCertificatesConfig::new(&x509.authorities), SystemTime::now())
        };
        Ok(Self {
            tokens: oidc.map(verifier),
            certificates: x509.map(certificates).transpose()?,
        })
    }

    /// Has the door ask clients for certificates.
    pub(crate) fn check(&self) -> Option<Arc<dyn ChainCheck>> {
        let clients = self.certificates.clone()?;
        Some(Arc::new(clients))
    }
}

/// The identity of a token's subject, as Rucio writes it.
pub fn of_token(subject: &str, issuer: &str) -> String {
    format!("SUB={subject}, ISS={issuer}")
}
