//! Copies over long ways: the use of several streams.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use weir_tests::{Draw, Far, Path, Peer, Relay, Services, StorageSettings, peers, write_private};

/// Twice as much as is worth several streams.
const LARGE: usize = 128 << 20;

/// From one coast to the other side of the world.
const ROUND_TRIP: Duration = Duration::from_millis(160);

struct Long {
    services: Services,
    source: String,
    content: Vec<u8>,
    _far: Far,
}

impl Long {
    /// Two storages, of which BETA reaches ALPHA by a long way, whose round trip its kernel measures.
    fn new() -> Self {
        // Wider than any kernel's windows, so that the choice is the largest.
        let wide = "allow = [\"127.0.0.0/8\", \"10.9.0.0/24\"]\nstream_target = \"20 GB\"\n";
        let certified = [Services::storage_address(0), Far::FAR];
        let storages = [
            StorageSettings::new("ALPHA").certified_for(&certified),
            StorageSettings::new("BETA").tpc(wide),
        ];
        let folder = tempfile::tempdir().unwrap();
        let far = Far::start(folder.path(), ROUND_TRIP).unwrap();
        let services = Services::start(&storages, "").unwrap();
        let content = Draw::new(91).bytes(LARGE);
        let alpha = services.storage("ALPHA").url.clone();
        services.put(&content, &format!("{alpha}/large")).unwrap();
        let behind: SocketAddr = alpha.trim_start_matches("https://").parse().unwrap();
        // Nothing is on its way within the relay: the way is the kernel's.
        let relay = Relay::start(Far::NEAR.into(), behind, Path::new(Duration::ZERO, u64::MAX)).unwrap();
        let token = services.token("storage.read:/").unwrap();
        let header = format!("TransferHeaderAuthorization: Bearer {token}\n");
        write_private(&services.file("source"), &header).unwrap();
        let source = format!("Source: https://{}:{}/large", Far::FAR, relay.address().port());
        Self {
            services,
            source,
            content,
            _far: far,
        }
    }

    /// Pulls the file; gives the time it took and the streams it had.
    fn pull(&self, name: &str, streams: u32) -> (Duration, usize) {
        let target = format!("{}/{name}", self.services.storage("BETA").url);
        let streams = format!("X-Number-Of-Streams: {streams}");
        let start = Instant::now();
        let copy = [
            "-X",
            "COPY",
            "-H",
            "@source",
            "-H",
            &self.source,
            "-H",
            &streams,
            &target,
        ];
        let answer = self.services.ask(&copy).unwrap();
        let took = start.elapsed();
        assert!(answer.body.contains("\nsuccess: "), "{answer:?}");
        assert!(answer.body.contains("(verified)"), "{answer:?}");
        assert!(fs::read(self.services.root("BETA").join(name)).unwrap() == self.content);
        let last = answer.body.rsplit_once("Total Stripe Count: ").unwrap().1;
        (took, last.lines().next().unwrap().trim().parse().unwrap())
    }
}

#[test]
fn several_streams_fill_a_long_way() {
    // One stream moves a window in a round trip, however wide the way is.
    if !peers() || !Far::within("several_streams_fill_a_long_way").unwrap() {
        return;
    }
    let long = Long::new();
    let (one, streams) = long.pull("one", 1);
    assert_eq!(streams, 1);
    let (four, streams) = long.pull("four", 4);
    assert_eq!(streams, 4);
    assert!(four < one, "four streams took {four:?}, one {one:?}");
    // Left to itself, the endpoint asks the kernel for the way and takes all that it may: the way is worth more.
    let (chosen, streams) = long.pull("chosen", 0);
    assert_eq!(streams, 16);
    assert!(
        chosen < one,
        "sixteen streams took {chosen:?}, four {four:?}, one {one:?}"
    );
}

/// Bytes that a storage has counted in transfers of this outcome.
fn counted(services: &Services, storage: &str, direction: &str, outcome: &str) -> u64 {
    let url = format!("{}/.well-known/weir/metrics", services.storage(storage).url);
    let page = services.ask(&[&url]).unwrap().body;
    let name = format!("weir_storage_{direction}_bytes_total{{");
    let outcome = format!("outcome=\"{outcome}\"");
    let lines = page
        .lines()
        .filter(|line| line.starts_with(&name) && line.contains(&outcome));
    lines
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn of_a_stream_that_is_resumed_each_storage_counts_what_it_saw() {
    // Cross-checks of a run compare these counters: they may differ only by the bytes that the sender counts as failed.
    const SIZE: u64 = 48_000_000;
    const BREAKS_AT: usize = 30_000_000;
    let services = Services::start(&[StorageSettings::new("ALPHA"), StorageSettings::new("BETA")], "").unwrap();
    let content = Draw::new(92).bytes(usize::try_from(SIZE).unwrap());
    let alpha = services.storage("ALPHA").url.clone();
    services.put(&content, &format!("{alpha}/whole")).unwrap();
    let behind: SocketAddr = alpha.trim_start_matches("https://").parse().unwrap();
    let address = Peer::BreaksAfter(behind, BREAKS_AT).start(behind.ip()).unwrap();
    let token = services.token("storage.read:/").unwrap();
    write_private(
        &services.file("source"),
        &format!("TransferHeaderAuthorization: Bearer {token}\n"),
    )
    .unwrap();
    let source = format!("Source: https://{address}/whole");
    let target = format!("{}/whole", services.storage("BETA").url);
    let answer = services
        .ask(&["-X", "COPY", "-H", "@source", "-H", &source, &target])
        .unwrap();
    assert!(answer.body.contains("\nsuccess: "), "{answer:?}");
    assert!(fs::read(services.root("BETA").join("whole")).unwrap() == content);
    let received = counted(&services, "BETA", "received", "completed");
    assert_eq!((received, counted(&services, "BETA", "received", "failed")), (SIZE, 0));
    let sent = counted(&services, "ALPHA", "sent", "completed");
    let broken = counted(&services, "ALPHA", "sent", "failed");
    assert!(
        sent < SIZE && SIZE - sent <= broken,
        "completed {sent}, failed {broken}"
    );
}
