//! `weir serve transfer --check`: checks the surroundings of a transfer service's configuration. Nothing is made or
//! changed.

use weir_service::check::{Check, Surroundings, parent};
use weir_transfer::config::TransferConfig;

use super::database;
use super::files::{own_key, x509};

/// Looks at everything that the configuration names.
pub(super) async fn check(config: &TransferConfig) -> Vec<Check> {
    let mut checks = surroundings(config).check().await;
    if let Some(store) = &config.store {
        checks.push(Check::new("store", parent(store)));
    }
    if let Some(server) = &config.postgres {
        checks.push(database::postgres(server.address("weir-transfer"), server.trust(config.trust.roots())).await);
    }
    checks.extend(config.key_file.iter().map(|key| own_key("key_file", key)));
    if let Some(events) = &config.events {
        checks.push(Check::new("events.spool", parent(&events.spool)));
    }
    checks.extend(config.x509.iter().map(x509));
    checks
}

/// The parts of the service's configuration that the common checks read.
pub(super) fn surroundings(config: &TransferConfig) -> Surroundings<'_> {
    Surroundings {
        listen: config.listen,
        url: config.url.as_deref(),
        tls: config.tls.as_ref(),
        trust: Some(&config.trust),
        issuers: config.issuers.iter().map(|issuer| issuer.url.as_str()).collect(),
    }
}
