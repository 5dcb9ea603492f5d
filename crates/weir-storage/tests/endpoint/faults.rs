//! Faults of the field: each must end in an error that names the party, the phase and the cause, and leave nothing.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Response, header};
use http_body_util::BodyExt as _;
use weir_http::body;
use weir_storage::Storage;
use weir_units::Algorithm;

use super::lab::{Lab, digest, noise, pieces, until};

/// Bytes that changed after they were stored must not spread.
#[tokio::test]
async fn corruption_at_the_source_is_caught() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |_| {}).await;
    a.put("/f", noise(1_300_000)).await.expect(201);
    rot(&a.root.join("f"));
    b.pull("/f", &a.url("/f"), &[])
        .await
        .failed(&["checksum (source during finalization)", "mismatch", "adler32:"]);
    // The destination refuses it, or the source notices itself: either way nothing arrives.
    a.push("/f", &b.url("/f"), &[]).await.failed(&["checksum (source"]);
    let (_peer, deaf) = lab.peer(|request| async move {
        let _ = request.into_body().collect().await;
        Response::builder().status(201).body(body::empty()).unwrap()
    });
    a.push("/f", &format!("{deaf}/f"), &[])
        .await
        .failed(&["checksum (source", "damaged"]);
    b.until_clean().await;
    assert!(b.names().is_empty());
    assert_eq!(b.running.counters()["data"].used, 0);
    let metrics = b.get("/.well-known/weir/metrics").await.text();
    assert!(
        !metrics.contains("weir_storage_checksum_mismatches_total 0"),
        "{metrics}"
    );
}

/// Flips a bit in the middle and sets the times back: as a rotting disk does.
fn rot(path: &std::path::Path) {
    let meta = std::fs::metadata(path).unwrap();
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &content, 0).unwrap();
    file.set_modified(meta.modified().unwrap()).unwrap();
}

/// A copy whose other side cannot be reached, or does not let us in.
#[tokio::test]
async fn the_other_side_says_no() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |_| {}).await;
    a.put("/f", noise(100)).await.expect(201);
    b.pull("/g", &a.url("/missing"), &[]).await.failed(&[
        "not-found (source during preparation)",
        "404",
        &a.url("/missing"),
    ]);
    let expired = format!(
        "Bearer {}",
        lab.issuer
            .mint(&serde_json::json!({"scope": "storage.read:/", "exp": 1_700_000_000}))
    );
    b.pull("/g", &a.url("/f"), &[("TransferHeaderAuthorization", &expired)])
        .await
        .failed(&["token (source", "401", "expired"]);
    let narrow = format!("Bearer {}", lab.token("storage.read:/other"));
    b.pull("/g", &a.url("/f"), &[("TransferHeaderAuthorization", &narrow)])
        .await
        .failed(&["permission (source", "needs storage.read:/f"]);
    a.push("/f", &b.url("/g"), &[("TransferHeaderAuthorization", &narrow)])
        .await
        .failed(&["permission (destination", "403", "storage."]);
    let (peer, misnamed) = lab.misnamed_peer();
    b.pull("/g", &format!("{misnamed}/f"), &[])
        .await
        .failed(&["tls (source during preparation)", &misnamed]);
    a.push("/f", &format!("{misnamed}/f"), &[])
        .await
        .failed(&["tls (destination"]);
    peer.shutdown().await;
    b.pull("/g", &format!("{misnamed}/f"), &[])
        .await
        .failed(&["network (source", "connect"]);
    b.pull("/g", "https://no-such-host.invalid/f", &[])
        .await
        .failed(&["network (source", "resolve"]);
    assert!(b.names().is_empty());
}

/// Strangers must not make us knock at our neighbours' doors.
#[tokio::test]
async fn local_addresses_are_refused_unless_allowed() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |config| config.tpc.allow.clear()).await;
    a.put("/f", "x").await.expect(201);
    let port = a.running.address().port();
    let ip = a.running.address().ip();
    for host in [
        ip.to_string(),
        "localhost".into(),
        "2130706433".into(),
        "0x7f000001".into(),
        "[::ffff:127.0.0.1]".into(),
        "169.254.169.254".into(),
        "10.0.0.1".into(),
    ] {
        let answer = b.pull("/g", &format!("https://{host}:{port}/f"), &[]).await;
        let word = answer.last_word();
        assert!(
            word.contains("may not connect") || word.contains("could not resolve"),
            "{host}: {word}"
        );
    }
    b.pull("/g", &a.url("/f"), &[])
        .await
        .failed(&["permission (source", "tpc.allow"]);
    // Nor by way of a redirect.
    let target = a.url("/f");
    let (_door, door) = lab.peer(move |_| {
        let target = target.clone();
        async move {
            Response::builder()
                .status(302)
                .header("location", target)
                .body(body::empty())
                .unwrap()
        }
    });
    let address = door
        .trim_start_matches("https://")
        .rsplit_once(':')
        .unwrap()
        .0
        .to_owned();
    let c = lab
        .endpoint("c", |config| config.tpc.allow = vec![address.parse().unwrap()])
        .await;
    c.pull("/g", &format!("{door}/f"), &[])
        .await
        .failed(&["permission (source", &ip.to_string()]);
    assert!(b.names().is_empty() && c.names().is_empty());
}

/// Sources that break their promise about the size, or fall silent.
#[tokio::test]
async fn sources_that_stop_short_or_stall() {
    let lab = Lab::new();
    let b = lab
        .endpoint("b", |config| {
            config.tpc.stall_timeout = Duration::from_millis(300);
            config.tpc.response_timeout = Duration::from_millis(500);
        })
        .await;
    let (_peer, peer) = lab.peer(|request| async move {
        let some = stream::iter(vec![Ok(noise(200_000))]);
        let path = request.uri().path().to_owned();
        let content = match path.as_str() {
            "/short" => pieces(some),
            "/breaks" => pieces(some.chain(stream::iter(vec![Err("gone".into())]))),
            "/silent" => std::future::pending().await,
            _ => pieces(some.chain(stream::pending())),
        };
        let mut response = Response::new(content);
        if path != "/stalls-chunked" {
            response.headers_mut().insert(header::CONTENT_LENGTH, 500_000.into());
        }
        response
    });
    for path in ["short", "breaks"] {
        b.pull("/g", &format!("{peer}/{path}"), &[])
            .await
            .failed(&["network (source during", "broke off"]);
    }
    for path in ["stalls", "stalls-chunked"] {
        b.pull("/g", &format!("{peer}/{path}"), &[])
            .await
            .failed(&["stall (source during transfer)", "300ms"]);
    }
    b.pull("/g", &format!("{peer}/silent"), &[])
        .await
        .failed(&["timeout (source during preparation)"]);
    b.until_clean().await;
    assert!(b.names().is_empty());
    assert_eq!(b.running.counters()["data"].used, 0);
    assert_eq!(b.running.counters()["data"].traffic.received_completed, 0);
}

/// A client that leaves takes its copy with it; the next one must find the path free.
#[tokio::test]
async fn a_copy_ends_with_its_client() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let (_peer, peer) = lab.peer(|_| async {
        let mut response = Response::new(pieces(
            stream::iter(vec![Ok(noise(3_000_000))]).chain(stream::pending()),
        ));
        response.headers_mut().insert(header::CONTENT_LENGTH, 5_000_000.into());
        response
    });
    let source = format!("{peer}/f");
    let headers = [("Source", source.as_str()), ("TransferHeaderAuthorization", "Bearer x")];
    let response = b.begin("COPY", "/f", &headers, body::empty()).await;
    assert_eq!(response.status(), 202);
    until("bytes on the disk", || private_bytes(&b.root) > 1_000_000).await;
    b.pull("/f", &source, &[]).await.expect(409);
    b.put("/f", "x").await.expect(409);
    drop(response);
    b.until_clean().await;
    b.put("/f", "x").await.expect(201);
    assert_eq!(b.names(), ["f"]);
    let lines = b.log_lines(4).await;
    assert!(
        lines.iter().any(|line| line["error"]
            .as_str()
            .is_some_and(|error| error.contains("client went away"))),
        "{lines:?}"
    );
}

/// Bytes of files that nobody sees yet.
pub(crate) fn private_bytes(root: &std::path::Path) -> u64 {
    std::fs::read_dir(root.join(".weir-private"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().map_or(0, |meta| meta.len()))
        .sum()
}

/// Two writers of one path: one is told so, the other's file arrives whole.
#[tokio::test]
async fn two_writers_do_not_mix() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let (release, held) = tokio::sync::oneshot::channel::<()>();
    let content = noise(2_000_000);
    let slow = stream::once({
        let content = content.clone();
        async move { Ok(content) }
    })
    .chain(stream::once(async move {
        held.await.unwrap();
        Ok(Bytes::from_static(b"end"))
    }));
    let first = at.send("PUT", "/f", &[], pieces(slow));
    let second = async {
        until("the first writer is at work", || private_bytes(&at.root) > 0).await;
        at.put("/f", "second").await.expect(409);
        at.put("/g", "elsewhere").await.expect(201);
        // Removing what is not there yet is no business of the writer's.
        at.ask("DELETE", "/f", &[], "").await.expect(404);
        release.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(first, second);
    first.expect(201);
    let arrived = at.get("/f").await;
    assert!(arrived.body[..2_000_000] == content && arrived.body.ends_with(b"end"));
}

/// A full or closed area says so before the body, and while it comes.
#[tokio::test]
async fn full_and_read_only_areas() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let full = lab
        .endpoint("full", |config| config.areas[0].quota = Some("1 MB".parse().unwrap()))
        .await;
    a.put("/big", noise(1_500_000)).await.expect(201);
    let answer = full.put("/f", noise(1_500_000)).await.expect(507);
    assert!(answer.text().contains("quota of area data"), "{}", answer.text());
    let chunked = stream::iter((0..30).map(|_| Ok(noise(50_000))));
    full.send("PUT", "/f", &[], pieces(chunked)).await.expect(507);
    full.pull("/f", &a.url("/big"), &[])
        .await
        .failed(&["no-space (destination", "quota"]);
    a.push("/big", &full.url("/f"), &[])
        .await
        .failed(&["no-space (destination", "quota"]);
    full.until_clean().await;
    // The room of the failed ones is free again.
    full.put("/f", noise(999_000)).await.expect(201);
    full.put("/g", noise(2_000)).await.expect(507);
    full.ask("DELETE", "/f", &[], "").await.expect(204);
    full.put("/g", noise(2_000)).await.expect(201);
    let closed = lab.endpoint("closed", |config| config.areas[0].read_only = true).await;
    std::fs::write(closed.root.join("f"), "x").unwrap();
    for (method, path) in [("PUT", "/g"), ("DELETE", "/f"), ("MKCOL", "/d")] {
        let answer = closed.ask(method, path, &[], "").await.expect(403);
        assert!(answer.text().contains("read-only"), "{}", answer.text());
    }
    closed.ask("MOVE", "/f", &[("destination", "/g")], "").await.expect(403);
    closed.pull("/g", &a.url("/big"), &[]).await.expect(403);
    a.push("/big", &closed.url("/g"), &[])
        .await
        .failed(&["read-only (destination", "403"]);
    assert_eq!(closed.get("/f").await.expect(200).text(), "x");
}

/// Nothing leads out of an area: not by dots, encodings or links.
#[tokio::test]
async fn paths_stay_inside() {
    let lab = Lab::new();
    std::fs::write(lab.dir.path().join("secret"), "secret").unwrap();
    let at = lab.endpoint("a", |_| {}).await;
    std::os::unix::fs::symlink("../secret", at.root.join("link")).unwrap();
    std::os::unix::fs::symlink("..", at.root.join("up")).unwrap();
    std::os::unix::fs::symlink("/etc", at.root.join("etc")).unwrap();
    at.put("/d/f", "x").await.expect(201);
    for path in [
        "/../secret",
        "/%2e%2e/secret",
        "/d/%2E%2E/%2e%2e/secret",
        "/..%2fsecret",
        "/d%2Ff",
        "/d/./f",
        "/d/%00",
        "/%ff",
        "/%zz",
        "/d%0a",
    ] {
        for method in ["GET", "PUT", "DELETE", "MKCOL", "PROPFIND"] {
            at.ask(method, path, &[("depth", "0")], "").await.expect(400);
        }
    }
    for path in ["/link", "/up/secret", "/up/a/d/f", "/etc/passwd"] {
        for method in ["GET", "HEAD", "PROPFIND"] {
            at.ask(method, path, &[("depth", "0")], "").await.expect(403);
        }
        assert!(at.put(path, "overwritten").await.status.is_client_error(), "{path}");
        at.ask("MOVE", "/d/f", &[("destination", path)], "").await.expect(403);
    }
    at.put("/up/new", "x").await.expect(403);
    for path in ["/.weir-private", "/.weir-private/lock", "/d/.weir-x"] {
        for method in ["GET", "PUT", "DELETE", "PROPFIND"] {
            at.ask(method, path, &[("depth", "0")], "").await.expect(403);
        }
    }
    at.ask("MOVE", "/d/f", &[("destination", "/.weir-private/f")], "")
        .await
        .expect(403);
    // Removing a tree removes the link, never what it points to.
    std::os::unix::fs::symlink("../../secret", at.root.join("d/link")).unwrap();
    at.ask("DELETE", "/d", &[], "").await.expect(204);
    assert_eq!(
        std::fs::read_to_string(lab.dir.path().join("secret")).unwrap(),
        "secret"
    );
    assert!(!lab.dir.path().join("new").exists());
}

/// The leftovers of an earlier life are swept at start, and only that.
#[tokio::test]
async fn leftovers_are_swept_at_start() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    at.put("/d/f", noise(10)).await.expect(201);
    let (root, private) = (at.root.clone(), at.root.join(".weir-private"));
    let listen = at.running.address();
    // A second endpoint over the same directory would sweep the first one's drafts.
    let second = Storage::start(lab.config("a", listen)).await;
    assert!(second.is_err_and(|error| std::error::Error::source(&error).unwrap().to_string().contains("lock")));
    at.running.shutdown().await;
    std::fs::write(private.join(".weir-tmp-0123"), noise(1000)).unwrap();
    std::fs::create_dir_all(private.join(".weir-tmp-tree/a/b")).unwrap();
    std::fs::write(private.join(".weir-tmp-tree/a/b/f"), "x").unwrap();
    std::fs::write(root.join("d/.weir-tmp-not-ours"), "x").unwrap();
    let at = lab.endpoint("a", |_| {}).await;
    at.until_clean().await;
    assert_eq!(at.names(), ["d/.weir-tmp-not-ours", "d/f"]);
    assert!(
        at.get("/.well-known/weir/metrics")
            .await
            .text()
            .contains("weir_storage_swept_total 2")
    );
    assert_eq!(
        (at.running.counters()["data"].used, at.running.counters()["data"].files),
        (10, 1)
    );
    assert_eq!(at.get("/d/f").await.body, noise(10));
}

/// A body whose end is the connection's end may have been cut short: without a sign that it is whole it is no file.
#[tokio::test]
async fn a_body_without_length_must_prove_its_end() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let content = noise(100_000);
    let whole = digest(Algorithm::Adler32, &content);
    let (_peer, peer) = lab.peer(move |request| {
        let (content, whole) = (content.clone(), whole.clone());
        async move {
            let path = request.uri().path().to_owned();
            let looks = request.method() == http::Method::HEAD;
            let sent = if path.starts_with("/cut") {
                content.slice(..50_000)
            } else {
                content.clone()
            };
            let mut response = Response::new(if looks {
                body::empty()
            } else {
                pieces(stream::iter(vec![Ok(sent)]))
            });
            if !looks {
                *response.version_mut() = http::Version::HTTP_10;
            }
            if path.ends_with("digest") || (looks && path.ends_with("late")) {
                response.headers_mut().insert("digest", whole.parse().unwrap());
            }
            if looks && path.ends_with("length") {
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, content.len().into());
            }
            if looks && path.ends_with("silent") {
                *response.status_mut() = http::StatusCode::FORBIDDEN;
            }
            if path == "/packed" {
                response
                    .headers_mut()
                    .insert(header::TRANSFER_ENCODING, "gzip, chunked".parse().unwrap());
                *response.version_mut() = http::Version::HTTP_11;
            }
            response
        }
    });
    for path in ["whole-digest", "whole-late", "whole-length"] {
        b.pull(&format!("/{path}"), &format!("{peer}/{path}"), &[])
            .await
            .copied();
    }
    for (path, expected) in [
        ("cut", "neither length nor checksum"),
        ("cut-silent", "403"),
        ("cut-digest", "mismatch"),
        ("cut-late", "mismatch"),
        ("cut-length", "50000 bytes came where 100000 were announced"),
        ("packed", "another encoding"),
    ] {
        b.pull("/cut", &format!("{peer}/{path}"), &[])
            .await
            .failed(&["(source during", expected]);
    }
    b.until_clean().await;
    assert_eq!(b.names(), ["whole-digest", "whole-late", "whole-length"]);
}
