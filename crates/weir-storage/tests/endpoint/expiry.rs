//! Credentials that end or are called back: a request under way goes on to its end, the next is refused.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::json;
use weir_auth::x509::RevocationCheck;
use weir_http::{Body, RunningServer, body};
use weir_units::Algorithm;

use super::{
    certificates::{Guest, with_people},
    lab::{Endpoint, Lab, digest, noise, until},
    reload::in_halves,
};

/// Certificates tell seconds only, and one whose end is now is still good.
const SOON: Duration = Duration::from_secs(3);

async fn past(end: SystemTime) {
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left + Duration::from_millis(1500)).await;
}

async fn under_way(at: &Endpoint) {
    until("the transfer", || {
        at.names().iter().any(|name| name.starts_with(".weir-private/"))
    })
    .await;
}

/// A source under this certificate whose first GET is answered by `content`, later ones by a byte; each on a connection of
/// its own.
fn source(lab: &Lab, end: Option<SystemTime>, content: Body) -> (RunningServer, weir_http::Identity, String) {
    let content = Arc::new(Mutex::new(Some(content)));
    lab.certified_peer(end, move |request: Request<Incoming>| {
        let content = content.clone();
        async move {
            let body = match request.method().as_str() {
                "GET" => content.lock().take().unwrap_or_else(|| body::full("x")),
                _ => body::empty(),
            };
            let mut response = Response::new(body);
            response.headers_mut().insert("connection", "close".parse().unwrap());
            response
        }
    })
}

const UNVERIFIED: (&str, &str) = ("RequireChecksumVerification", "false");
const ONE: (&str, &str) = ("X-Number-Of-Streams", "1");

/// A list of `fetch-crl` would count for users and not for servers: bytes would come from, and tokens go to, the thief of a
/// server's key.
#[tokio::test]
async fn a_server_that_was_revoked_is_refused() {
    let lab = Lab::new();
    let trusted = lab.authorities();
    let at = lab
        .endpoint("a", |config| {
            config.trust.files.clear();
            config.trust.directories = vec![trusted.clone()];
        })
        .await;
    let content = noise(9_000_000);
    let (halves, go) = in_halves(&content);
    let length = content.len().to_string();
    let (_server, identity, from) = source(&lab, None, halves);
    let (_other, _, good) = source(&lab, None, body::full("x"));
    let vouched = digest(Algorithm::Adler32, &content);
    let with = [UNVERIFIED, ONE, ("Digest", vouched.as_str())];
    let pulled = at.pull("/f", &from, &with);
    let meanwhile = async {
        under_way(&at).await;
        std::fs::write(trusted.join("ca.r0"), lab.revocation_list(&[&identity])).unwrap();
        at.running.look().await;
        at.pull("/g", &from, &[UNVERIFIED])
            .await
            .failed(&["invalid peer certificate: Revoked"]);
        at.pull("/h", &good, &[UNVERIFIED]).await.copied();
        at.put("/p", "x").await.expect(201);
        at.push("/p", &format!("{from}/p"), &[])
            .await
            .failed(&["invalid peer certificate: Revoked"]);
        go.send(()).unwrap();
    };
    let (pulled, ()) = tokio::join!(pulled, meanwhile);
    pulled.copied();
    assert_eq!(std::fs::metadata(at.root.join("f")).unwrap().len().to_string(), length);
}

/// A copy of hours would be lost at the end of the other side's certificate.
#[tokio::test]
async fn a_server_whose_certificate_ends_is_refused_the_next_time() {
    let lab = Lab::new();
    let mut config = None;
    let at = lab.endpoint("a", |own| config = Some(own.clone())).await;
    let (content, end) = (noise(9_000_000), SystemTime::now() + SOON);
    let (halves, go) = in_halves(&content);
    let (_server, _, from) = source(&lab, Some(end), halves);
    let vouched = digest(Algorithm::Adler32, &content);
    let with = [UNVERIFIED, ONE, ("Digest", vouched.as_str())];
    let pulled = at.pull("/f", &from, &with);
    let meanwhile = async {
        under_way(&at).await;
        past(end).await;
        // A reload takes up no session of before; without one, that is within a minute.
        at.running.reload(config.take().unwrap()).await.unwrap();
        at.pull("/g", &from, &[UNVERIFIED]).await.failed(&["certificate"]);
        go.send(()).unwrap();
    };
    let (pulled, ()) = tokio::join!(pulled, meanwhile);
    pulled.copied();
    assert!(std::fs::read(at.root.join("f")).unwrap() == content);
}

/// An upload of hours would be lost at the end of its token or certificate; or both be good for ever on an open connection.
#[tokio::test]
async fn a_client_whose_credential_ends_is_refused_the_next_time() {
    let lab = Lab::new();
    let at = lab.endpoint("a", with_people(&lab)).await;
    let content = noise(9_000_000);
    let end = SystemTime::now() + SOON;
    let seconds = end.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"scope": "storage.read:/ storage.modify:/", "exp": seconds});
    let bearer = format!("Bearer {}", lab.issuer.mint(&claims));
    let ada = Guest {
        at: &at,
        client: lab.client.showing(&lab.certificate_until("Ada", end)).unwrap(),
    };
    let (by_token, go) = in_halves(&content);
    let (by_certificate, go_too) = in_halves(&content);
    let (pulled, go_third) = in_halves(&content);
    let (_server, _, from) = source(&lab, None, pulled);
    let vouched = digest(Algorithm::Adler32, &content);
    let headers = [("authorization", bearer.as_str())];
    let with = [
        ("authorization", bearer.as_str()),
        UNVERIFIED,
        ONE,
        ("Digest", &vouched),
    ];
    let meanwhile = async {
        let three = || {
            at.names()
                .iter()
                .filter(|name| name.starts_with(".weir-private/"))
                .count()
                == 3
        };
        until("all under way", three).await;
        past(end).await;
        let refused = at.ask("PUT", "/h", &headers, "x").await.expect(401);
        assert!(refused.text().contains("expired"), "{}", refused.text());
        let refused = ada.ask("PUT", "/h", &[], Bytes::from("x")).await.expect(401);
        assert!(refused.text().contains("expired"), "{}", refused.text());
        at.pull("/h", &from, &with).await.expect(401);
        for go in [go, go_too, go_third] {
            go.send(()).unwrap();
        }
    };
    let (first, second, third, ()) = tokio::join!(
        at.send("PUT", "/f", &headers, by_token),
        ada.send("PUT", "/g", &[], by_certificate),
        at.pull("/p", &from, &with),
        meanwhile
    );
    first.expect(201);
    second.expect(201);
    third.copied();
    for name in ["f", "g", "p"] {
        assert!(std::fs::read(at.root.join(name)).unwrap() == content, "{name}");
    }
}

/// An upload of hours would be lost because a list was not renewed in time; or an old one be good where lists are required.
#[tokio::test]
async fn a_revocation_list_that_ends_is_missed_the_next_time() {
    let lab = Lab::new();
    let end = SystemTime::now() + SOON;
    let list = lab.authorities().join("ca.r0");
    std::fs::write(&list, lab.revocation_list_until(end)).unwrap();
    let at = lab
        .endpoint("a", |config| {
            with_people(&lab)(config);
            config.x509.as_mut().unwrap().revocation = RevocationCheck::Required;
        })
        .await;
    at.put("/old", "x").await.expect(201);
    let guest = |name| Guest {
        at: &at,
        client: lab.client_of(name),
    };
    // A chain that was verified is taken for a minute: Bob's is not yet.
    let (ada, bob) = (guest("Ada"), guest("Bob"));
    let content = noise(9_000_000);
    let (halves, go) = in_halves(&content);
    let meanwhile = async {
        under_way(&at).await;
        past(end).await;
        let refused = bob.ask("GET", "/old", &[], "").await.expect(503);
        assert!(refused.text().contains("out of date"), "{}", refused.text());
        assert!(!refused.header("retry-after").is_empty());
        std::fs::write(&list, lab.revocation_list(&[])).unwrap();
        at.running.look().await;
        bob.ask("GET", "/old", &[], "").await.expect(200);
        go.send(()).unwrap();
    };
    let (put, ()) = tokio::join!(ada.send("PUT", "/f", &[], halves), meanwhile);
    put.expect(201);
    assert!(std::fs::read(at.root.join("f")).unwrap() == content);
}
