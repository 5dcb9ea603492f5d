//! The states of data streams: where the time of a copy went.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use weir_storage::StorageConfig;
use weir_world::{Wait, Waits};

use super::{
    faulty::{Call, Fault, Faults, FaultyAreas},
    lab::{Answer, Endpoint, Lab, noise},
    stripes::{FOUR, Fate, ONE, Source, markers},
};

const SIZE: usize = 4_000_000;

/// A part of the second or more for which each copy is held back.
const LEAST: Duration = Duration::from_millis(300);

fn limited(config: &mut StorageConfig) {
    config.limits.bandwidth = Some("4 MB/s".parse().unwrap());
}

/// The states of a copy, as its last marker has them.
fn states(answer: &Answer) -> Waits {
    answer.copied();
    let first = markers(answer).into_iter().rfind(|marker| marker.stripe == 0).unwrap();
    *first.waits.unwrap()
}

/// The states are exclusive: together they are no longer than the copy. This one has at least that time, and more than any other
/// in which the copy waited; a busy machine may take longer to compute.
#[track_caller]
fn mostly(waits: &Waits, wait: Wait, least: Duration, took: Duration) {
    assert!(waits.total() <= took, "{waits} in {took:?}");
    assert!(waits.get(wait) >= least, "{wait}: {waits} in {took:?}");
    for other in [Wait::Network, Wait::Disk, Wait::Permit, Wait::Limiter] {
        assert!(waits.get(other) <= waits.get(wait), "{wait}: {waits} in {took:?}");
    }
}

/// Seconds of a metric by direction and state, over all peers.
async fn seconds(at: &Endpoint, direction: &str, state: Wait) -> f64 {
    let page = at.get("/.well-known/weir/metrics").await.text();
    let is_it = |line: &&str| {
        line.starts_with("weir_storage_stream_seconds_total{")
            && line.contains(&format!("direction=\"{direction}\""))
            && line.contains(&format!("state=\"{state}\""))
    };
    let values = page
        .lines()
        .filter(is_it)
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_bandwidth_is_a_state_in_both_directions() {
    let lab = Lab::new();
    let free = lab.endpoint("free", |_| {}).await;
    free.put("/f", noise(SIZE)).await.expect(201);
    for (streams, name) in [(ONE, "one"), (FOUR, "four")] {
        let slow = lab.endpoint(name, limited).await;
        let began = Instant::now();
        let pulled = slow.pull("/g", &free.url("/f"), &[streams]).await;
        mostly(&states(&pulled), Wait::Limiter, LEAST, began.elapsed());
        assert!(seconds(&slow, "received", Wait::Limiter).await >= LEAST.as_secs_f64());
        let began = Instant::now();
        let pushed = slow.push("/g", &free.url(&format!("/{name}")), &[]).await;
        mostly(&states(&pushed), Wait::Limiter, LEAST, began.elapsed());
        assert!(seconds(&slow, "sent", Wait::Limiter).await >= LEAST.as_secs_f64());
    }
    let slow = lab.endpoint("slow", limited).await;
    slow.put("/h", noise(SIZE)).await.expect(201);
    assert!(seconds(&slow, "received", Wait::Limiter).await >= LEAST.as_secs_f64());
    slow.get("/h").await.expect(200);
    assert!(seconds(&slow, "sent", Wait::Limiter).await >= LEAST.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_is_told_from_a_slow_source() {
    let lab = Lab::new();
    let faults = Faults::default();
    let at = lab.endpoint_on("at", FaultyAreas::new(&faults), |_| {}).await;
    for streams in [ONE, FOUR] {
        let (_source, _server, url) = Source::new(16 << 20, |_| Fate::Whole).serve(&lab);
        faults.arm_all(Call::Write, Fault::Delay(Duration::from_millis(300)));
        let began = Instant::now();
        let waits = states(&at.pull("/disk", &url, &[streams]).await);
        mostly(&waits, Wait::Disk, LEAST, began.elapsed());
        faults.release();
        // Drops of a byte, each 50 ms after the one before.
        let drops = |size: usize| move |_: usize| Fate::Trickles(size - 20);
        let part = if streams == ONE { 8 << 20 } else { 2 << 20 };
        let source = Source {
            whole: Fate::Trickles((8 << 20) - 20),
            ..Source::new(8 << 20, drops(part))
        };
        let (_source, _server, url) = source.serve(&lab);
        let began = Instant::now();
        let waits = states(&at.pull("/network", &url, &[streams]).await);
        mostly(&waits, Wait::Network, LEAST, began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wait_for_a_place_and_for_the_first_byte_are_states() {
    let lab = Lab::new();
    let at = lab.endpoint("at", |config| config.limits.copies = 1).await;
    let pause = Duration::from_millis(600);
    let late = || Source {
        whole: Fate::Late(pause),
        ..Source::new(1 << 20, move |_| Fate::Late(pause))
    };
    let (_one, _server, first) = late().serve(&lab);
    let (_other, _other_server, second) = late().serve(&lab);
    let began = Instant::now();
    let pulls = tokio::join!(at.pull("/a", &first, &[ONE]), at.pull("/b", &second, &[ONE]));
    let waits = [states(&pulls.0), states(&pulls.1)];
    for waits in &waits {
        assert!(waits.get(Wait::FirstByte) >= pause, "{waits}");
        assert!(waits.total() <= began.elapsed(), "{waits}");
    }
    let placed = waits.map(|waits| waits.get(Wait::Place));
    assert!(
        placed.iter().any(|waited| *waited >= pause),
        "one of them waited for the other: {placed:?}"
    );
}

/// A failed copy tells where its time went, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_tells_its_states() {
    let lab = Lab::new();
    let faults = Faults::default();
    let at = lab.endpoint_on("at", FaultyAreas::new(&faults), |_| {}).await;
    let (_source, _server, url) = Source::new(4 << 20, |_| Fate::Whole).serve(&lab);
    faults.arm(Call::Write, 1, Fault::Error(Errno::IO));
    let failed = at.pull("/f", &url, &[ONE]).await;
    failed.failed(&[]);
    let last = markers(&failed).pop().unwrap();
    assert!(!last.waits.unwrap().is_empty());
}
