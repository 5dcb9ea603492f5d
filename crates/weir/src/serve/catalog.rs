//! `weir serve catalog --check`: checks the surroundings of a catalogue's configuration. Nothing is made or changed.

use std::time::{Duration, SystemTime};

use http::{Method, Request};
use weir_catalog::CatalogConfig;
use weir_http::{Client, body};
use weir_service::check::{Check, Outcome, Surroundings, identity, parent, secret, trust};

use super::database;

/// Time for a service to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks at everything that the configuration names.
pub(super) async fn check(config: &CatalogConfig) -> Vec<Check> {
    let mut checks = surroundings(config).check().await;
    if let Some(store) = &config.store {
        checks.push(Check::new("store", parent(store)));
    }
    if let Some(server) = &config.postgres {
        checks.push(database::postgres(server.address("weir-catalog"), server.trust(config.trust.roots())).await);
    }
    checks.push(Check::new("root.password_file", secret(&config.root.password_file)));
    for (name, file) in [
        ("tokens.secret_file", &config.tokens.secret_file),
        ("tokens.file", &config.tokens.file),
    ] {
        checks.extend(file.as_ref().map(|file| Check::new(name, secret(file))));
    }
    if let Some(own) = &config.identity {
        let of_identity = identity(own, None, SystemTime::now());
        checks.extend(
            of_identity
                .into_iter()
                .map(|check| Check::new(format!("identity {}", check.name), check.outcome)),
        );
    }
    if let (_, Some(client)) = trust(&config.trust) {
        for url in &config.transfers.services {
            checks.push(service(&client, url).await);
        }
    }
    checks
}

/// The parts of the catalogue's configuration that the common checks read.
pub(super) fn surroundings(config: &CatalogConfig) -> Surroundings<'_> {
    let issuers = config.oidc.iter().flat_map(|oidc| &oidc.issuers);
    Surroundings {
        listen: config.listen,
        url: config.url.as_deref(),
        tls: config.tls.as_ref(),
        trust: Some(&config.trust),
        issuers: issuers.map(String::as_str).collect(),
    }
}

async fn service(client: &Client, url: &str) -> Check {
    let tried = async {
        let request = Request::builder()
            .method(Method::GET)
            .uri(format!("{}/", url.trim_end_matches('/')))
            .body(body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client.send_within(request, PATIENCE).await;
        answer.map_err(|error| weir_auth::error_chain(&error))
    };
    Check::of(format!("transfer service {url}"), async {
        match tried.await {
            Ok(answer) => Outcome::ok(format!("answers with {}", answer.status())),
            Err(cause) => Outcome::failed(cause, "see that it runs, and that [trust] vouches for its certificate"),
        }
    })
    .await
}
