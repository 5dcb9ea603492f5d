//! The accepted callers and their rights: exchanged as a whole when the configuration is reloaded.

use std::{collections::BTreeMap, sync::Arc};

use weir_auth::{TrustedIssuer, Verifier, VerifierConfig};
use weir_http::{Client, Network};
use weir_transfer::config::{AdminConfig, Level, TransferConfig};

use crate::access::certificates::Certificates;

pub(crate) struct Callers {
    pub(crate) verifier: Verifier,
    pub(crate) required_scope: Option<String>,
    /// VO by issuer.
    pub(crate) vos: BTreeMap<String, String>,
    pub(crate) admins: Vec<AdminConfig>,
    pub(crate) user_level: Level,
    /// Networks that may read metrics without a token.
    pub(crate) metrics_allow: Vec<Network>,
    /// Accepted client certificates, if any.
    pub(crate) certificates: Option<Arc<Certificates>>,
}

impl Callers {
    /// As the configuration has them, of a service at this URL. Keys of issuers that were known before are known on.
    pub(crate) fn new(
        config: &TransferConfig,
        url: &str,
        client: Client,
        certificates: Option<Arc<Certificates>>,
        before: Option<&Self>,
    ) -> Self {
        let verifying = verifying(config, url);
        let vos = config.issuers.iter();
        Self {
            verifier: match before {
                Some(before) => before.verifier.succeeded_by(verifying, client),
                None => Verifier::new(verifying, client),
            },
            required_scope: config.required_scope.clone(),
            vos: vos.map(|issuer| (issuer.url.clone(), issuer.vo.clone())).collect(),
            admins: config.admins.clone(),
            user_level: config.user_level,
            metrics_allow: config.metrics_allow.clone(),
            certificates,
        }
    }
}

fn verifying(config: &TransferConfig, url: &str) -> VerifierConfig {
    let mut audiences = vec![url.to_owned(), format!("{}/", url.trim_end_matches('/'))];
    audiences.extend(config.audiences.iter().cloned());
    let issuers = config.issuers.iter();
    VerifierConfig {
        issuers: issuers.map(|issuer| TrustedIssuer::new(issuer.url.clone())).collect(),
        audiences,
        any_audience: config.any_audience,
        ..VerifierConfig::default()
    }
}
