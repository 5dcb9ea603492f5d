//! Token exchange and refresh.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use weir_auth::client::{Grants, Wanted};
use weir_auth::verifier::token_endpoint;
use weir_auth::{Operation, Secret, StoragePath, authorize};
use weir_issuer::{Client, Issuer, IssuerConfig};

use super::{AUDIENCE, FORM, SECRET, World, config, world_with};

fn service(exchange: bool) -> impl FnOnce(&mut IssuerConfig) {
    move |config| {
        let mut service = Client::with_secret(
            "fts",
            &Secret::new(SECRET),
            &["storage.read:/", "storage.modify:/data"],
            &["*"],
        );
        service.exchange = exchange;
        config.clients.push(service);
    }
}

impl World {
    async fn grants(&self) -> Grants {
        let url = token_endpoint(&self.http, self.issuer.url()).await.unwrap();
        assert_eq!(url, self.issuer.token_url());
        Grants::new(
            self.http.clone(),
            url,
            ("fts", &Secret::new(SECRET)),
            Duration::from_secs(30),
        )
    }
}

fn wanted(scope: &str) -> Wanted {
    Wanted {
        scope: scope.to_owned(),
        audience: AUDIENCE.to_owned(),
    }
}

#[tokio::test]
async fn a_service_goes_on_in_the_name_of_its_users() {
    // Transfers that wait for longer than a token lives would all fail.
    let world = world_with(service(true));
    let grants = world.grants().await;
    let first = grants
        .exchange(&world.fresh().await, &wanted("storage.read:/a"))
        .await
        .unwrap();
    let refresh = first.refresh.unwrap();
    let again = grants.refresh(&refresh, &wanted("storage.read:/a/b")).await.unwrap();
    assert!(again.refresh.is_none(), "the one that was shown stays good");
    let token = again.access.unwrap();
    assert_ne!(first.access.unwrap(), token);
    let verified = world
        .verifier()
        .verify(token.expose(), SystemTime::now())
        .await
        .unwrap();
    assert_eq!(
        (verified.subject.as_str(), verified.client_id.as_deref()),
        ("grid", Some("fts"))
    );
    assert!(
        authorize(
            &verified,
            Operation::Read,
            &StoragePath::from_url_path("/a/b/f").unwrap()
        )
        .is_ok()
    );
    assert!(authorize(&verified, Operation::Read, &StoragePath::from_url_path("/a/f").unwrap()).is_err());
    // The first grant is the most that there is.
    let wider = grants.refresh(&refresh, &wanted("storage.read:/")).await.unwrap_err();
    assert_eq!(wider.code(), Some("invalid_scope"), "{wider}");
    assert!(
        world
            .verifier()
            .verify(refresh.expose(), SystemTime::now())
            .await
            .is_err()
    );
    let (_, _, discovery) = world.get("/.well-known/openid-configuration").await;
    assert_eq!(discovery["grant_types_supported"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_token_that_is_not_meant_to_be_renewed_is_not_exchanged() {
    // Each storage that sees a token would be one service's secret away from weeks of it.
    let world = world_with(service(true));
    let grants = world.grants().await;
    let online = world.token("storage.read:/a").await;
    let error = grants.exchange(&online, &wanted("storage.read:/a")).await.unwrap_err();
    assert!(
        error.code() == Some("invalid_request") && error.to_string().contains("offline_access"),
        "{error}"
    );
    // Nor is one that came of an exchange, though a refresh token was asked for with it.
    let granted = grants
        .exchange(&world.fresh().await, &wanted("storage.read:/a"))
        .await
        .unwrap();
    let again = grants
        .refresh(&granted.refresh.unwrap(), &wanted("storage.read:/a"))
        .await
        .unwrap();
    for token in [granted.access.unwrap(), again.access.unwrap()] {
        let error = grants.exchange(&token, &wanted("storage.read:/a")).await.unwrap_err();
        assert!(error.to_string().contains("offline_access"), "{error}");
    }
}

#[tokio::test]
async fn a_chain_of_exchanges_ends_after_one_refresh_lifetime() {
    let chained = |config: &mut IssuerConfig| {
        service(true)(config);
        config.clients.last_mut().unwrap().scopes.push("offline_access".into());
        (config.token_lifetime, config.refresh_lifetime) = (Duration::from_secs(5), Duration::from_secs(5));
    };
    let world = world_with(chained);
    let grants = world.grants().await;
    let first = SystemTime::now();
    let mut token = world.fresh().await;
    let (mut links, mut refresh) = (0, None);
    // Each token is shown while it lives; each would give five seconds more.
    let error = loop {
        match grants.exchange(&token, &wanted("storage.read:/a offline_access")).await {
            Ok(granted) => (token, refresh) = (granted.access.unwrap(), granted.refresh),
            Err(error) => break error,
        }
        links += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(
            first.elapsed().unwrap() < Duration::from_secs(60),
            "the chain has no end"
        );
    };
    assert!(links > 1 && error.to_string().contains("expired"), "{links}: {error}");
    let error = grants
        .refresh(&refresh.unwrap(), &wanted("storage.read:/a"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some("invalid_grant"), "{error}");
}

#[tokio::test]
async fn a_refresh_token_outlives_the_issuer_and_its_keys() {
    let world = world_with(service(true));
    let grants = world.grants().await;
    let granted = grants
        .exchange(&world.fresh().await, &wanted("storage.read:/a"))
        .await
        .unwrap();
    let address = world.issuer.address().to_string();
    world.issuer.rotate().unwrap();
    world.issuer.rotate().unwrap();
    world.issuer.shutdown().await;
    let mut config = config(world.dir.path(), &address);
    service(true)(&mut config);
    let issuer = Issuer::start(&config, &world.identity).unwrap();
    let again = grants
        .refresh(&granted.refresh.unwrap(), &wanted("storage.read:/a"))
        .await;
    assert!(again.unwrap().access.is_some());
    issuer.shutdown().await;
}

#[tokio::test]
async fn a_client_without_the_right_to_exchange_gets_nothing() {
    // Every program with a secret could make itself anybody.
    let world = world_with(service(false));
    let grants = world.grants().await;
    let token = world.fresh().await;
    let error = grants.exchange(&token, &wanted("storage.read:/a")).await.unwrap_err();
    assert_eq!(error.code(), Some("unauthorized_client"), "{error}");
    let error = grants.refresh(&token, &wanted("storage.read:/a")).await.unwrap_err();
    assert_eq!(error.code(), Some("unauthorized_client"), "{error}");
    let nobody = format!("grant_type=refresh_token&refresh_token={}", token.expose());
    let (status, _, _) = world.post(FORM, nobody).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}
