//! Third-party copies between two endpoints, and with peers that have ways of their own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use weir_http::body;
use weir_units::Algorithm;

use super::lab::{Endpoint, Lab, digest, noise};
use super::marker_parser::{MarkerParser, Said};

async fn pair(lab: &Lab) -> (Endpoint, Endpoint) {
    (lab.endpoint("a", |_| {}).await, lab.endpoint("b", |_| {}).await)
}

/// The main job: bytes must arrive whole, both ways, and be counted alike by both sides.
#[tokio::test]
async fn pull_and_push_arrive_whole() {
    let lab = Lab::new();
    let (a, b) = pair(&lab).await;
    let mut total = 0;
    for size in [0, 1, 700_000, 5_000_003] {
        let content = noise(size);
        total += 2 * size as u64;
        a.put(&format!("/f{size}"), content.clone()).await.expect(201);
        let pulled = b
            .pull(
                &format!("/d%20d/f{size}"),
                &a.url(&format!("/f{size}")),
                &[("X-Number-Of-Streams", "0")],
            )
            .await;
        pulled.copied();
        assert!(
            pulled
                .text()
                .contains(&digest(Algorithm::Adler32, &content).replace('=', ":")),
            "{}",
            pulled.text()
        );
        assert!(pulled.last_word().contains("(verified)"), "{}", pulled.text());
        let pushed = a.push(&format!("/f{size}"), &b.url(&format!("/p/f{size}")), &[]).await;
        pushed.copied();
        assert!(pushed.last_word().contains("(verified)"), "{}", pushed.text());
        for path in [format!("/d%20d/f{size}"), format!("/p/f{size}")] {
            assert!(b.get(&path).await.expect(200).body == content, "{path}");
        }
    }
    let sent = a.running.counters()["data"].traffic;
    let received = b.running.counters()["data"].traffic;
    assert_eq!((sent.sent_completed, received.received_completed), (total, total));
    assert_eq!((sent.sent_failed, received.received_failed), (0, 0));
    // The receiving side of a pull knows whom it pulled from.
    let metrics = b.get("/.well-known/weir/metrics").await.text();
    let peer = a.running.address().ip();
    assert!(
        metrics.contains(&format!(
            "weir_storage_received_bytes_total{{area=\"data\",peer=\"{peer}\",outcome=\"completed\"}} {total}"
        )),
        "{metrics}"
    );
}

/// Markers keep the client alive: the first at once, in the form that davix reads.
#[tokio::test]
async fn markers_come_at_once_and_tell_the_truth() {
    let lab = Lab::new();
    let (a, b) = pair(&lab).await;
    a.put("/f", noise(1_000_000)).await.expect(201);
    let answer = b.pull("/f", &a.url("/f"), &[]).await;
    let (mut parser, mut said) = (MarkerParser::new(), Vec::new());
    parser.push(&answer.body, &mut said);
    let Said::Marker(first) = &said[0] else {
        panic!("{said:?}")
    };
    assert_eq!((first.stripe, first.stripes), (0, 1));
    let Said::Marker(last) = &said[said.len() - 2] else {
        panic!("{said:?}")
    };
    assert_eq!(
        (last.bytes, last.remote.as_slice()),
        (1_000_000, [a.running.address()].as_slice())
    );
    assert!(matches!(said.last(), Some(Said::Last(_))));
}

/// An existing file is replaced or kept, as asked; errors known beforehand are plain statuses.
#[tokio::test]
async fn overwrite_is_heeded() {
    let lab = Lab::new();
    let (a, b) = pair(&lab).await;
    a.put("/f", "new").await.expect(201);
    b.put("/f", "old").await.expect(201);
    b.pull("/f", &a.url("/f"), &[("Overwrite", "F")]).await.expect(412);
    a.push("/f", &b.url("/f"), &[("Overwrite", "F")])
        .await
        .failed(&["exists (destination", "Overwrite"]);
    assert_eq!(b.get("/f").await.text(), "old");
    let creator = format!("Bearer {}", lab.token("storage.create:/"));
    b.pull("/f", &a.url("/f"), &[("authorization", &creator)])
        .await
        .expect(403);
    b.pull("/f", &a.url("/f"), &[("Overwrite", "T")]).await.copied();
    assert_eq!(b.get("/f").await.text(), "new");
    a.put("/f", "newer").await.expect(204);
    a.push("/f", &b.url("/f"), &[]).await.copied();
    assert_eq!(b.get("/f").await.text(), "newer");
    a.push("/missing", &b.url("/f"), &[]).await.expect(404);
    a.push("/", &b.url("/f"), &[]).await.expect(403);
    b.pull("/f/g", &a.url("/f"), &[]).await.expect(409);
    b.ask(
        "COPY",
        "/f",
        &[("Source", &a.url("/f")), ("Destination", &a.url("/g"))],
        "",
    )
    .await
    .expect(400);
    b.ask("COPY", "/f", &[("Credential", "none")], "").await.expect(400);
    b.pull("/f", &a.url("/f"), &[("Credential", "gridsite")])
        .await
        .expect(400);
    b.pull("/f", &a.url("/f").replace("https", "http"), &[])
        .await
        .expect(400);
    assert_eq!(b.get("/f").await.text(), "newer");
}

/// Pools answer with redirects; the token must stay with the host it was meant for.
#[tokio::test]
async fn redirects_are_followed_with_care() {
    let lab = Lab::new();
    let (a, b) = pair(&lab).await;
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (_pool, pool) = lab.peer({
        let seen = seen.clone();
        move |request| {
            let seen = seen.clone();
            async move {
                let token = ["authorization", "cookie", "x-amz-security-token"]
                    .iter()
                    .any(|name| request.headers().contains_key(*name))
                    || request.headers().get("clientinfo").is_none_or(|info| info != "job=1");
                seen.lock()
                    .push((request.method().to_string(), request.uri().to_string(), token));
                let body = request.into_body().collect().await.unwrap().to_bytes();
                Response::builder()
                    .status(if body.is_empty() { 200 } else { 201 })
                    .body(body::full("from the pool"))
                    .unwrap()
            }
        }
    });
    let (_door, door) = lab.peer(move |request| {
        let to = match request.uri().path() {
            "/pool" => format!("{pool}/data?ticket=1"),
            "/here" => "/there".into(),
            "/there" => format!("{pool}/again"),
            "/plain" => pool.replace("https", "http"),
            _ => "/loop".into(),
        };
        async move {
            Response::builder()
                .status(307)
                .header("location", to)
                .body(body::empty())
                .unwrap()
        }
    });
    let more = [
        ("TransferHeaderCookie", "secret"),
        ("TransferHeaderX-Amz-Security-Token", "secret"),
        ("TransferHeaderClientInfo", "job=1"),
    ];
    b.pull("/f", &format!("{door}/pool"), &more).await.copied();
    b.pull("/f", &format!("{door}/here"), &more).await.copied();
    assert_eq!(b.get("/f").await.text(), "from the pool");
    b.pull("/f", &format!("{door}/loop"), &[])
        .await
        .failed(&["protocol (source", "redirects"]);
    b.pull("/f", &format!("{door}/plain"), &[])
        .await
        .failed(&["protocol (source", "from https to http"]);
    a.put("/f", noise(600_000)).await.expect(201);
    a.push("/f", &format!("{door}/pool"), &more).await.copied();
    let seen = seen.lock();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|(_, _, token)| !token), "{seen:?}");
    assert_eq!((seen[0].1.as_str(), seen[2].0.as_str()), ("/data?ticket=1", "PUT"));
}

/// Some sources have no checksum to show; whether that matters is the client's word.
#[tokio::test]
async fn a_required_checksum_must_be_there() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let heads = Arc::new(AtomicUsize::new(0));
    let (_peer, peer) = lab.peer({
        let heads = heads.clone();
        move |request| {
            let heads = heads.clone();
            async move {
                let mut response = Response::new(body::full("content"));
                if request.method() == http::Method::HEAD {
                    heads.fetch_add(1, Ordering::Relaxed);
                    assert!(request.headers()["want-digest"].to_str().unwrap().contains("adler32"));
                    if request.uri().path() == "/late" {
                        response
                            .headers_mut()
                            .insert("digest", digest(Algorithm::Adler32, b"content").parse().unwrap());
                    }
                    if request.uri().path() == "/nonsense" {
                        response.headers_mut().insert("digest", "adler32=zz".parse().unwrap());
                    }
                    if request.uri().path() == "/wrong" {
                        response
                            .headers_mut()
                            .insert("digest", "adler32=00000001".parse().unwrap());
                    }
                    *response.body_mut() = body::empty();
                }
                response
            }
        }
    });
    let must = [("RequireChecksumVerification", "true")];
    b.pull("/f", &format!("{peer}/none"), &[]).await.copied();
    assert_eq!(heads.load(Ordering::Relaxed), 0, "nobody asked for it");
    b.pull("/f", &format!("{peer}/late"), &must).await.copied();
    b.pull("/g", &format!("{peer}/none"), &must)
        .await
        .failed(&["checksum (source", "required"]);
    b.pull("/g", &format!("{peer}/wrong"), &must)
        .await
        .failed(&["checksum (source during finalization)", "mismatch"]);
    b.pull("/g", &format!("{peer}/nonsense"), &must)
        .await
        .failed(&["protocol (source", "digest: \"adler32=zz\" is no checksum"]);
    b.pull("/g", &format!("{peer}/none"), &[("Digest", "adler32=zz")])
        .await
        .expect(400);
    b.pull("/g", &format!("{peer}/none"), &[("Digest", "adler32=00000001")])
        .await
        .failed(&["checksum (source", "mismatch"]);
    b.pull("/g", &format!("{peer}/none"), &[("Repr-Digest", "adler=:AAAAAQ==:")])
        .await
        .failed(&["checksum"]);
    b.until_clean().await;
    assert_eq!(b.names(), ["f"]);
}

/// XRootD answers 500 to a GET that asks for a checksum where it means "missing"; the transfer service must hear "missing".
#[tokio::test]
async fn a_source_that_trips_over_checksums_is_asked_again() {
    let lab = Lab::new();
    let b = lab.endpoint("b", |_| {}).await;
    let (_peer, peer) = lab.peer(|request| async move {
        let status = match (request.headers().contains_key("want-digest"), request.uri().path()) {
            (true, _) => 500,
            (false, "/f") => 200,
            (false, _) => 404,
        };
        let status = StatusCode::from_u16(status).unwrap();
        Response::builder().status(status).body(body::full("content")).unwrap()
    });
    let word = b.pull("/f", &format!("{peer}/f"), &[]).await.last_word();
    assert!(word.starts_with("success") && word.contains("not compared"), "{word}");
    b.pull("/g", &format!("{peer}/missing"), &[])
        .await
        .failed(&["not-found (source"]);
    assert_eq!(b.names(), ["f"]);
}

/// Third parties speak dialects: other scheme names, forwarded headers, labels that mean nothing to us.
#[tokio::test]
async fn dialects_are_understood() {
    let lab = Lab::new();
    let (a, b) = pair(&lab).await;
    a.put("/f", "content").await.expect(201);
    let source = a.url("/f").replace("https", "davs");
    b.pull(
        "/1",
        &source,
        &[
            ("Secure-Redirection", "1"),
            ("SciTag", "66"),
            ("ClientInfo", "job-id=1"),
            ("X-No-Delegate", "true"),
        ],
    )
    .await
    .copied();
    let copy_header = format!("Authorization: Bearer {}", lab.all());
    b.ask("COPY", "/2", &[("Source", &source), ("Copy-Header", &copy_header)], "")
        .await
        .copied();
    b.pull(
        "/3",
        &source,
        &[
            ("SciTag", "x"),
            ("RequireChecksumVerification", "false"),
            ("X-Number-Of-Streams", "10"),
        ],
    )
    .await
    .copied();
    for path in ["/1", "/2", "/3"] {
        assert_eq!(b.get(path).await.text(), "content");
    }
    // To ourselves, through the network.
    a.push("/f", &a.url("/g"), &[]).await.copied();
    a.pull("/h", &a.url("/g"), &[]).await.copied();
    assert_eq!(a.get("/h").await.text(), "content");
}

/// A destination that answers before the body must be heard, and told nothing more.
#[tokio::test]
async fn a_push_hears_an_early_no() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    a.put("/f", noise(3_000_000)).await.expect(201);
    let (_peer, peer) = lab.peer(|request| async move {
        let status = match request.uri().path() {
            "/full" => 507,
            "/busy" => 503,
            "/denied" => 403,
            _ => 404,
        };
        Response::builder()
            .status(StatusCode::from_u16(status).unwrap())
            .header("content-type", "text/plain")
            .body(body::full("my reason"))
            .unwrap()
    });
    for (path, expected) in [
        ("/full", "no-space"),
        ("/busy", "overload"),
        ("/denied", "permission"),
        ("/x", "not-found"),
    ] {
        let answer = a.push("/f", &format!("{peer}{path}"), &[]).await;
        answer.failed(&[
            expected,
            "(destination during transfer)",
            "my reason",
            &format!("PUT {peer}{path}"),
        ]);
    }
    assert_eq!(a.running.counters()["data"].traffic.sent_failed, 0);
}

/// A destination that says yes to a file it was not sent makes the transfer service delete the source's last copy.
#[tokio::test]
async fn a_push_believes_no_yes_that_comes_too_early() {
    let lab = Lab::new();
    let a = lab
        .endpoint("a", |config| config.tpc.continue_timeout = Duration::from_secs(60))
        .await;
    a.put("/f", noise(20_000_000)).await.expect(201);
    a.put("/empty", "").await.expect(201);
    let (_peer, peer) = lab.peer(|request| async move {
        let (path, mut body) = (request.uri().path().to_owned(), request.into_body());
        let status = match path.as_str() {
            "/accepted" => 202,
            "/multi" => 207,
            _ => 201,
        };
        if path == "/middle" {
            let _ = body.frame().await;
            // Dropped at once, it would break the connection, perhaps before the answer is read.
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                drop(body);
            });
        } else if path != "/early" {
            let _ = body.collect().await;
        }
        Response::builder().status(status).body(body::empty()).unwrap()
    });
    for required in ["true", "false"] {
        let more = [("RequireChecksumVerification", required)];
        for path in ["/early", "/middle"] {
            let answer = a.push("/f", &format!("{peer}{path}"), &more).await;
            answer.failed(&[
                "protocol (destination during transfer)",
                "answered 201 Created after ",
                " of 20000000 bytes",
            ]);
        }
        for (path, status) in [("/accepted", "202"), ("/multi", "207")] {
            let answer = a.push("/f", &format!("{peer}{path}"), &more).await;
            answer.failed(&["protocol (destination during transfer)", status]);
        }
    }
    a.push("/f", &format!("{peer}/whole"), &[]).await.copied();
    a.push("/empty", &format!("{peer}/early"), &[]).await.copied();
}

/// An operator who looks for the limit of a link would look at numbers of no connection, or of those alone that are still open.
#[tokio::test]
async fn tcp_figures_are_counted_by_side_and_congestion_control() {
    let lab = Lab::new();
    let a = lab
        .endpoint("a", |config| config.tpc.sockets.congestion = Some("reno".into()))
        .await;
    let b = lab.endpoint("b", |_| {}).await;
    let size = 5_000_003_u32;
    a.put("/f", noise(size as usize)).await.expect(201);
    // The kernel counts busy time in ticks of some milliseconds, and a copy may fit between two of them.
    let (mut page, mut n_copies) = (String::new(), 0);
    while page.is_empty() || (value(&page, "busy_seconds_total", "copies")[0].1 <= 0.0 && n_copies < 200) {
        a.push("/f", &b.url("/f"), &[("Overwrite", "T")]).await.copied();
        page = a.get("/.well-known/weir/metrics").await.text();
        n_copies += 1;
    }
    assert!(value(&page, "busy_seconds_total", "copies")[0].1 > 0.0);
    let value = |name: &str, side: &str| value(&page, name, side);
    let sent = value("sent_bytes_total", "copies");
    assert!(
        matches!(&sent[..], [(name, bytes)] if name == "reno" && *bytes > f64::from(size * n_copies)),
        "{sent:?}"
    );
    for name in ["connections", "window_bytes", "round_trip_seconds"] {
        let shown = value(name, "clients");
        assert!(
            shown.iter().map(|(_, value)| value).sum::<f64>() > 0.0,
            "{name}: {shown:?}"
        );
    }
}

/// Values of a TCP metric on one side, by congestion control.
fn value(page: &str, name: &str, side: &str) -> Vec<(String, f64)> {
    let start = format!("weir_storage_tcp_{name}{{side=\"{side}\",congestion=\"");
    let lines = page.lines().filter_map(|line| line.strip_prefix(&start));
    let known = lines.filter_map(|line| line.rsplit_once("\"} "));
    let of = |(labels, value): (&str, &str)| {
        // Bytes are counted by peer elsewhere.
        let (congestion, peer) = labels.split_once("\",peer=\"").unwrap_or((labels, "127.0.0.1"));
        assert_eq!(name.contains("bytes_total"), !labels.contains("peer="), "{labels}");
        assert!(peer.parse::<std::net::IpAddr>().is_ok(), "{peer}");
        (congestion.to_owned(), value.parse::<f64>().unwrap())
    };
    known.map(of).collect()
}
