//! What a transfer service of a configuration would find: `weir serve transfer --check`. Nothing is made or changed.

use std::time::SystemTime;

use weir_auth::x509::Door;
use weir_http::TrustRoots;
use weir_service::check::{Check, Outcome, Surroundings, parent, secret};
use weir_transfer::config::{PostgresConfig, TransferConfig};

use super::database;

/// Looks at everything that the configuration names.
pub(super) async fn check(config: &TransferConfig) -> Vec<Check> {
    let mut checks = surroundings(config).check().await;
    if let Some(store) = &config.store {
        checks.push(Check::new("store", parent(store)));
    }
    if let Some(server) = &config.postgres {
        checks.push(database::postgres(server.address(), trust(server, config)).await);
    }
    if let Some(key) = &config.key_file {
        checks.push(Check::new(
            "key_file",
            if key.exists() { secret(key) } else { parent(key) },
        ));
    }
    if let Some(events) = &config.events {
        checks.push(Check::new("events.spool", parent(&events.spool)));
    }
    if let Some(x509) = &config.x509 {
        let outcome = match Door::open(x509, SystemTime::now()) {
            Ok(_) => Outcome::ok("authorities and grid-mapfile can be read"),
            Err(error) => Outcome::failed(
                weir_auth::error_chain(&error),
                "correct [x509], or install what it names",
            ),
        };
        checks.push(Check::new("x509", outcome));
    }
    checks
}

/// What the service has around it.
pub(super) fn surroundings(config: &TransferConfig) -> Surroundings<'_> {
    Surroundings {
        listen: config.listen,
        url: config.url.as_deref(),
        tls: config.tls.as_ref(),
        trust: Some(&config.trust),
        issuers: config.issuers.iter().map(|issuer| issuer.url.as_str()).collect(),
    }
}

/// The authorities that the server's certificate is checked against.
fn trust(server: &PostgresConfig, config: &TransferConfig) -> TrustRoots {
    if server.authorities.is_empty() {
        return config.trust.roots();
    }
    TrustRoots {
        files: server.authorities.clone(),
        directories: Vec::new(),
    }
}
