//! Limits of bandwidth: kept by every kind of transfer, and shared by those who have something to move.

use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::json;
use weir_http::body;
use weir_storage::{IssuerConfig, Share, StorageConfig};

use super::lab::{Lab, noise};

const RATE: usize = 4_000_000;
const SIZE: usize = 4_000_000;

/// A second's worth of bytes, but for the piece that is moved before it is paid for and what lateness is forgiven.
const LEAST: Duration = Duration::from_millis(600);

fn limited(config: &mut StorageConfig) {
    config.limits.bandwidth = Some("4 MB/s".parse().unwrap());
}

/// One way of moving bytes that is not limited is enough to fill the link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_transfer_keeps_the_limit() {
    assert_eq!(RATE, SIZE);
    let lab = Lab::new();
    let content = noise(SIZE);
    let free = lab.endpoint("free", |_| {}).await;
    free.put("/f", content.clone()).await.expect(201);
    for kind in ["get", "get plain", "put", "pull", "streams", "push"] {
        let at = lab
            .endpoint(kind, |config| {
                limited(config);
                if kind == "get plain" {
                    config.tls = None;
                }
            })
            .await;
        // Past the limit, as by an administrator.
        std::fs::write(at.root.join("f"), &content).unwrap();
        let source = free.url("/f");
        let began = Instant::now();
        match kind {
            "get" | "get plain" => assert!(at.get("/f").await.expect(200).body == content),
            "put" => drop(at.put("/g", content.clone()).await.expect(201)),
            "pull" => at.pull("/g", &source, &[]).await.copied(),
            "streams" => at.pull("/g", &source, &[("X-Number-Of-Streams", "4")]).await.copied(),
            _ => at.push("/f", &free.url("/pushed"), &[]).await.copied(),
        }
        assert!(began.elapsed() >= LEAST, "{kind} took {:?}", began.elapsed());
        let page = at.get("/.well-known/weir/metrics").await.text();
        assert!(page.contains("weir_storage_bandwidth_limit_bytes 4000000\n"), "{page}");
        let held = page
            .lines()
            .find_map(|line| line.strip_prefix("weir_storage_bandwidth_held_back_seconds_total{limit=\"all\"} "));
        assert!(held.unwrap().parse::<f64>().unwrap() > 0.5, "{kind}: {page}");
        if kind == "get plain" {
            // The first reading took the checksums; the second is the kernel's.
            let began = Instant::now();
            assert!(at.get("/f").await.expect(200).body == content);
            assert!(began.elapsed() >= LEAST, "by the kernel {:?}", began.elapsed());
        }
        if kind == "put" || kind == "pull" || kind == "streams" {
            assert!(std::fs::read(at.root.join("g")).unwrap() == content, "{kind}");
        }
    }
    assert!(std::fs::read(free.root.join("pushed")).unwrap() == content);
}

/// Reads so many bytes of a body.
async fn take(body: &mut Incoming, mut bytes: usize) -> Instant {
    while bytes > 0 {
        let frame = body.frame().await.unwrap().unwrap();
        bytes = bytes.saturating_sub(frame.into_data().unwrap().len());
    }
    Instant::now()
}

/// A VO with a small share would have as much as one with a large one, or those of one VO not the same as each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_of_bandwidth_are_those_that_were_given() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.issuers = vec![IssuerConfig::new(&lab.issuer.url)];
            let share = |client: &str, rate: &str| Share {
                client: Some(client.to_owned()),
                bandwidth: Some(rate.parse().unwrap()),
                ..Share::default()
            };
            config.shares = vec![share("large", "6 MB/s"), share("*", "2 MB/s")];
        })
        .await;
    std::fs::write(at.root.join("f"), noise(60_000_000)).unwrap();
    let begin = async |subject: &str| {
        let claims = json!({"scope": "storage.read:/", "sub": subject});
        let token = format!("Bearer {}", lab.issuer.mint(&claims));
        let response = at.begin("GET", "/f", &[("authorization", &token)], body::empty()).await;
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    let (mut large, mut small) = (begin("large").await, begin("small").await);
    let began = Instant::now();
    // The time of the one while the other has its part: no later than that by much, and no sooner than its limit lets it.
    let (large, small) = tokio::join!(take(&mut large, 9_000_000), take(&mut small, 3_000_000));
    let (large, small) = (large - began, small - began);
    assert!(
        large >= Duration::from_millis(1200) && small >= Duration::from_millis(1200),
        "{large:?} {small:?}"
    );
    let ratio = large.as_secs_f64() / small.as_secs_f64();
    assert!(
        (0.4..2.5).contains(&ratio),
        "{large:?} for three times as much as {small:?}"
    );
}

/// A copy that our own limit slows down would be given up as stalled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_ours_is_no_stall() {
    let lab = Lab::new();
    let free = lab.endpoint("free", |_| {}).await;
    free.put("/f", noise(600_000)).await.expect(201);
    let at = lab
        .endpoint("a", |config| {
            config.limits.bandwidth = Some("200 kB/s".parse().unwrap());
            config.limits.pace_timeout = Duration::from_millis(800);
            config.limits.pace_bytes = "400 kB".parse().unwrap();
            config.tpc.stall_timeout = Duration::from_millis(800);
            config.tpc.stall_bytes = "400 kB".parse().unwrap();
        })
        .await;
    at.pull("/g", &free.url("/f"), &[]).await.copied();
    at.put("/h", noise(600_000)).await.expect(201);
    at.push("/g", &free.url("/back"), &[]).await.copied();
    assert_eq!(at.get("/g").await.expect(200).body, noise(600_000));
}
