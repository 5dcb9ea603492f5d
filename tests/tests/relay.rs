//! The relay itself: a test of long ways is only as true as the relay.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use weir_tests::{Path, Relay};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Reads a count, answers with so many bytes, and closes.
fn source() -> SocketAddr {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            thread::spawn(move || {
                let mut count = [0; 8];
                if stream.read_exact(&mut count).is_err() {
                    return;
                }
                let bytes: Vec<u8> = (0..u64::from_le_bytes(count))
                    .map(|number| (number % 251) as u8)
                    .collect();
                let _ended = stream.write_all(&bytes);
            });
        }
    });
    address
}

/// How long a download takes, the question included.
fn fetch(address: SocketAddr, count: u64) -> Duration {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&count.to_le_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, count);
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    start.elapsed()
}

/// No figure of time here is an upper bound: a busy machine is slower, never faster than the way allows.
#[test]
fn one_connection_is_bound_by_its_window() {
    let path = Path::new(Duration::from_millis(100), 1_000_000);
    let relay = Relay::start(HERE, source(), path).unwrap();
    assert!(
        fetch(relay.address(), 1) >= Duration::from_millis(100),
        "a question takes a round trip"
    );
    // The first million leaves at once, each further one a round trip later.
    assert!(fetch(relay.address(), 10_000_000) >= Duration::from_secs(1));
}

#[test]
fn many_connections_have_many_windows_and_one_rate() {
    let alone = {
        let path = Path::new(Duration::from_millis(100), 500_000);
        let relay = Relay::start(HERE, source(), path).unwrap();
        fetch(relay.address(), 8_000_000)
    };
    assert!(alone >= Duration::from_millis(1600));
    let path = Path {
        rate: Some(4_000_000),
        ..Path::new(Duration::from_millis(100), 500_000)
    };
    let address = Relay::start(HERE, source(), path).unwrap().address();
    let start = Instant::now();
    let parts: Vec<_> = (0..4)
        .map(|_| thread::spawn(move || fetch(address, 2_000_000)))
        .collect();
    for part in parts {
        part.join().unwrap();
    }
    assert!(
        start.elapsed() >= Duration::from_secs(2),
        "the rate is that of all together"
    );
}

/// Without slow start a lossy way would be as fast as a clean one: a window of 4 MB has all of this on its way at once.
#[test]
fn a_lossy_way_begins_slowly() {
    let lossy = Path {
        loss: 0.002,
        ..Path::new(Duration::from_millis(40), 4_000_000)
    };
    let relay = Relay::start(HERE, source(), lossy).unwrap();
    // From ten segments on, doubled with each of five round trips, 1 MB needs a sixth.
    assert!(fetch(relay.address(), 1_000_000) >= Duration::from_millis(5 * 40));
}
