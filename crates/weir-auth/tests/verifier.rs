//! The verifier against an issuer that is a table of documents: outages, rotation, foreign and hostile tokens.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_auth::signing::{SigningKey, jwks, key_set};
use weir_auth::verifier::{Fetch, FetchError, FetchFuture, KeyOrigin, KeyTiming};
use weir_auth::{AuthError, Secret, StoragePath, TrustedIssuer, Verifier, VerifierConfig};

const ISSUER: &str = "https://issuer.example/vo";
const AUDIENCE: &str = "https://storage.example:8443";
const HOUR: Duration = Duration::from_secs(3600);

/// The documents that exist, by URL, and how often any was asked for.
#[derive(Debug, Default)]
struct Web {
    documents: Mutex<BTreeMap<String, String>>,
    requests: AtomicUsize,
}

impl Fetch for Web {
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> FetchFuture<'a> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let found = self.documents.lock().get(url).cloned();
        Box::pin(async move {
            // Others get their turn while a real request would be under way.
            tokio::task::yield_now().await;
            match found {
                Some(text) if text == "hangs" => std::future::pending().await,
                Some(text) if text == "down" => Err(FetchError::Failed("could not connect".to_owned())),
                Some(text) => Ok(text.into_bytes().into_iter().take(limit).collect()),
                None => Err(FetchError::NotFound(url.to_owned())),
            }
        })
    }
}

impl Web {
    fn set(&self, url: &str, text: impl Into<String>) {
        self.documents.lock().insert(url.to_owned(), text.into());
    }

    fn publish(&self, keys: &[&SigningKey]) {
        let document = json!({ "issuer": ISSUER, "jwks_uri": "https://issuer.example/jwks" });
        self.set(
            "https://issuer.example/vo/.well-known/openid-configuration",
            document.to_string(),
        );
        self.set("https://issuer.example/jwks", jwks(keys.iter().copied()).to_string());
    }

    fn take_down(&self) {
        self.documents
            .lock()
            .values_mut()
            .for_each(|text| "down".clone_into(text));
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

struct World {
    web: Arc<Web>,
    key: SigningKey,
    verifier: Verifier,
    now: SystemTime,
}

fn config(unknown_key: Duration) -> VerifierConfig {
    VerifierConfig {
        issuers: vec![TrustedIssuer::new(ISSUER)],
        audiences: vec![AUDIENCE.to_owned()],
        timing: KeyTiming {
            unknown_key,
            ..KeyTiming::default()
        },
        ..VerifierConfig::default()
    }
}

fn world(unknown_key: Duration) -> World {
    let web = Arc::new(Web::default());
    let key = SigningKey::generate().unwrap();
    web.publish(&[&key]);
    let fetch: Arc<dyn Fetch> = web.clone();
    World {
        verifier: Verifier::with_fetch(config(unknown_key), &fetch),
        web,
        key,
        now: SystemTime::now(),
    }
}

fn claims(now: SystemTime) -> Value {
    let now = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({
        "iss": ISSUER, "sub": "someone", "aud": AUDIENCE, "jti": "1", "iat": now, "nbf": now,
        "exp": now + 30 * 86_400, "wlcg.ver": "1.0", "scope": "storage.read:/a",
    })
}

impl World {
    fn sign(&self, key: &SigningKey, change: impl FnOnce(&mut Value)) -> Secret {
        let mut claims = claims(self.now);
        change(&mut claims);
        key.sign(&claims).unwrap()
    }

    fn token(&self) -> Secret {
        self.sign(&self.key, |_| {})
    }

    async fn verify(&self, token: &Secret, later: Duration) -> Result<(), AuthError> {
        self.verifier.verify(token.expose(), self.now + later).await.map(|_| ())
    }
}

#[tokio::test]
async fn keys_are_fetched_once_and_verified_tokens_remembered() {
    // Every request would cost one to the issuer.
    let world = world(Duration::ZERO);
    for number in 0..100 {
        let token = world.sign(&world.key, |claims| claims["jti"] = json!((number % 10).to_string()));
        world.verify(&token, Duration::ZERO).await.unwrap();
    }
    assert_eq!(world.web.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_hangs_holds_up_no_other() {
    // The first issuer of the configuration would decide when all others' users are let in.
    const HANGS: &str = "https://hangs.example";
    let world = world(Duration::ZERO);
    for document in ["openid-configuration", "oauth-authorization-server"] {
        world.web.set(&format!("{HANGS}/.well-known/{document}"), "hangs");
    }
    let config = VerifierConfig {
        issuers: vec![TrustedIssuer::new(HANGS), TrustedIssuer::new(ISSUER)],
        ..config(Duration::ZERO)
    };
    let fetch: Arc<dyn Fetch> = world.web.clone();
    let verifier = Verifier::with_fetch(config, &fetch);
    let warmed = tokio::time::timeout(Duration::from_secs(1), verifier.warm(world.now)).await;
    assert!(warmed.is_err(), "{warmed:?}");
    assert_eq!(verifier.without_keys(world.now), [HANGS]);
}

#[tokio::test]
async fn tokens_of_strangers_cause_no_request() {
    // Anybody could make us knock at any door.
    let world = world(Duration::ZERO);
    for issuer in [
        "https://evil.example",
        "https://issuer.example/vo/",
        "https://issuer.example",
        "http://issuer.example/vo",
    ] {
        let token = world.sign(&world.key, |claims| claims["iss"] = json!(issuer));
        let error = world.verify(&token, Duration::ZERO).await.unwrap_err();
        assert_eq!(error, AuthError::UnknownIssuer(issuer.to_owned()));
    }
    assert_eq!(world.web.requests(), 0);
}

#[tokio::test]
async fn hostile_tokens_are_refused_with_401() {
    // A forged, changed or foreign token would be let in.
    let world = world(Duration::ZERO);
    let other = SigningKey::generate().unwrap();
    let good = world.token();
    let (head, rest) = good.expose().split_once('.').unwrap();
    let (body, _) = rest.split_once('.').unwrap();
    let cut = Secret::new(format!("{head}.{body}."));
    for (name, token) in [
        ("of another key", world.sign(&other, |_| {})),
        ("without signature", cut),
        ("no token", Secret::new("no token")),
        ("expired", world.sign(&world.key, |claims| claims["exp"] = json!(1))),
        (
            "of tomorrow",
            world.sign(&world.key, |claims| {
                claims["nbf"] = json!(claims["nbf"].as_u64().unwrap() + 86_400);
            }),
        ),
        (
            "for another",
            world.sign(&world.key, |claims| claims["aud"] = json!("https://other.example")),
        ),
        (
            "of version 2",
            world.sign(&world.key, |claims| claims["wlcg.ver"] = json!("2.0")),
        ),
        (
            "with a bare scope",
            world.sign(&world.key, |claims| claims["scope"] = json!("storage.read")),
        ),
        (
            "with a climbing scope",
            world.sign(&world.key, |claims| claims["scope"] = json!("storage.read:/a/../b")),
        ),
    ] {
        let error = world.verify(&token, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.status(), 401, "{name}: {error}");
        let challenge = error.www_authenticate().unwrap();
        assert!(
            challenge.starts_with("Bearer error=\"invalid_token\"") && challenge.is_ascii(),
            "{challenge}"
        );
        assert!(
            !format!("{error:?}{error}{challenge}").contains(body),
            "{name} shows the token"
        );
    }
    world.verify(&good, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_new_key_is_found_and_a_withdrawn_one_forgotten() {
    // After a rotation good tokens would be refused, or those of a stolen key taken.
    let world = world(Duration::ZERO);
    let old = world.token();
    world.verify(&old, Duration::ZERO).await.unwrap();
    let next = SigningKey::generate().unwrap();
    world.web.publish(&[&next]);
    world.verify(&old, Duration::ZERO).await.unwrap();
    world.verify(&world.sign(&next, |_| {}), Duration::ZERO).await.unwrap();
    let error = world.verify(&old, Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, AuthError::UnknownKey { .. }), "{error}");
}

#[tokio::test]
async fn a_new_key_under_an_old_name_is_found() {
    // An issuer that was set up anew would be unusable for hours.
    let world = world(Duration::ZERO);
    world.verify(&world.token(), Duration::ZERO).await.unwrap();
    let next = SigningKey::generate().unwrap().with_id(world.key.id());
    world.web.publish(&[&next]);
    world.verify(&world.sign(&next, |_| {}), Duration::ZERO).await.unwrap();
    // The old key's tokens are forgotten, also those that were remembered.
    for _ in 0..2 {
        assert_eq!(
            world.verify(&world.token(), Duration::ZERO).await,
            Err(AuthError::Signature)
        );
    }
}

#[tokio::test]
async fn unknown_keys_cause_few_requests() {
    // A flood of forged tokens would become one on the issuer.
    let world = world(HOUR);
    world.verify(&world.token(), Duration::ZERO).await.unwrap();
    let before = world.web.requests();
    let verifier = &world.verifier;
    let forged: Vec<_> = (0..50)
        .map(|_| world.sign(&SigningKey::generate().unwrap(), |_| {}))
        .collect();
    for token in &forged {
        let error = verifier.verify(token.expose(), world.now).await.unwrap_err();
        assert!(matches!(error, AuthError::UnknownKey { .. }), "{error}");
    }
    assert_eq!(world.web.requests(), before);
}

#[tokio::test]
async fn many_that_wait_for_keys_share_one_request() {
    // The start of a service would be a flood on the issuer.
    let world = world(Duration::ZERO);
    let tasks: Vec<_> = (0..200)
        .map(|number: i32| {
            let token = world.sign(&world.key, |claims| claims["jti"] = json!(number.to_string()));
            let (verifier, now) = (world.verifier.clone(), world.now);
            tokio::spawn(async move { verifier.verify(token.expose(), now).await.map(|_| ()) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(world.web.requests(), 2);
}

#[tokio::test]
async fn keys_outlive_an_outage_of_two_days_and_no_longer() {
    // The grid would stop with its issuer, or trust keys for ever.
    let world = world(Duration::ZERO);
    let (seen, unseen) = (
        world.token(),
        world.sign(&world.key, |claims| claims["jti"] = json!("2")),
    );
    world.verify(&seen, Duration::ZERO).await.unwrap();
    world.web.take_down();
    world.verify(&seen, 47 * HOUR).await.unwrap();
    world.verify(&unseen, 47 * HOUR).await.unwrap();
    for token in [&seen, &unseen] {
        let error = world.verify(token, 49 * HOUR).await.unwrap_err();
        assert_eq!(
            (error.status().as_u16(), error.retry_after().is_some()),
            (503, true),
            "{error}"
        );
    }
}

#[tokio::test]
async fn old_keys_are_refreshed_behind_the_back_of_requests() {
    // A withdrawn key would be trusted as long as the service runs.
    let world = world(HOUR);
    let token = world.token();
    world.verify(&token, Duration::ZERO).await.unwrap();
    world.web.publish(&[&SigningKey::generate().unwrap()]);
    world.verify(&token, 5 * HOUR).await.unwrap();
    assert_eq!(world.web.requests(), 2);
    // Six hours old: this request is still served with the keys in hand, and sets the refresh going.
    world.verify(&token, 7 * HOUR).await.unwrap();
    let noticed = async {
        while world.verify(&token, 7 * HOUR).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), noticed).await.unwrap();
}

#[tokio::test]
async fn an_issuer_that_is_down_is_not_asked_by_every_request() {
    // Every request would wait for a connection that does not come about.
    let world = world(Duration::ZERO);
    world.web.take_down();
    for _ in 0..20 {
        assert_eq!(
            world.verify(&world.token(), Duration::ZERO).await.unwrap_err().status(),
            503
        );
    }
    assert_eq!(world.web.requests(), 1);
}

#[tokio::test]
async fn discovery_must_speak_for_the_issuer() {
    // One issuer could publish keys for another.
    let check = async |discovery: Value, expected: &str| {
        let world = world(Duration::ZERO);
        world.web.set(
            "https://issuer.example/vo/.well-known/openid-configuration",
            discovery.to_string(),
        );
        let error = world.verify(&world.token(), Duration::ZERO).await.unwrap_err();
        assert_eq!(error.status(), 503);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(
        json!({ "issuer": format!("{ISSUER}/"), "jwks_uri": "https://issuer.example/jwks" }),
        "speaks for",
    )
    .await;
    check(
        json!({ "issuer": ISSUER, "jwks_uri": "http://issuer.example/jwks" }),
        "https",
    )
    .await;
    check(
        json!({ "issuer": ISSUER, "jwks_uri": "https://issuer.example/none" }),
        "does not exist",
    )
    .await;
    check(json!({ "issuer": ISSUER }), "discovery").await;
    check(json!([]), "discovery").await;
}

#[tokio::test]
async fn the_other_form_of_discovery_is_found_too() {
    // Issuers that follow RFC 8414 alone could not be used.
    let world = world(Duration::ZERO);
    let mut documents = std::mem::take(&mut *world.web.documents.lock());
    let document = documents
        .remove("https://issuer.example/vo/.well-known/openid-configuration")
        .unwrap();
    documents.insert(
        "https://issuer.example/.well-known/oauth-authorization-server/vo".to_owned(),
        document,
    );
    *world.web.documents.lock() = documents;
    world.verify(&world.token(), Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn each_issuer_has_its_own_keys_prefixes_and_audiences() {
    // A token of one VO would count in the area of another.
    let (one, two) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let trusted = |url: &str, key: &SigningKey, prefix: &str, audience: &str| TrustedIssuer {
        prefixes: vec![prefix.parse().unwrap()],
        audiences: vec![audience.to_owned()],
        keys: KeyOrigin::Static(key_set([key])),
        ..TrustedIssuer::new(url)
    };
    let config = VerifierConfig {
        issuers: vec![
            trusted("https://one.example", &one, "/one", "s1"),
            trusted("https://two.example", &two, "/two", "s2"),
        ],
        any_audience: false,
        ..VerifierConfig::default()
    };
    let web = Arc::new(Web::default());
    let fetch: Arc<dyn Fetch> = web.clone();
    let verifier = Verifier::with_fetch(config, &fetch);
    let now = SystemTime::now();
    let token = |issuer: &str, audience: &str, key: &SigningKey| {
        let mut claims = claims(now);
        claims["iss"] = json!(issuer);
        claims["aud"] = json!(audience);
        key.sign(&claims).unwrap()
    };
    let verified = verifier
        .verify(token("https://one.example", "s1", &one).expose(), now)
        .await
        .unwrap();
    assert_eq!(verified.prefixes, ["/one".parse::<StoragePath>().unwrap()]);
    for (issuer, audience, key) in [
        ("https://one.example", "s1", &two),
        ("https://one.example", "s2", &one),
        ("https://two.example", "s2", &one),
        ("https://two.example", "https://wlcg.cern.ch/jwt/v1/any", &two),
    ] {
        assert!(
            verifier
                .verify(token(issuer, audience, key).expose(), now)
                .await
                .is_err(),
            "{issuer} {audience}"
        );
    }
    assert_eq!(web.requests(), 0);
}

#[tokio::test]
async fn a_remembered_token_still_ends() {
    // A token used often would live for ever.
    let world = world(Duration::ZERO);
    let seconds = world.now.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let token = world.sign(&world.key, |claims| claims["exp"] = json!(seconds + 100));
    world.verify(&token, Duration::ZERO).await.unwrap();
    world.verify(&token, Duration::from_secs(99)).await.unwrap();
    for _ in 0..2 {
        let error = world.verify(&token, Duration::from_secs(100)).await.unwrap_err();
        assert!(matches!(error, AuthError::Expired { .. }), "{error}");
    }
}
