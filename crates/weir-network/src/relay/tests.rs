#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::*;

/// A door that answers each 8-byte number with as many bytes, and a relay in front of it.
async fn relay() -> Relay {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let behind = door.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = door.accept().await {
            tokio::spawn(async move {
                while let Ok(wanted) = stream.read_u64().await {
                    if stream.write_all(&vec![7; wanted as usize]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Relay::start(listener, behind, 1).unwrap()
}

async fn ask(stream: &mut TcpStream, bytes: u64) -> io::Result<Duration> {
    let begin = Instant::now();
    stream.write_u64(bytes).await?;
    let mut answer = vec![0; bytes as usize];
    stream.read_exact(&mut answer).await?;
    assert!(answer.iter().all(|byte| *byte == 7));
    Ok(begin.elapsed())
}

fn rule() -> Rule {
    Rule {
        direction: Some(Direction::Down),
        ..Rule::default()
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// A door would take all of its clients for one.
#[tokio::test]
async fn a_door_sees_the_address_of_the_client() {
    let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::start(listener, door.local_addr().unwrap(), 1).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.7.9:0".parse().unwrap()).unwrap();
    let _client = socket.connect(relay.address()).await.unwrap();
    let (_stream, peer) = timeout(PATIENCE, door.accept()).await.unwrap().unwrap();
    assert_eq!(peer.ip().to_string(), "127.0.7.9");
}

/// Bytes would be lost, changed or out of order.
#[tokio::test]
async fn bytes_pass_unchanged() {
    let relay = relay().await;
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    for bytes in [0, 1, 100_000, 5_000_000] {
        ask(&mut stream, bytes).await.unwrap();
    }
    drop(stream);
    let passed = relay.passed();
    assert_eq!((passed.connections, passed.resets), (1, 0));
    assert_eq!(passed.bytes, 4 * 8 + 5_100_001);
}

#[tokio::test]
async fn a_rate_is_shared_by_all_connections() {
    let relay = relay().await;
    relay.set(vec![Rule {
        shared: Some(Arc::new(Bucket::new(2_000_000))),
        ..rule()
    }]);
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(TcpStream::connect(relay.address()).await.unwrap());
    }
    let begin = Instant::now();
    let asked = streams.iter_mut().map(|stream| ask(stream, 500_000));
    futures_of(asked).await;
    let time = begin.elapsed();
    assert!(time >= Duration::from_millis(900), "2 MB at 2 MB/s took {time:?}");
    assert!(relay.passed().held_nanos > 900_000_000);
    relay.set(Vec::new());
    let free = ask(&mut streams[0], 500_000).await.unwrap();
    assert!(free < Duration::from_millis(800), "{free:?}");
}

async fn futures_of(asked: impl Iterator<Item = impl Future<Output = io::Result<Duration>>>) {
    let mut all: Vec<_> = asked.map(Box::pin).collect();
    while let Some(one) = all.pop() {
        // One after the other is enough: each has asked when it is first polled, and the rate is what takes time.
        timeout(PATIENCE, one).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_delay_is_on_every_piece() {
    let relay = relay().await;
    relay.set(vec![Rule {
        delay: Duration::from_millis(40),
        ..Rule::default()
    }]);
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    let time = ask(&mut stream, 10).await.unwrap();
    assert!(time >= Duration::from_millis(80), "{time:?}");
}

/// A cut would lose bytes, or an end of it would not be seen.
#[tokio::test]
async fn a_cut_holds_everything_until_it_ends() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.address()).await.unwrap();
    ask(&mut open, 10).await.unwrap();
    relay.set(vec![Rule {
        is_cut: true,
        ..Rule::default()
    }]);
    let mut fresh = TcpStream::connect(relay.address()).await.unwrap();
    for stream in [&mut open, &mut fresh] {
        assert!(timeout(Duration::from_millis(200), ask(stream, 10)).await.is_err());
    }
    // The time counts while it passes.
    assert!(relay.passed().held_nanos > 150_000_000, "{:?}", relay.passed());
    relay.set(Vec::new());
    let mut answer = [0; 10];
    for stream in [&mut open, &mut fresh] {
        timeout(PATIENCE, stream.read_exact(&mut answer))
            .await
            .unwrap()
            .unwrap();
    }
}

#[tokio::test]
async fn large_pieces_stop_and_small_ones_pass() {
    let relay = relay().await;
    relay.set(vec![Rule {
        longest: Some(50_000),
        ..rule()
    }]);
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    for _ in 0..5 {
        ask(&mut stream, 20_000).await.unwrap();
    }
    assert!(
        timeout(Duration::from_millis(300), ask(&mut stream, 500_000))
            .await
            .is_err()
    );
}

fn damaged(kind: DamageKind, above: u64) -> Vec<Rule> {
    let damage = Some(Damage {
        kind,
        // Of pieces of 100 kB two in three.
        per_byte: 1.1 / 100_000.0,
        above,
    });
    vec![Rule { damage, ..rule() }]
}

#[tokio::test]
async fn resets_follow_the_bytes() {
    let relay = relay().await;
    relay.set(damaged(DamageKind::Reset, 0));
    let mut failed = 0;
    for _ in 0..60 {
        let mut stream = TcpStream::connect(relay.address()).await.unwrap();
        failed += u32::from(timeout(PATIENCE, ask(&mut stream, 100_000)).await.unwrap().is_err());
    }
    assert!((25..55).contains(&failed), "{failed} of 60");
    assert_eq!(relay.passed().resets, u64::from(failed));
}

/// Small files would fail, too, on a connection that has passed many.
#[tokio::test]
async fn small_pieces_meet_no_damage() {
    let relay = relay().await;
    relay.set(damaged(DamageKind::Reset, 50_000));
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    for _ in 0..100 {
        ask(&mut stream, 50_000).await.unwrap();
    }
    let failed = timeout(PATIENCE, ask(&mut stream, 5_000_000)).await.unwrap();
    assert!(failed.is_err());
}

/// A connection that has stalled would never go on, or be one that was reset.
#[tokio::test]
async fn a_stall_lasts_as_long_as_its_rule() {
    let relay = relay().await;
    relay.set(damaged(DamageKind::Stall, 0));
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.write_u64(5_000_000).await.unwrap();
    let mut answer = vec![0; 5_000_000];
    let read = timeout(Duration::from_millis(500), stream.read_exact(&mut answer)).await;
    assert!(read.is_err() && relay.passed().stalls == 1);
    relay.set(Vec::new());
    let mut more = [0; 1];
    timeout(PATIENCE, stream.read_exact(&mut more)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_change_is_of_one_bit() {
    let relay = relay().await;
    relay.set(damaged(DamageKind::Change, 0));
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    stream.write_u64(1_000_000).await.unwrap();
    let mut answer = vec![0; 1_000_000];
    timeout(PATIENCE, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let changed: Vec<u8> = answer.into_iter().filter(|byte| *byte != 7).collect();
    assert!(!changed.is_empty() && changed.iter().all(|byte| *byte == 6));
    assert_eq!(relay.passed().changes, changed.len() as u64);
}

#[tokio::test]
async fn a_rule_is_for_its_peers_alone() {
    let relay = relay().await;
    relay.set(vec![Rule {
        peers: Some(Arc::from(["127.0.0.9".parse().unwrap()])),
        is_cut: true,
        ..Rule::default()
    }]);
    let from = |ip: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{ip}:0").parse().unwrap()).unwrap();
        socket.connect(relay.address())
    };
    let (mut meant, mut other) = (from("127.0.0.9").await.unwrap(), from("127.0.0.8").await.unwrap());
    ask(&mut other, 10).await.unwrap();
    assert!(timeout(Duration::from_millis(200), ask(&mut meant, 10)).await.is_err());
}

/// A relay whose door is gone would keep its clients waiting.
#[tokio::test]
async fn a_door_that_is_gone_ends_the_connection() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::start(listener, gone, 1).unwrap();
    let mut stream = TcpStream::connect(relay.address()).await.unwrap();
    let mut answer = [0; 1];
    let read = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert_eq!(relay.passed().unreachable, 1);
}

/// A server that dies would leave its clients with open connections.
#[tokio::test]
async fn a_broken_relay_resets_what_is_open() {
    let relay = relay().await;
    let mut open = TcpStream::connect(relay.address()).await.unwrap();
    ask(&mut open, 10).await.unwrap();
    relay.set(vec![Rule {
        is_broken: true,
        is_cut: true,
        ..Rule::default()
    }]);
    let mut answer = [0; 1];
    let read = timeout(PATIENCE, open.read(&mut answer)).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    relay.set(Vec::new());
    let mut fresh = TcpStream::connect(relay.address()).await.unwrap();
    ask(&mut fresh, 10).await.unwrap();
}
