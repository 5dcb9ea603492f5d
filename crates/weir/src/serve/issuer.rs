//! `weir serve issuer --check`: checks the surroundings of an issuer's configuration. Nothing is made or changed.

use weir_issuer::IssuerConfig;
use weir_service::check::{Check, Surroundings, folder, parent, secret};

/// Looks at everything that the configuration names.
pub(super) async fn check(config: &IssuerConfig) -> Vec<Check> {
    let mut checks = surroundings(config).check().await;
    let keys = &config.key_directory;
    let outcome = if keys.exists() {
        folder(keys, "make the directory")
    } else {
        parent(keys)
    };
    checks.push(Check::new("key_directory", outcome));
    for client in &config.clients {
        if let Some(file) = &client.secret_file {
            checks.push(Check::new(format!("secret of client {}", client.id), secret(file)));
        }
    }
    checks
}

/// The parts of the issuer's configuration that the common checks read.
pub(super) fn surroundings(config: &IssuerConfig) -> Surroundings<'_> {
    Surroundings {
        listen: config.listen,
        url: config.url.as_deref(),
        tls: config.tls.as_ref(),
        trust: None,
        issuers: Vec::new(),
    }
}
