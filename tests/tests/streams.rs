//! Copies over long ways: what several streams are for.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, Instant},
};

use weir_tests::{Draw, Path, Relay, Services, StorageSettings, write_private};

/// Twice as much as is worth several streams.
const LARGE: usize = 128 << 20;

/// From one coast to the other side of the world.
const ROUND_TRIP: Duration = Duration::from_millis(160);

/// What one stream may have on its way, so that it moves 19.7 MB/s and takes 6.8 s.
const WINDOW: u64 = 3 << 20;

struct Long {
    services: Services,
    source: String,
    content: Vec<u8>,
}

impl Long {
    /// Two storages, of which BETA reaches ALPHA by a long way.
    fn new() -> Self {
        // Wider than any kernel's windows, so that the choice is the largest.
        let wide = StorageSettings::new("BETA").tpc("stream_target = \"20 GB\"\n");
        let storages = [StorageSettings::new("ALPHA"), wide];
        let services = Services::start(&storages, "").unwrap();
        let content = Draw::new(91).bytes(LARGE);
        let alpha = services.storage("ALPHA").url.clone();
        services.put(&content, &format!("{alpha}/large")).unwrap();
        let behind: SocketAddr = alpha.trim_start_matches("https://").parse().unwrap();
        let relay = Relay::start(behind.ip(), behind, Path::new(ROUND_TRIP, WINDOW)).unwrap();
        let token = services.token("storage.read:/").unwrap();
        let header = format!("TransferHeaderAuthorization: Bearer {token}\n");
        write_private(&services.file("source"), &header).unwrap();
        let source = format!("Source: https://{}/large", relay.address());
        Self {
            services,
            source,
            content,
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
    let long = Long::new();
    let (one, streams) = long.pull("one", 1);
    assert_eq!(streams, 1);
    let windows = LARGE as u64 / WINDOW;
    assert!(
        one >= ROUND_TRIP * u32::try_from(windows - 1).unwrap(),
        "one stream took {one:?}"
    );
    let (four, streams) = long.pull("four", 4);
    assert_eq!(streams, 4);
    assert!(four < one, "four streams took {four:?}, one {one:?}");
    // Left to itself, the endpoint measures the way and takes all that it may: the way is worth more.
    let (chosen, streams) = long.pull("chosen", 0);
    assert_eq!(streams, 16);
    assert!(
        chosen < one,
        "sixteen streams took {chosen:?}, four {four:?}, one {one:?}"
    );
}
