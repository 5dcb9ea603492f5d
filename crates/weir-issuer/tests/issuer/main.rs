//! The issuer as its clients see it: over real TLS, with the real token source and the real verifier.
#![allow(clippy::unwrap_used)] // a panic is how a test fails

mod exchange;
mod reload;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, StatusCode, header};
use serde_json::Value;
use tempfile::TempDir;
use weir_auth::ca::{CertificateAuthority, Identity};
use weir_auth::client::{TokenError, TokenSource};
use weir_auth::verifier::{Fetch, FetchFuture, KeyTiming};
use weir_auth::{AuthError, Operation, Secret, StoragePath, TrustedIssuer, Verifier, VerifierConfig, authorize};
use weir_http::{ClientConfig, TrustRoots, body};
use weir_issuer::{Client, Issuer, IssuerConfig, Running};

const AUDIENCE: &str = "https://storage.example:8443";
const SECRET: &str = "a secret/with:odd+marks%";

struct World {
    dir: TempDir,
    identity: Identity,
    http: weir_http::Client,
    issuer: Running,
}

fn config(dir: &Path, address: &str) -> IssuerConfig {
    let client = Client::with_secret(
        "grid",
        &Secret::new(SECRET),
        &["storage.read:/", "storage.modify:/data", "offline_access"],
        &["*"],
    );
    IssuerConfig::new(address.parse().unwrap(), dir.join("keys"), vec![client])
}

fn world_with(change: impl FnOnce(&mut IssuerConfig)) -> World {
    let dir = tempfile::tempdir().unwrap();
    let ca = CertificateAuthority::create(&dir.path().join("ca")).unwrap();
    let identity = ca.issue(&["127.0.0.1".into(), "127.0.0.77".into()], "issuer").unwrap();
    let http = weir_http::Client::new(ClientConfig::new(TrustRoots::file(ca.file()))).unwrap();
    let mut config = config(dir.path(), "127.0.0.1:0");
    change(&mut config);
    let issuer = Issuer::start(&config, &identity).unwrap();
    World {
        dir,
        identity,
        http,
        issuer,
    }
}

fn world() -> World {
    world_with(|_| {})
}

impl World {
    fn source(&self) -> TokenSource {
        self.source_with(SECRET)
    }

    fn source_with(&self, secret: &str) -> TokenSource {
        TokenSource::client_credentials(self.http.clone(), self.issuer.token_url(), "grid", &Secret::new(secret))
    }

    fn verifier(&self) -> Verifier {
        let config = VerifierConfig {
            issuers: vec![TrustedIssuer::new(self.issuer.url())],
            audiences: vec![AUDIENCE.to_owned()],
            timing: KeyTiming {
                unknown_key: Duration::ZERO,
                ..KeyTiming::default()
            },
            ..VerifierConfig::default()
        };
        Verifier::new(config, self.http.clone())
    }

    async fn fresh(&self) -> Secret {
        self.token("storage.read:/a offline_access").await
    }

    async fn token(&self, scopes: &str) -> Secret {
        self.source().token(scopes, AUDIENCE).await.unwrap()
    }

    async fn post(&self, content_type: &str, form: impl Into<bytes::Bytes>) -> (StatusCode, http::HeaderMap, Value) {
        let request = Request::post(self.issuer.token_url())
            .header(header::CONTENT_TYPE, content_type)
            .body(body::full(form))
            .unwrap();
        self.send(request).await
    }

    async fn get(&self, path: &str) -> (StatusCode, http::HeaderMap, Value) {
        let url = format!("https://{}{path}", self.issuer.address());
        self.send(Request::get(url).body(body::empty()).unwrap()).await
    }

    async fn text(&self, path: &str) -> (StatusCode, String) {
        let url = format!("https://{}{path}", self.issuer.address());
        let request = Request::get(url).body(body::empty()).unwrap();
        let (parts, content) = self.http.send(request).await.unwrap().into_parts();
        let content = body::read_limited(content, 1 << 20, Duration::from_secs(10)).await;
        (parts.status, String::from_utf8(content.unwrap().to_vec()).unwrap())
    }

    async fn send(&self, request: Request<weir_http::Body>) -> (StatusCode, http::HeaderMap, Value) {
        let response = self.http.send(request).await.unwrap();
        let (parts, content) = response.into_parts();
        let content = body::read_limited(content, 1 << 20, Duration::from_secs(10))
            .await
            .unwrap();
        (
            parts.status,
            parts.headers,
            serde_json::from_slice(&content).unwrap_or(Value::Null),
        )
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

#[tokio::test]
async fn a_token_from_the_issuer_opens_what_its_scopes_say() {
    // The two halves of trust would not fit together.
    let world = world();
    let token = world.fresh().await;
    let verified = world
        .verifier()
        .verify(token.expose(), SystemTime::now())
        .await
        .unwrap();
    assert_eq!(
        (verified.subject.as_str(), verified.client_id.as_deref()),
        ("grid", Some("grid"))
    );
    let path = |text: &str| StoragePath::from_url_path(text).unwrap();
    assert!(authorize(&verified, Operation::Read, &path("/a/f")).is_ok());
    let denied = authorize(&verified, Operation::Delete, &path("/a/f")).unwrap_err();
    assert_eq!(denied.needs, "storage.modify:/a/f");
    world.issuer.shutdown().await;
}

#[tokio::test]
async fn tokens_live_through_rotation_and_restart() {
    // Every rotation or restart would break all transfers in hand.
    let world = world();
    let verifier = world.verifier();
    let now = SystemTime::now();
    let old = world.fresh().await;
    verifier.verify(old.expose(), now).await.unwrap();
    world.issuer.rotate().unwrap();
    let new = world.fresh().await;
    assert_ne!(key_id(&old), key_id(&new));
    verifier.verify(new.expose(), now).await.unwrap();
    verifier.verify(old.expose(), now).await.unwrap();
    // A second turn brings a key that this verifier has never seen.
    world.issuer.rotate().unwrap();
    let unseen = world.fresh().await;
    verifier.verify(unseen.expose(), now).await.unwrap();
    // A verifier that starts now still takes the oldest.
    world.verifier().verify(old.expose(), now).await.unwrap();

    let World {
        dir,
        identity,
        http,
        issuer,
    } = world;
    let address = issuer.address();
    issuer.shutdown().await;
    let issuer = Issuer::start(&config(dir.path(), &address.to_string()), &identity).unwrap();
    let world = World {
        dir,
        identity,
        http,
        issuer,
    };
    let restarted = world.fresh().await;
    assert_eq!(key_id(&restarted), key_id(&unseen));
    let verifier = world.verifier();
    for token in [&old, &new, &unseen, &restarted] {
        verifier.verify(token.expose(), now).await.unwrap();
    }
}

fn key_id(token: &Secret) -> String {
    use base64::Engine as _;
    let header = token.expose().split('.').next().unwrap();
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).unwrap();
    serde_json::from_slice::<Value>(&header).unwrap()["kid"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn services_go_on_while_the_issuer_is_down() {
    // An issuer's restart would stop the whole grid.
    let world = world();
    let verifier = world.verifier();
    let now = SystemTime::now();
    let (seen, unseen) = (world.fresh().await, world.fresh().await);
    verifier.verify(seen.expose(), now).await.unwrap();
    let cold = world.verifier();
    let source = world.source();
    let held = source.token("storage.read:/a", AUDIENCE).await.unwrap();
    world.issuer.shutdown().await;
    verifier.verify(seen.expose(), now).await.unwrap();
    verifier.verify(unseen.expose(), now).await.unwrap();
    assert_eq!(source.token("storage.read:/a", AUDIENCE).await.unwrap(), held);
    let error = cold.verify(seen.expose(), now).await.unwrap_err();
    assert!(matches!(error, AuthError::KeysUnavailable { .. }), "{error}");
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(error.retry_after().is_some());
    assert!(
        source
            .token("storage.read:/b", AUDIENCE)
            .await
            .unwrap_err()
            .is_temporary()
    );
}

#[tokio::test]
async fn discovery_names_the_endpoints_in_both_forms() {
    // Clients of the field would not find the keys or the token endpoint.
    let world = world();
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
    ] {
        let (status, _, document) = world.get(path).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(document["issuer"], world.issuer.url());
        assert_eq!(document["jwks_uri"], format!("{}/jwks", world.issuer.url()));
        assert_eq!(document["token_endpoint"], world.issuer.token_url());
    }
    let (_, _, jwks) = world.get("/jwks").await;
    assert_eq!(jwks["keys"].as_array().unwrap().len(), 2);
    assert!(
        jwks["keys"]
            .as_array()
            .unwrap()
            .iter()
            .all(|key| key["alg"] == "ES256" && key.get("d").is_none())
    );
    let (status, _, health) = world.get("/.well-known/weir/health").await;
    assert_eq!((status, &health["status"]), (StatusCode::OK, &Value::from("ok")));
}

#[tokio::test]
async fn issued_and_refused_tokens_are_counted() {
    // An operator would learn from users that nobody gets tokens.
    let world = world();
    world.fresh().await;
    world.fresh().await;
    let metrics = async || world.text("/.well-known/weir/metrics").await;
    let (status, text) = metrics().await;
    assert_eq!(status, StatusCode::OK);
    let counted = |text: &str, line: &str| assert!(text.lines().any(|shown| shown == line), "{line} is not in\n{text}");
    counted(
        &text,
        "weir_issuer_tokens_total{client=\"grid\",grant=\"client_credentials\"} 2",
    );
    counted(&text, "weir_issuer_keys 2");
    counted(&text, "weir_issuer_keys_ok 1");
    let wrong = world
        .source_with("another secret, as long")
        .token("storage.read:/a", AUDIENCE)
        .await;
    assert!(wrong.is_err());
    counted(
        &metrics().await.1,
        "weir_issuer_refused_total{error=\"invalid_client\"} 1",
    );
    let handbook = include_str!("../../../../docs/metrics.md");
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let name = if kind == "counter" {
            format!("{name}_total")
        } else {
            name.to_owned()
        };
        assert!(handbook.contains(&format!("| `{name}` | {kind} |")), "{name} {kind}");
    }
    let hidden = world_with(|config| config.metrics_allow.clear());
    assert_eq!(hidden.text("/.well-known/weir/metrics").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_issuer_may_have_a_path() {
    // An issuer behind a shared host name could not be used.
    let reserved = std::net::TcpListener::bind("127.0.0.77:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let world = world_with(|config| {
        config.listen = SocketAddr::from(([127, 0, 0, 77], reserved.port()));
        config.url = Some(format!("https://{reserved}/vo/one/"));
    });
    let token = world.fresh().await;
    let verified = world
        .verifier()
        .verify(token.expose(), SystemTime::now())
        .await
        .unwrap();
    assert_eq!(verified.issuer, format!("https://{reserved}/vo/one/"));
    assert_eq!(
        world.get("/.well-known/oauth-authorization-server/vo/one").await.0,
        StatusCode::OK
    );
}

#[tokio::test]
async fn refusals_are_those_of_the_rfc() {
    // Clients would retry what can never succeed, or give up what could.
    let world = world();
    let form = |rest: &str| {
        format!("grant_type=client_credentials&client_id=grid&client_secret=a+secret/with:odd%2Bmarks%25{rest}")
    };
    let check = async |status: StatusCode, error: &str, body: String| {
        let (got, headers, answer) = world.post(FORM, body.clone()).await;
        assert_eq!(
            (got, answer["error"].as_str()),
            (status, Some(error)),
            "{body}: {answer}"
        );
        assert!(
            answer["error_description"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
        headers
    };
    let bad = StatusCode::BAD_REQUEST;
    let (status, headers, answer) = world.post(FORM, form("&scope=storage.read:/x")).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(
        (&answer["token_type"], &answer["scope"]),
        (&"Bearer".into(), &"storage.read:/x".into())
    );
    check(bad, "invalid_scope", form("")).await;
    check(bad, "invalid_scope", form("&scope=storage.stage:/x")).await;
    check(bad, "invalid_scope", form("&scope=storage.read")).await;
    check(
        bad,
        "unsupported_grant_type",
        "grant_type=password&client_id=a&client_secret=b".to_owned(),
    )
    .await;
    let wrong = "grant_type=client_credentials&client_id=grid&client_secret=wrong".to_owned();
    let headers = check(StatusCode::UNAUTHORIZED, "invalid_client", wrong).await;
    assert!(headers.contains_key(header::WWW_AUTHENTICATE));
    check(
        StatusCode::PAYLOAD_TOO_LARGE,
        "invalid_request",
        form(&"&x=y".repeat(20_000)),
    )
    .await;
    assert_eq!(world.post("application/json", "{}").await.0, bad);
    let error = world
        .source_with("guess-4711")
        .token("storage.read:/", AUDIENCE)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            TokenError::Refused {
                status: StatusCode::UNAUTHORIZED,
                ..
            }
        ) && !error.is_temporary()
    );
    assert!(!format!("{error:?} {error}").contains("guess-4711"), "{error:?}");
}

#[tokio::test]
async fn a_flood_of_one_client_is_answered_429() {
    // One runaway program would keep the issuer from all others.
    let world = world_with(|config| config.tokens_per_second = 1);
    let form =
        "grant_type=client_credentials&client_id=grid&client_secret=a+secret/with:odd%2Bmarks%25&scope=storage.read:/";
    assert_eq!(world.post(FORM, form).await.0, StatusCode::OK);
    let mut flooded = false;
    for _ in 0..50 {
        let (status, headers, _) = world.post(FORM, form).await;
        flooded |= status == StatusCode::TOO_MANY_REQUESTS && headers.contains_key(header::RETRY_AFTER);
    }
    assert!(flooded);
}

#[tokio::test]
async fn a_source_asks_once_for_many() {
    // A thousand transfers that start together would ask for a thousand tokens.
    let world = world();
    let source = world.source();
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let source = source.clone();
            tokio::spawn(async move { source.token("storage.read:/a", AUDIENCE).await.unwrap() })
        })
        .collect();
    let first = source.token("storage.read:/a", AUDIENCE).await.unwrap();
    for task in tasks {
        assert_eq!(task.await.unwrap(), first);
    }
    assert_ne!(source.token("storage.read:/b", AUDIENCE).await.unwrap(), first);
    source.discard("storage.read:/a", AUDIENCE);
    assert_ne!(source.token("storage.read:/a", AUDIENCE).await.unwrap(), first);
}

#[tokio::test]
async fn waiters_for_a_token_share_the_failure() {
    // With an issuer that does not answer, the thousandth transfer would wait a thousand time limits.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/token", listener.local_addr().unwrap());
    let accepted = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    let (release, mut released) = tokio::sync::watch::channel(false);
    let server = tokio::spawn(async move {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            // Everybody waits by now: then the issuer hangs up.
            released.wait_for(|go| *go).await.unwrap();
            drop(connection);
        }
    });
    let world = world();
    let source = TokenSource::client_credentials(world.http.clone(), url, "grid", &Secret::new(SECRET));
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let source = source.clone();
            tokio::spawn(async move { source.token("storage.read:/a", AUDIENCE).await })
        })
        .collect();
    // One thread runs all tasks in turn: when a connection has come, each of them has had its first turn, and waits.
    while accepted.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    release.send(true).unwrap();
    for task in waiting {
        let error = task.await.unwrap().unwrap_err();
        assert!(error.is_temporary(), "{error}");
    }
    assert_eq!(accepted.load(std::sync::atomic::Ordering::Relaxed), 1);
    server.abort();
}

#[tokio::test]
async fn a_source_renews_its_tokens() {
    // Tokens would never be renewed, and expire in the middle of transfers.
    let world = world_with(|config| config.token_lifetime = Duration::from_secs(3));
    let source = world.source();
    let first = source.token("storage.read:/a", AUDIENCE).await.unwrap();
    let renewed = async {
        while source.token("storage.read:/a", AUDIENCE).await.unwrap() == first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), renewed).await.unwrap();
}

/// Counts the documents fetched.
#[derive(Debug)]
struct Counting(weir_http::Client, std::sync::atomic::AtomicUsize);

impl Fetch for Counting {
    fn get<'a>(&'a self, url: &'a str, limit: usize) -> FetchFuture<'a> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Fetch::get(&self.0, url, limit)
    }
}

#[tokio::test]
async fn a_thousand_requests_fetch_the_keys_once() {
    // The start of a service would be a flood on the issuer.
    let world = world();
    let token = world.fresh().await;
    let counting = Arc::new(Counting(world.http.clone(), 0.into()));
    let config = VerifierConfig {
        issuers: vec![TrustedIssuer::new(world.issuer.url())],
        audiences: vec![AUDIENCE.into()],
        ..VerifierConfig::default()
    };
    let fetch: Arc<dyn Fetch> = counting.clone();
    let verifier = Verifier::with_fetch(config, &fetch);
    let tasks: Vec<_> = (0..1000)
        .map(|_| {
            let (verifier, token) = (verifier.clone(), token.clone());
            tokio::spawn(async move { verifier.verify(token.expose(), SystemTime::now()).await.map(|_| ()) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(
        counting.1.load(std::sync::atomic::Ordering::Relaxed),
        2,
        "one discovery document, one key set"
    );
}

/// A slow issuer would be tried for by loading the machine, or its refusals would come at once.
#[tokio::test]
async fn answers_are_held_back_as_long_as_configured() {
    let delay = Duration::from_millis(300);
    let world = world_with(|config| config.answer_delay = delay);
    let begin = std::time::Instant::now();
    world.source().token("storage.read:/", AUDIENCE).await.unwrap();
    assert!(begin.elapsed() >= delay);
    let begin = std::time::Instant::now();
    world
        .source_with("wrong")
        .token("storage.read:/", AUDIENCE)
        .await
        .unwrap_err();
    assert!(begin.elapsed() >= delay);
    let mut config = config(world.dir.path(), "127.0.0.1:0");
    config.answer_delay = Duration::from_secs(61);
    let refused = Issuer::start(&config, &world.identity).map(drop).unwrap_err();
    assert!(weir_auth::error_chain(&refused).contains("answer_delay"), "{refused:?}");
}
