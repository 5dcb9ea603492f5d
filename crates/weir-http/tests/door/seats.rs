use std::time::Duration;

use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
use weir_http::{RunningServer, ServerLimits, bind, raise_open_files, serve};

use crate::{ask, echo, hear, loopback};

fn start(connections: usize, per_client: Option<usize>) -> RunningServer {
    let limits = ServerLimits {
        connections,
        connections_per_client: per_client,
        ..ServerLimits::default()
    };
    serve(bind(loopback()).unwrap(), None, limits, tower::service_fn(echo)).unwrap()
}

/// Idle clients, and those that never end a request's head, would shut the door for half a minute.
#[tokio::test]
async fn a_full_server_serves_a_newcomer_in_an_idle_ones_place() {
    let server = start(3, None);
    let connect = || TcpStream::connect(server.address());
    let mut slow = connect().await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let mut served = connect().await.unwrap();
    assert!(ask(&mut served, "/").await.starts_with("HTTP/1.1 200"));
    let mut silent = connect().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut newcomers = Vec::new();
    for _ in 0..3 {
        let mut newcomer = connect().await.unwrap();
        let answer = timeout(Duration::from_secs(5), ask(&mut newcomer, "/")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        newcomers.push(newcomer);
    }
    for gone in [&mut slow, &mut served, &mut silent] {
        assert_eq!(hear(gone).await, "");
    }
    let occupancy = server.occupancy();
    assert!(occupancy.open <= 3 && occupancy.given_up >= 3, "{occupancy:?}");
}

/// A transfer that is cut for a newcomer is lost work.
#[tokio::test]
async fn an_active_connection_keeps_its_place() {
    let server = start(1, None);
    let mut working = TcpStream::connect(server.address()).await.unwrap();
    let answer = tokio::spawn(async move { ask(&mut working, "/1000").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut newcomer = TcpStream::connect(server.address()).await.unwrap();
    assert!(ask(&mut newcomer, "/").await.starts_with("HTTP/1.1 200"));
    assert!(answer.await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let server = start(100, Some(2));
    let from = async |address: [u8; 4]| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        socket.connect(server.address()).await.unwrap()
    };
    let mut working = Vec::new();
    for _ in 0..2 {
        let mut stream = from([127, 0, 3, 1]).await;
        working.push(tokio::spawn(async move { ask(&mut stream, "/3000").await }));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut third = from([127, 0, 3, 1]).await;
    let answer = hear(&mut third).await;
    assert!(
        answer.starts_with("HTTP/1.1 429") && answer.contains("Retry-After: "),
        "{answer}"
    );
    assert!(
        ask(&mut from([127, 0, 3, 2]).await, "/")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert_eq!(server.occupancy().refused, 1);
    for answer in working {
        assert!(answer.await.unwrap().starts_with("HTTP/1.1 200"));
    }
}

/// Farms of clients keep connections that they may never use again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_are_held_and_do_not_shut_the_door() {
    // Both ends are in this process, and common hard limits are 20,000 files and 2^20.
    let files = raise_open_files().unwrap_or(u64::MAX);
    let count = usize::try_from(files.saturating_sub(500) / 2)
        .unwrap_or(usize::MAX)
        .min(10_000);
    assert!(count > 8_000, "only {files} files may be open");
    let server = start(count, None);
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        idle.push(TcpStream::connect(server.address()).await.unwrap());
    }
    // A connection that has a place keeps it while there is room.
    assert!(ask(&mut idle[0], "/").await.starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..100 {
        let mut newcomer = TcpStream::connect(server.address()).await.unwrap();
        assert!(ask(&mut newcomer, "/").await.starts_with("HTTP/1.1 200"));
        idle.push(newcomer);
    }
    let occupancy = server.occupancy();
    assert!(occupancy.open <= count, "{occupancy:?}");
    assert_eq!(occupancy.given_up, 100);
}
