//! More than is taken: refused early, or queued with signs of life.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http::{Response, header};
use http_body_util::BodyExt as _;
use weir_http::body;
use weir_storage::Share;

use super::lab::{Lab, noise, pieces, until};

/// A transfer too many must be told to come again, not to wait for ever.
#[tokio::test]
async fn transfers_beyond_the_limit_are_told_when_to_come_again() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.transfers = 1;
            config.limits.patience = Duration::from_millis(100);
        })
        .await;
    at.put("/f", noise(20_000_000)).await.expect(201);
    let first = at.begin("GET", "/f", &[], body::empty()).await;
    assert_eq!(first.status(), 200);
    let second = at.get("/f").await.expect(503);
    let after: u64 = second.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    at.put("/g", "x").await.expect(503);
    at.ask("HEAD", "/f", &[], "").await.expect(200);
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), 20_000_000);
    at.put("/g", "x").await.expect(201);
}

/// A burst that is over in a moment would cost each of its clients seconds.
#[tokio::test]
async fn a_short_burst_is_served_whole() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |config| config.limits.transfers = 2).await;
    at.put("/f", noise(1_000_000)).await.expect(201);
    let gets = (0..30).map(|_| async { at.get("/f").await.expect(200) });
    futures_util::future::join_all(gets).await;
}

/// One client, or one VO, would have the endpoint for itself.
#[tokio::test]
async fn a_share_of_one_leaves_the_rest_to_others() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.patience = Duration::from_millis(100);
            config.shares = vec![Share {
                client: Some("*".to_owned()),
                transfers: Some(1),
                ..Share::default()
            }];
        })
        .await;
    at.put("/f", noise(20_000_000)).await.expect(201);
    let first = at.begin("GET", "/f", &[], body::empty()).await;
    let refused = at.get("/f").await.expect(429);
    assert!(refused.header("retry-after").parse::<u64>().is_ok());
    assert!(
        refused.text().contains("as many as one client may"),
        "{}",
        refused.text()
    );
    let claims = serde_json::json!({"scope": "storage.read:/", "sub": "somebody else"});
    let other = format!("Bearer {}", lab.issuer.mint(&claims));
    at.ask("GET", "/f", &[("authorization", &other)], "").await.expect(200);
    drop(first);
}

/// A copy that waits for its turn lives by its markers; one too many is told to come again.
#[tokio::test]
async fn queued_copies_are_kept_alive() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.copies = 1;
            config.limits.copies_queued = 1;
            config.tpc.marker_interval = Duration::from_millis(20);
        })
        .await;
    let (release, held) = tokio::sync::watch::channel(false);
    let (_peer, peer) = lab.peer(move |_| {
        let mut held = held.clone();
        async move {
            let end = stream::once(async move {
                held.wait_for(|go| *go).await.unwrap();
                Ok(noise(5))
            });
            let mut response = Response::new(pieces(stream::iter(vec![Ok(noise(5))]).chain(end)));
            response.headers_mut().insert(header::CONTENT_LENGTH, 10.into());
            response
        }
    });
    let source = format!("{peer}/f");
    let copy = async |path: &str| at.begin("COPY", path, &[("Source", &source)], body::empty()).await;
    let metric = async |line: &str| at.get("/.well-known/weir/metrics").await.text().contains(line);
    let mut first = copy("/1").await;
    for tries in 0.. {
        if metric("weir_storage_copies_queued 0").await {
            break;
        }
        assert!(tries < 1000, "the first copy never has its turn");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut second = copy("/2").await;
    assert!(metric("weir_storage_copies_queued 1").await);
    at.pull("/3", &source, &[]).await.expect(503);
    for response in [&mut first, &mut second] {
        for _ in 0..3 {
            let marker = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(marker.starts_with(b"Perf Marker"));
        }
    }
    release.send(true).unwrap();
    for response in [first, second] {
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&text).contains("success"));
    }
    until("both files", || at.names() == ["1", "2"]).await;
}

/// A client that falls silent in its body must not hold its place for ever.
#[tokio::test]
async fn silent_clients_are_cut() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.limits.idle_timeout = Duration::from_millis(200))
        .await;
    let silent = stream::iter(vec![Ok(noise(100_000))]).chain(stream::pending());
    let response = at.begin("PUT", "/f", &[], pieces(silent)).await;
    assert_eq!(response.status(), 408);
    at.until_clean().await;
    assert!(at.names().is_empty());
}

/// A client that sends a byte now and then is never silent, and holds its place all the same.
#[tokio::test]
async fn crawling_clients_are_cut() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.pace_timeout = Duration::from_secs(1);
            config.limits.pace_bytes = "10 kB".parse().unwrap();
        })
        .await;
    let crawl = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Some((Ok(noise(10)), ()))
    });
    let answer = at.begin("PUT", "/f", &[], pieces(crawl)).await;
    assert_eq!(answer.status(), 408);
    let text = answer.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(text.starts_with(b"the client sent "), "{text:?}");
    at.until_clean().await;
    let steady = stream::unfold(0, |sent| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        (sent < 100).then(|| (Ok(noise(5000)), sent + 1))
    });
    at.send("PUT", "/f", &[], pieces(steady)).await.expect(201);
}

/// A client that takes a byte now and then, or none, holds its place as well as one that sends them; over TLS and, where the kernel
/// sends the file, without.
#[tokio::test]
async fn clients_that_take_a_file_too_slowly_are_cut() {
    for tls in [true, false] {
        let lab = Lab::new();
        let at = lab
            .endpoint("a", |config| {
                config.limits.transfers = 1;
                config.limits.pace_timeout = Duration::from_secs(1);
                config.limits.pace_bytes = "200 kB".parse().unwrap();
                if !tls {
                    config.tls = None;
                }
            })
            .await;
        let content = noise(40_000_000);
        at.put("/f", content.clone()).await.expect(201);
        let held = at.begin("GET", "/f", &[], body::empty()).await;
        assert_eq!(held.status(), 200);
        // Its own time is bounded too: the place comes free, and who takes the file as it comes is not cut.
        for tries in 0.. {
            let answer = at.get("/f").await;
            if answer.status == 200 {
                assert!(answer.body == content);
                break;
            }
            assert!(tries < 20, "the place is held for ever");
        }
        assert!(held.into_body().collect().await.is_err(), "the file ended well");
        let lines = at.log_lines(2).await;
        let cut: Vec<_> = lines
            .iter()
            .filter_map(|line| line["error"].as_str())
            .filter(|error| error.contains("the other side took"))
            .collect();
        assert_eq!(cut.len(), 1, "{lines:?}");
        assert!(cut[0].contains("in 1s, at least 200000 are asked"), "{cut:?}");
        let page = at.get("/.well-known/weir/metrics").await.text();
        assert!(page.contains("weir_storage_connections_too_slow_total 1\n"), "{page}");
    }
}

/// A client could hold a connection for weeks with the few bytes of a question, one a minute.
#[tokio::test]
async fn crawling_questions_are_cut() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| config.limits.idle_timeout = Duration::from_millis(500))
        .await;
    let crawl = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Some((Ok(noise(1)), ()))
    });
    let answer = at.begin("PROPFIND", "/", &[("depth", "0")], pieces(crawl)).await;
    assert_eq!(answer.status(), 408);
    let text = answer.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(text.starts_with(b"the body took longer"), "{text:?}");
}

/// A destination that takes the bytes and says nothing must not keep others from their turn.
#[tokio::test]
async fn a_push_that_waits_for_its_answer_gives_up_its_place() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.copies = 1;
            config.tpc.answer_timeout = Duration::from_secs(5);
        })
        .await;
    at.put("/f", noise(100_000)).await.expect(201);
    let (_peer, peer) = lab.peer(|request| async move {
        let mute = request.uri().path() == "/mute";
        let _ = request.into_body().collect().await;
        if mute {
            std::future::pending::<()>().await;
        }
        Response::builder().status(201).body(body::empty()).unwrap()
    });
    let destination = format!("{peer}/mute");
    let headers = [("Destination", destination.as_str()), ("TransferHeaderX", "x")];
    let mute = at.begin("COPY", "/f", &headers, body::empty()).await;
    let began = std::time::Instant::now();
    at.push("/f", &format!("{peer}/f"), &[]).await.copied();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "the second waited for the first"
    );
    let text = mute.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.contains("timeout (destination during finalization)") && text.contains("no answer for 5s"),
        "{text}"
    );
}

/// A long listing takes memory for as long as its client takes to read it; a short one takes none.
#[tokio::test]
async fn long_listings_beyond_the_limit_are_told_when_to_come_again() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.listings = 1;
            config.limits.patience = Duration::from_millis(100);
        })
        .await;
    let long = "x".repeat(200);
    std::fs::create_dir_all(at.root.join("d")).unwrap();
    for number in 0..8000 {
        std::fs::write(at.root.join(format!("d/{long}{number}")), "").unwrap();
    }
    let first = at.begin("PROPFIND", "/d", &[("depth", "1")], body::empty()).await;
    assert_eq!(first.status(), 207);
    at.ask("PROPFIND", "/d", &[("depth", "1")], "").await.expect(503);
    at.ask("PROPFIND", "/", &[("depth", "1")], "").await.expect(207);
    at.ask("PROPFIND", "/d", &[("depth", "0")], "").await.expect(207);
    let text = first.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(text.matches("<D:response>").count(), 8001);
    at.ask("PROPFIND", "/d", &[("depth", "1")], "").await.expect(207);
}

/// Metadata calls of many clients at once: none may be refused, however short the directories' turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_names_is_weathered() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let clients = (0..1000).map(|client| {
        let at = &at;
        async move {
            let path = format!("/client{client}");
            for _ in 0..2 {
                at.ask("MKCOL", &path, &[], "").await.expect(201);
                at.ask("PROPFIND", &path, &[("depth", "1")], "").await.expect(207);
                at.ask("DELETE", &path, &[], "").await.expect(204);
            }
        }
    });
    futures_util::future::join_all(clients).await;
    let left = at.ask("PROPFIND", "/", &[("depth", "1")], "").await.expect(207).text();
    assert_eq!(left.matches("<D:response>").count(), 1, "{left}");
}

/// Many at once must all arrive, and the books must balance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_transfers_at_once() {
    let lab = Lab::new();
    let a = lab.endpoint("a", |_| {}).await;
    let b = lab.endpoint("b", |config| config.limits.copies = 8).await;
    let content = noise(300_000);
    a.put("/f", content.clone()).await.expect(201);
    let source = a.url("/f");
    let copies = (0..40).map(|number| {
        let (b, source) = (&b, &source);
        async move { b.pull(&format!("/d/{number}"), source, &[]).await.copied() }
    });
    futures_util::future::join_all(copies).await;
    let counted = b.running.counters()["data"].clone();
    assert_eq!(
        (counted.files, counted.used, counted.traffic.received_completed),
        (40, 12_000_000, 12_000_000)
    );
    let gets = (0..40).map(|number| {
        let (b, content) = (&b, &content);
        async move { assert!(b.get(&format!("/d/{number}")).await.body == *content) }
    });
    futures_util::future::join_all(gets).await;
}
