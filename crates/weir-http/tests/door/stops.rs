use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use tokio::net::TcpStream;
use weir_http::{RunningServer, ServerLimits, bind, serve};

use crate::{ask, echo, hear, loopback};

fn start(limits: ServerLimits) -> RunningServer {
    serve(bind(loopback()).unwrap(), None, limits, tower::service_fn(echo)).unwrap()
}

/// A client in the kernel's backlog has been told that it is connected: its request would meet a reset.
#[tokio::test]
async fn a_connection_in_the_backlog_of_a_stopping_server_is_answered() {
    let server = start(ServerLimits::default());
    // The server's task gets no turn before this test waits for something.
    let mut waiting: Vec<_> = (0..20)
        .map(|_| {
            let mut client = std::net::TcpStream::connect(server.address()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            client
        })
        .collect();
    let address = server.address();
    server.shutdown().await;
    for client in &mut waiting {
        let mut answer = String::new();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
        assert!(answer.contains("connection: close"), "{answer:?}");
    }
    assert!(std::net::TcpStream::connect(address).is_err(), "it still listens");
}

/// A request on its way to an idle connection would meet its end, and clients do not repeat what changes something.
#[tokio::test]
async fn an_idle_connection_takes_one_more_request_while_the_server_lingers() {
    let server = start(ServerLimits {
        linger: Duration::from_secs(2),
        ..ServerLimits::default()
    });
    let mut talking = TcpStream::connect(server.address()).await.unwrap();
    assert!(ask(&mut talking, "/").await.starts_with("HTTP/1.1 200"));
    let mut silent = TcpStream::connect(server.address()).await.unwrap();
    assert!(ask(&mut silent, "/").await.starts_with("HTTP/1.1 200"));
    let mut at_work = TcpStream::connect(server.address()).await.unwrap();
    let slow = tokio::spawn(async move { ask(&mut at_work, "/1000").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopped = tokio::spawn(server.shutdown());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let last = ask(&mut talking, "/").await;
    assert!(
        last.starts_with("HTTP/1.1 200") && last.contains("connection: close"),
        "{last}"
    );
    assert_eq!(hear(&mut talking).await, "");
    assert!(slow.await.unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(hear(&mut silent).await, "");
    stopped.await.unwrap();
}
