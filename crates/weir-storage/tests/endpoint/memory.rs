//! The memory of data in flight: a budget that holds, whoever comes, and that keeps nobody from the end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future::join_all, stream};
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_http::range::{self, Requested};
use weir_http::{Body, body};
use weir_units::Bytes;

use super::lab::{Endpoint, Lab, noise, pieces};

/// Of each stream, and of each checksum reader for good.
const FLOOR: u64 = 160 << 10;
const READERS: u64 = 4;

/// Floors for the readers and 15 streams.
const BUDGET: u64 = 19 * FLOOR;

/// The metrics.
async fn metric(at: &Endpoint, name: &str) -> u64 {
    let page = at.get("/.well-known/weir/metrics").await.expect(200).text();
    let line = page.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("{name} is not in\n{page}"))
        .rsplit_once(' ')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

const TAKEN: &str = "weir_storage_memory_bytes{state=\"taken\"}";
const WAITING: &str = "weir_storage_memory_waiting";

async fn until_only_readers_have_some(at: &Endpoint) {
    for tries in 0.. {
        let taken = metric(at, TAKEN).await;
        if taken == READERS * FLOOR {
            return;
        }
        assert!(tries < 1000, "{taken} bytes stay taken");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const SIZE: usize = 5_000_000;

/// A source that gives any part of its file, a little at a time.
fn slow(request: &Request<Incoming>) -> Response<Body> {
    let content = noise(SIZE);
    let asked = request
        .headers()
        .get(header::RANGE)
        .map(|value| value.to_str().unwrap());
    let (status, part) = match asked.map(|text| range::parse(text, SIZE as u64)) {
        Some(Requested::Part(part)) => (206, part.first as usize..part.last as usize + 1),
        _ => (200, 0..SIZE),
    };
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_LENGTH, part.len())
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, "\"one\"");
    if status == 206 {
        let text = format!("bytes {}-{}/{SIZE}", part.start, part.end - 1);
        response = response.header(header::CONTENT_RANGE, text);
    }
    if request.method() == "HEAD" {
        return response.body(body::empty()).unwrap();
    }
    let starts = part.clone().step_by(100_000);
    let slices = starts.map(move |start| content.slice(start..(start + 100_000).min(part.end)));
    let trickle = stream::iter(slices).then(|slice| async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(slice)
    });
    response.body(pieces(trickle)).unwrap()
}

/// Thirty pulls of sixteen streams have thirty times sixteen buffers, or wait for each other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pulls_of_many_streams_share_one_budget() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.memory = Bytes(BUDGET);
            config.tpc.marker_interval = Duration::from_millis(200);
        })
        .await;
    let (_peer, peer) = lab.peer(|request| async move { slow(&request) });
    let over = Arc::new(AtomicBool::new(false));
    let watch = async {
        let (mut most, mut waited) = (0, 0);
        while !over.load(Ordering::Relaxed) {
            most = metric(&at, TAKEN).await.max(most);
            waited = metric(&at, WAITING).await.max(waited);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        (most, waited)
    };
    let copies = async {
        let one = async |number: usize| {
            let source = format!("{peer}/f");
            let streams = [("X-Number-Of-Streams", "16"), ("RequireChecksumVerification", "false")];
            at.pull(&format!("/{number}"), &source, &streams).await
        };
        let copied = join_all((0..30).map(one)).await;
        over.store(true, Ordering::Relaxed);
        copied
    };
    let (copied, (most, waited)) = tokio::join!(copies, watch);
    copied.iter().for_each(super::lab::Answer::copied);
    assert!(most <= BUDGET, "{most} bytes were taken");
    assert!(waited > 0 && waited <= 30, "{waited} copies waited");
    let streams = |count: usize| {
        let count = format!("Total Stripe Count: {count}\n");
        copied.iter().filter(|copy| copy.text().contains(&count)).count()
    };
    assert!(streams(1) > 0, "with little left there is one stream");
    assert_eq!(streams(16), 0, "there was no memory for sixteen");
    let expected = noise(SIZE);
    for number in 0..30 {
        assert!(
            std::fs::read(at.root.join(number.to_string())).unwrap() == expected,
            "{number}"
        );
    }
    assert_eq!(metric(&at, WAITING).await, 0);
    until_only_readers_have_some(&at).await;
}

/// With the default budget a single pull has all the streams that it asks for.
#[tokio::test]
async fn one_pull_has_all_its_streams() {
    let lab = Lab::new();
    let at = lab.endpoint("a", |_| {}).await;
    let (_peer, peer) = lab.peer(|request| async move { slow(&request) });
    let streams = [("X-Number-Of-Streams", "16"), ("RequireChecksumVerification", "false")];
    let copied = at.pull("/f", &format!("{peer}/f"), &streams).await;
    copied.copied();
    // Of a mebibyte each.
    assert!(copied.text().contains("Total Stripe Count: 5\n"), "{}", copied.text());
    until_only_readers_have_some(&at).await;
}

/// Clients that take nothing of what they asked for hold their floors: one more is told to come again, and their leaving is enough.
#[tokio::test]
async fn without_memory_a_transfer_is_told_when_to_come_again() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.limits.memory = Bytes(BUDGET);
            config.limits.patience = Duration::from_millis(100);
        })
        .await;
    at.put("/f", noise(20_000_000)).await.expect(201);
    until_only_readers_have_some(&at).await;
    let mut held = Vec::new();
    loop {
        let response = at.begin("GET", "/f", &[], body::empty()).await;
        if response.status() == 429 {
            break;
        }
        assert_eq!(response.status(), 200);
        held.push(response);
        assert!(metric(&at, TAKEN).await <= BUDGET);
    }
    // The first ones have more than their floors, and what they have waits for their clients.
    assert!((4..=12).contains(&held.len()), "{} had a floor", held.len());
    let refused = at.get("/f").await.expect(429);
    assert!(refused.header("retry-after").parse::<u64>().is_ok());
    assert!(refused.text().contains("memory"), "{}", refused.text());
    at.put("/g", "x").await.expect(429);
    // It has its share, and others have theirs.
    let claims = serde_json::json!({"scope": "storage.read:/ storage.modify:/", "sub": "somebody else"});
    let other = format!("Bearer {}", lab.issuer.mint(&claims));
    let other = [("authorization", other.as_str())];
    at.ask("GET", "/f", &other, "").await.expect(200);
    at.ask("PUT", "/h", &other, "x").await.expect(201);
    // A checksum that is not stored has memory of its own.
    let sum = [("want-digest", "md5")];
    let told = at.ask("HEAD", "/f", &sum, "").await.expect(200);
    assert!(told.header("digest").starts_with("md5="));
    let first = held.pop().unwrap();
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), noise(20_000_000));
    at.put("/g", "x").await.expect(201);
    drop(held);
    until_only_readers_have_some(&at).await;
}

/// A file that comes and goes with the least that there is must be the same file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_little_memory_files_are_the_same() {
    let lab = Lab::new();
    let small = |config: &mut weir_storage::StorageConfig| config.limits.memory = Bytes(BUDGET);
    let (a, b) = (lab.endpoint("a", small).await, lab.endpoint("b", small).await);
    let one = async |number: usize| {
        let content = noise(3_000_000 + 77_777 * number);
        let path = format!("/{number}");
        a.put(&path, content.clone()).await.expect(201);
        b.pull(&path, &a.url(&path), &[]).await.copied();
        b.push(&path, &a.url(&format!("{path}-back")), &[]).await.copied();
        assert!(a.get(&format!("{path}-back")).await.expect(200).body == content);
    };
    // More than have floors.
    join_all((0..20).map(one)).await;
    for at in [&a, &b] {
        until_only_readers_have_some(at).await;
        at.until_clean().await;
    }
}
