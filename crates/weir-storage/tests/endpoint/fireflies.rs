//! Flows that are marked: the messages to networks, and that no tag breaks a transfer.

use std::{net::UdpSocket, time::Duration};

use serde_json::Value;

use super::lab::{Lab, noise};

/// A collector that hands out what it was told.
struct Collector(UdpSocket);

impl Collector {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self(socket)
    }

    fn next(&self) -> Value {
        let mut buffer = [0; 2000];
        let length = self.0.recv(&mut buffer).expect("a firefly comes");
        assert!(length <= 1500);
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        let (header, body) = text
            .split_once(" - firefly-json - ")
            .expect("a header as RFC 5424 has it");
        assert!(header.starts_with("<134>1 "), "{header}");
        serde_json::from_str(body).unwrap()
    }
}

/// A flow that is told as another one's, or twice, would be accounted wrongly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tagged_upload_and_download_are_told_from_beginning_to_end() {
    let lab = Lab::new();
    let collector = Collector::new();
    let address = collector.0.local_addr().unwrap();
    let at = lab
        .endpoint("a", |config| config.firefly.collectors = vec![address])
        .await;
    let content = noise(3_000_000);
    at.put("/untagged", content.clone()).await.expect(201);
    at.ask("PUT", "/f", &[("SciTag", "154")], content.clone())
        .await
        .expect(201);
    at.ask("GET", "/f", &[("SciTag", "154")], "").await.expect(200);
    let port = at.running.address().port();
    let told: Vec<Value> = (0..4).map(|_| collector.next()).collect();
    let of = |at: usize, pointer: &str| {
        told[at]
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{}", told[at]))
            .clone()
    };
    for (at, (state, application)) in [
        ("start", "weir-put"),
        ("end", "weir-put"),
        ("start", "weir-get"),
        ("end", "weir-get"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(of(at, "/flow-lifecycle/state"), state);
        assert_eq!(of(at, "/context/application"), application);
        assert_eq!(
            (of(at, "/context/experiment-id"), of(at, "/context/activity-id")),
            (2.into(), 26.into())
        );
        assert_eq!(of(at, "/flow-id/src-port"), port);
    }
    assert_eq!(of(1, "/usage/received"), 3_000_000);
    assert_eq!(of(3, "/usage/sent"), 3_000_000);
    assert_eq!(of(0, "/flow-id"), of(1, "/flow-id"));
    assert!(of(3, "/netlink/rtt").as_f64().unwrap() > 0.0);
    assert!(!of(3, "/netlink/cong").as_str().unwrap().is_empty());
    assert_eq!(of(0, "/flow-lifecycle/start-time"), of(1, "/flow-lifecycle/start-time"));

    // A small body is in memory before anything is told of it, and counts all the same.
    at.ask("PUT", "/small", &[("SciTag", "154")], noise(1000))
        .await
        .expect(201);
    assert_eq!(collector.next()["flow-lifecycle"]["state"], "start");
    assert_eq!(collector.next()["usage"]["received"], 1000);
}

/// A third-party copy would be seen by networks at one of its ends alone, or its streams as one flow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tagged_copy_is_told_by_who_drives_it() {
    let lab = Lab::new();
    let collector = Collector::new();
    let address = collector.0.local_addr().unwrap();
    let other = lab.endpoint("other", |_| {}).await;
    let at = lab
        .endpoint("a", |config| config.firefly.collectors = vec![address])
        .await;
    const SIZE: usize = 4 << 20;
    other.put("/f", noise(SIZE)).await.expect(201);
    let tag = ("SciTag", "154");
    let told = |count: usize| -> Vec<Value> { (0..count).map(|_| collector.next()).collect() };
    let of = |told: &[Value], state: &str, pointer: &str| -> Vec<Value> {
        let with_state = told.iter().filter(|one| one["flow-lifecycle"]["state"] == state);
        with_state
            .map(|one| one.pointer(pointer).unwrap_or_else(|| panic!("{one}")).clone())
            .collect()
    };
    let sum = |bytes: &[Value]| bytes.iter().map(|bytes| bytes.as_u64().unwrap()).sum::<u64>();

    for streams in [1, 4] {
        let number = streams.to_string();
        at.pull(
            &format!("/{streams}"),
            &other.url("/f"),
            &[tag, ("X-Number-Of-Streams", &number)],
        )
        .await
        .copied();
        let told = told(2 * streams);
        assert_eq!(of(&told, "start", "/context/application"), vec!["weir-pull"; streams]);
        assert_eq!(sum(&of(&told, "end", "/usage/received")), SIZE as u64);
        let ports = of(&told, "end", "/flow-id/src-port");
        let different: std::collections::BTreeSet<_> = ports.iter().map(Value::as_u64).collect();
        assert_eq!(different.len(), streams, "a flow for each connection: {ports:?}");
    }
    at.push("/1", &other.url("/g"), &[tag]).await.copied();
    let told = told(2);
    assert_eq!(of(&told, "start", "/context/application"), ["weir-push"]);
    assert_eq!(sum(&of(&told, "end", "/usage/sent")), SIZE as u64);
    let port = other.running.address().port();
    assert_eq!(of(&told, "end", "/flow-id/dst-port"), [port]);
}

/// One of these once crashed a storage server in a data challenge.
#[tokio::test]
async fn odd_tags_break_nothing() {
    let lab = Lab::new();
    let collector = Collector::new();
    let address = collector.0.local_addr().unwrap();
    let at = lab
        .endpoint("a", |config| config.firefly.collectors = vec![address])
        .await;
    let huge = "9".repeat(5000);
    for odd in ["", "0", "64", "65536", "-1", "atlas", "1e3", huge.as_str()] {
        at.ask("PUT", "/f", &[("SciTag", odd)], "x").await;
        at.ask("GET", "/f", &[("SciTag", odd)], "").await.expect(200);
    }
    at.ask("GET", "/f", &[("SciTag", "66"), ("SciTag", "67")], "")
        .await
        .expect(200);
    collector.0.set_nonblocking(true).unwrap();
    assert!(
        collector.0.recv(&mut [0; 10]).is_err(),
        "a flow without a valid tag is not reported"
    );
}
