//! Another configuration, and other files, while the endpoint serves: nothing under way is lost, and what comes meets the new.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body_util::BodyExt as _;
use tokio::sync::oneshot;
use weir_auth::{StorageAction, ca::write_identity};
use weir_http::{Body, Client, ClientConfig, TrustRoots, body};
use weir_storage::{AreaConfig, StorageConfig};
use weir_units::{Algorithm, Bytes as Size};

use super::{
    certificates::{Guest, rule, with_people},
    lab::{Endpoint, Lab, digest, noise, pieces, until},
};

/// Comes in two halves, the second one when it is let go.
pub(crate) fn in_halves(content: &Bytes) -> (Body, oneshot::Sender<()>) {
    let (go, wait) = oneshot::channel::<()>();
    let (first, second) = (content.slice(..content.len() / 2), content.slice(content.len() / 2..));
    let halves = stream::unfold((Some(wait), vec![second, first]), |(wait, mut left)| async move {
        if left.len() == 1 {
            let _ = wait?.await;
            return Some((Ok(left.pop()?), (None, left)));
        }
        Some((Ok(left.pop()?), (wait, left)))
    });
    (pieces(halves), go)
}

/// An endpoint and the configuration that it runs with, to be changed.
async fn configured(lab: &Lab, change: impl FnOnce(&mut StorageConfig)) -> (Endpoint, StorageConfig) {
    let mut kept = None;
    let at = lab
        .endpoint("a", |config| {
            change(config);
            kept = Some(config.clone());
        })
        .await;
    (at, kept.unwrap())
}

/// Another authority's certificate for the endpoint, in the files of the one before; and a client that trusts no other.
fn renew_certificate(other: &Lab, at: &Endpoint, config: &StorageConfig) -> Client {
    let identity = other.certificate_for(at.running.address().ip(), None);
    let files = config.tls.as_ref().unwrap();
    let (certificate, key) = write_identity(&identity, other.dir.path(), "renewed").unwrap();
    std::fs::rename(certificate, &files.certificate).unwrap();
    std::fs::rename(key, &files.key).unwrap();
    Client::new(ClientConfig::new(TrustRoots::file(other.authority()))).unwrap()
}

async fn metric(at: &Endpoint, line: &str) -> bool {
    at.get("/.well-known/weir/metrics")
        .await
        .expect(200)
        .text()
        .lines()
        .any(|own| own == line)
}

/// A renewed certificate would cost every transfer under way, or not count for those that come.
#[tokio::test]
async fn transfers_in_hand_end_as_they_began() {
    let (lab, other) = (Lab::new(), Lab::new());
    let (at, mut config) = configured(&lab, |_| {}).await;
    let content = noise(9_000_000);
    at.put("/f", content.clone()).await.expect(201);

    let mut read = at.begin("GET", "/f", &[], body::empty()).await.into_body();
    let first = read.frame().await.unwrap().unwrap().into_data().unwrap();
    let (upload, finish_upload) = in_halves(&content);
    let (source, finish_source) = in_halves(&content);
    let source = std::sync::Arc::new(parking_lot::Mutex::new(Some(source)));
    let length = content.len();
    let (_server, from) = lab.peer(move |request| {
        let source = source.clone();
        async move {
            let body = if request.method() == "GET" {
                source.lock().take()
            } else {
                None
            };
            let mut response = Response::new(body.unwrap_or_else(body::empty));
            response.headers_mut().insert("content-length", length.into());
            response
        }
    });
    let (put, pulled) = (
        at.send("PUT", "/put", &[], upload),
        at.pull("/pulled", &from, &[("RequireChecksumVerification", "false")]),
    );
    let reload = async {
        until("both under way", || {
            at.names()
                .iter()
                .filter(|name| name.starts_with(".weir-private/"))
                .count()
                == 2
        })
        .await;
        // From now on: another certificate, a smaller area, no tokens of that issuer, no other side at loopback.
        let newcomers = renew_certificate(&other, &at, &config);
        config.areas[0].quota = Some(Size(1));
        config.areas[0].anonymous_read = true;
        config.issuers.clear();
        config.tpc.allow.clear();
        config.limits.transfers = 7;
        assert_eq!(at.running.reload(config.clone()).await.unwrap(), Vec::<String>::new());
        let asked = newcomers
            .send(at.request("GET", "/f", &[("authorization", "")], body::empty()))
            .await
            .unwrap();
        assert_eq!(asked.status(), 200, "anybody reads now");
        let asked = newcomers
            .send(at.request("PUT", "/g", &[], body::full("x")))
            .await
            .unwrap();
        assert_eq!(asked.status(), 401, "the issuer no longer counts");
        finish_upload.send(()).unwrap();
        finish_source.send(()).unwrap();
    };
    let (put, pulled, ()) = tokio::join!(put, pulled, reload);
    put.expect(201);
    pulled.copied();
    let rest = read.collect().await.unwrap().to_bytes();
    assert!([first, rest].concat() == content);
    for name in ["put", "pulled"] {
        assert!(std::fs::read(at.root.join(name)).unwrap() == content, "{name}");
    }
    assert_eq!(at.running.counters()["data"].files, 3, "the books are those of before");
    assert!(
        metric(
            &at,
            r#"weir_storage_reloads_total{what="configuration",outcome="completed"} 1"#
        )
        .await
    );
}

/// A typing error in a file would stop a running endpoint, or leave it with half of a configuration.
#[tokio::test]
async fn a_configuration_that_is_no_good_changes_nothing() {
    let lab = Lab::new();
    let (at, config) = configured(&lab, |_| {}).await;
    at.put("/f", "x").await.expect(201);
    let mut broken = config.clone();
    broken.areas[0].read_only = true;
    broken.limits.copies = 0;
    at.running.reload(broken).await.unwrap_err();
    // Its own text is good, but a file that it names is not.
    let mut broken = config.clone();
    broken.areas[0].read_only = true;
    broken.tls.as_mut().unwrap().key = lab.dir.path().join("nowhere.key");
    at.running.reload(broken).await.unwrap_err();
    let mut broken = config.clone();
    broken.areas[0].read_only = true;
    broken.access_log = Some(lab.dir.path().join("no/such/folder/log"));
    at.running.reload(broken).await.unwrap_err();
    at.running.refuse_reload("storage.toml:1: limits: unknown field");
    at.put("/f", "y").await.expect(204);
    assert!(
        metric(
            &at,
            r#"weir_storage_reloads_total{what="configuration",outcome="failed"} 4"#
        )
        .await
    );
}

/// Settings of areas, limits and lists would need a restart.
#[tokio::test]
async fn an_operators_change_takes_effect() {
    let lab = Lab::new();
    let (at, mut config) = configured(&lab, |config| config.limits.transfers = 1).await;
    at.put("/d/f", noise(2_000_000)).await.expect(201);
    config.areas[0].read_only = true;
    config.areas.push(AreaConfig::new(
        "more",
        "/more".parse().unwrap(),
        lab.dir.path().join("more"),
    ));
    config.listen.set_port(1);
    let waiting = at.running.reload(config.clone()).await.unwrap();
    let said: Vec<_> = waiting.iter().filter_map(|text| text.split(' ').next()).collect();
    assert_eq!(said, ["listen", "area"]);
    let refused = at.put("/d/g", "x").await.expect(403);
    assert!(
        refused.text().contains("read-only by configuration"),
        "{}",
        refused.text()
    );

    config.areas[0].read_only = false;
    config.areas[0].quota = Some(Size(2_000_001));
    config.areas[0].checksums = vec![Algorithm::Md5];
    config.metrics_allow.clear();
    at.running.reload(config.clone()).await.unwrap();
    at.put("/d/g", "xy").await.expect(507);
    at.put("/d/g", "x").await.expect(201);
    let looked = at.ask("HEAD", "/d/g", &[("want-digest", "md5")], "").await.expect(200);
    assert_eq!(looked.header("digest"), digest(Algorithm::Md5, b"x"));
    at.get("/.well-known/weir/metrics").await.expect(403);

    // A place more, for who waits too.
    let (content, release) = in_halves(&noise(9_000_000));
    config.areas[0].quota = None;
    at.running.reload(config.clone()).await.unwrap();
    let held = at.send("PUT", "/d/h", &[], content);
    let meanwhile = async {
        until("the upload", || {
            at.names().iter().any(|name| name.starts_with(".weir-private/"))
        })
        .await;
        at.get("/d/f").await.expect(503);
        let raise = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            config.limits.transfers = 2;
            at.running.reload(config.clone()).await.unwrap();
        };
        let (second, ()) = tokio::join!(at.get("/d/f"), raise);
        second.expect(200);
        release.send(()).unwrap();
    };
    let (held, ()) = tokio::join!(held, meanwhile);
    held.expect(201);
}

/// A log that was moved away would go on growing, or lose what was under way.
#[tokio::test]
async fn the_access_log_is_opened_anew() {
    let lab = Lab::new();
    let (at, config) = configured(&lab, |_| {}).await;
    at.put("/f", noise(9_000_000)).await.expect(201);
    let held = at.begin("GET", "/f", &[], body::empty()).await;
    at.log_lines(1).await;
    let moved = lab.dir.path().join("moved.log");
    std::fs::rename(&at.log, &moved).unwrap();
    at.running.reload(config).await.unwrap();
    let size = std::fs::metadata(&moved).unwrap().len();
    held.into_body().collect().await.unwrap();
    at.get("/f").await.expect(200);
    let lines = at.log_lines(2).await;
    assert!(lines.iter().all(|line| line["method"] == "GET"), "{lines:?}");
    assert_eq!(std::fs::metadata(&moved).unwrap().len(), size);
}

/// A certificate that was renewed on the disk would be served only after a restart, and one that is no good shut the door.
#[tokio::test]
async fn files_that_change_are_taken() {
    let (lab, other) = (Lab::new(), Lab::new());
    let (at, config) = configured(&lab, with_people(&lab)).await;
    let files = config.tls.clone().unwrap();
    let good = std::fs::read(&files.certificate).unwrap();
    std::fs::write(&files.certificate, "nothing").unwrap();
    at.running.look().await;
    at.running.look().await;
    assert!(
        metric(
            &at,
            r#"weir_storage_reloads_total{what="certificate",outcome="failed"} 1"#
        )
        .await,
        "told once"
    );
    std::fs::write(&files.certificate, good).unwrap();
    at.running.look().await;
    assert!(
        metric(
            &at,
            r#"weir_storage_reloads_total{what="certificate",outcome="completed"} 1"#
        )
        .await
    );

    // A certificate that ends soon: the endpoint says so, of the one that it shows.
    let soon = SystemTime::now() + Duration::from_secs(3600);
    let identity = other.certificate_for(at.running.address().ip(), Some(soon));
    write_identity(&identity, lab.dir.path(), "a").unwrap();
    at.running.look().await;
    let newcomers = Client::new(ClientConfig::new(TrustRoots::file(other.authority()))).unwrap();
    let ready = newcomers
        .send(at.request("GET", "/.well-known/weir/ready", &[], body::empty()))
        .await
        .unwrap();
    let text = ready.into_body().collect().await.unwrap().to_bytes();
    assert!(
        String::from_utf8_lossy(&text).contains("certificate expires in 0 h"),
        "{text:?}"
    );
    let end = soon.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    assert!(metric(&at, &format!("weir_storage_certificate_end_timestamp_seconds {end}")).await);

    // The other side of a copy under a new authority.
    let (_server, from) = other.peer(|_| async { Response::new(body::full("x")) });
    at.pull("/pulled", &from, &[("RequireChecksumVerification", "false")])
        .await
        .failed(&["certificate"]);
    let trusted = &config.trust.files[0];
    let both = [
        std::fs::read(trusted).unwrap(),
        std::fs::read(other.authority()).unwrap(),
    ]
    .concat();
    std::fs::write(trusted, both).unwrap();
    at.running.look().await;
    at.pull("/pulled", &from, &[("RequireChecksumVerification", "false")])
        .await
        .copied();
}

/// A thief of a key would go on being let in, on the connection that is open.
#[tokio::test]
async fn a_client_that_was_revoked_is_refused() {
    let lab = Lab::new();
    let (at, config) = configured(&lab, with_people(&lab)).await;
    at.put("/f", "x").await.expect(201);
    let (ada, bob) = (lab.certificate("Ada"), lab.certificate("Bob"));
    let guest = |identity| Guest {
        at: &at,
        client: lab.client.showing(identity).unwrap(),
    };
    let (lost, other) = (guest(&ada), guest(&bob));
    lost.ask("GET", "/f", &[], "").await.expect(200);
    other.ask("GET", "/f", &[], "").await.expect(200);
    std::fs::write(lab.authorities().join("ca.r0"), lab.revocation_list(&[&ada])).unwrap();
    at.running.look().await;
    let refused = lost.ask("GET", "/f", &[], "").await.expect(401);
    assert!(refused.text().contains("revoked"), "{}", refused.text());
    other.ask("GET", "/f", &[], "").await.expect(200);

    // A reload reads all of it again, and takes other rules.
    let mut config = config;
    config.areas[0].rules = vec![rule(&[StorageAction::Read], |rule| {
        rule.dn = Some("/O=Weir/CN=Ada".into());
    })];
    std::fs::write(lab.authorities().join("ca.r0"), lab.revocation_list(&[])).unwrap();
    at.running.reload(config).await.unwrap();
    lost.ask("GET", "/f", &[], "").await.expect(200);
    other.ask("GET", "/f", &[], "").await.expect(403);
}

/// An issuer that is away for an hour would take all its users with it at the first reload.
#[tokio::test]
async fn keys_of_issuers_outlive_a_reload() {
    let mut lab = Lab::new();
    let (at, mut config) = configured(&lab, |_| {}).await;
    at.put("/f", "x").await.expect(201);
    lab.issuer.leave().await;
    config.audiences.push("https://another.name".to_owned());
    at.running.reload(config).await.unwrap();
    let claims = serde_json::json!({"scope": "storage.read:/", "aud": "https://another.name"});
    let bearer = format!("Bearer {}", lab.issuer.mint(&claims));
    at.ask("GET", "/f", &[("authorization", &bearer)], "").await.expect(200);
}
