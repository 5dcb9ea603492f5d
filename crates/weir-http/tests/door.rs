//! Connections at the door: which get a seat, with which certificate, and over which socket.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

#[path = "door/seats.rs"]
mod seats;
#[path = "door/sockets.rs"]
mod sockets;
#[path = "door/stops.rs"]
mod stops;
#[path = "door/trust.rs"]
mod trust;

use std::{convert::Infallible, net::SocketAddr};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use weir_http::{Body, body};

/// Says where the request came from, after the time that its path names in milliseconds.
async fn echo(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let info = request.extensions().get::<weir_http::ConnectionInfo>().unwrap().clone();
    if let Ok(pause) = request.uri().path().trim_start_matches('/').parse() {
        tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
    }
    Ok(Response::new(body::full(info.peer.to_string())))
}

async fn ask(stream: &mut TcpStream, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    if stream.write_all(head.as_bytes()).await.is_err() {
        return String::new();
    }
    hear(stream).await
}

async fn hear(stream: &mut TcpStream) -> String {
    let mut buffer = [0; 4096];
    let read = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read(&mut buffer));
    let length = read.await.expect("the server says something").unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}
