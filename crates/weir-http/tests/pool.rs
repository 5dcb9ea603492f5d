//! The client's connections: which are used again, how many there are, and who gives way.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Semaphore,
};
use weir_http::{
    Body, Client, ClientConfig, ClientError, ConnectStep, ConnectionInfo, Handed, RunningServer, ServerLimits,
    TrustRoots, bind, body, client_config, serve,
};

/// A server that tells from which port it was asked, and answers `/held` only when it may.
struct Server {
    running: RunningServer,
    go: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
}

impl Server {
    fn start(limits: ServerLimits) -> Self {
        let (go, asked) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (shared, count) = (go.clone(), asked.clone());
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let (go, info) = (
                shared.clone(),
                request.extensions().get::<ConnectionInfo>().unwrap().clone(),
            );
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                if request.uri().path() == "/held" {
                    go.acquire().await.unwrap().forget();
                }
                Ok::<_, Infallible>(Response::new(body::full(info.peer.port().to_string())))
            }
        });
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self {
            running: serve(listener, None, limits, service).unwrap(),
            go,
            asked,
        }
    }

    fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Waits until it was asked so often.
    async fn was_asked(&self, times: usize) {
        while self.asked.load(Ordering::Relaxed) < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn client(change: impl FnOnce(&mut ClientConfig)) -> Client {
    let mut config = ClientConfig::new(no_roots());
    config.connect_timeout = Duration::from_secs(20);
    change(&mut config);
    Client::new(config).unwrap()
}

fn no_roots() -> TrustRoots {
    TrustRoots {
        files: Vec::new(),
        directories: Vec::new(),
    }
}

fn get(address: SocketAddr, path: &str) -> Request<Body> {
    Request::get(format!("http://{address}{path}"))
        .body(body::empty())
        .unwrap()
}

/// The port that a request came from, as the server saw it.
async fn port(client: &Client, address: SocketAddr) -> Result<u16, ClientError> {
    let response = client.send(get(address, "/")).await?;
    let text = body::read_limited(response.into_body(), 100, Duration::from_secs(5))
        .await
        .unwrap();
    // The connection is kept a moment after its answer was read.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(std::str::from_utf8(&text).unwrap().parse().unwrap())
}

/// A handshake for every look at a file would cost more than the look.
#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = Server::start(ServerLimits::default());
    let client = client(|_| ());
    let first = port(&client, server.address()).await.unwrap();
    for _ in 0..5 {
        assert_eq!(port(&client, server.address()).await.unwrap(), first);
    }
}

/// Idle connections to one storage would keep everybody from all others.
#[tokio::test]
async fn an_idle_connection_gives_way_to_one_that_is_needed() {
    let (one, other) = (
        Server::start(ServerLimits::default()),
        Server::start(ServerLimits::default()),
    );
    let client = client(|config| config.connections = Some(1));
    let began = Instant::now();
    let first = port(&client, one.address()).await.unwrap();
    port(&client, other.address()).await.unwrap();
    assert_ne!(
        port(&client, one.address()).await.unwrap(),
        first,
        "it was closed meanwhile"
    );
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waited for a limit");
}

/// A service would run out of descriptors, and then everything in it fails at once.
#[tokio::test]
async fn beyond_the_limit_requests_wait() {
    let server = Server::start(ServerLimits::default());
    let client = client(|config| config.connections = Some(2));
    let held: Vec<_> = (0..4)
        .map(|_| {
            let (client, request) = (client.clone(), get(server.address(), "/held"));
            tokio::spawn(async move { client.send(request).await.map(|_| ()) })
        })
        .collect();
    server.was_asked(2).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.asked.load(Ordering::Relaxed), 2, "only two may be open");
    server.go.add_permits(4);
    for request in held {
        request.await.unwrap().unwrap();
    }
}

/// A caller that waits in vain must be told so, and that nothing was sent.
#[tokio::test]
async fn waiting_for_a_connection_has_a_limit() {
    let server = Server::start(ServerLimits::default());
    let client = client(|config| {
        config.connections = Some(1);
        config.connect_timeout = Duration::from_millis(200);
    });
    let (other, request) = (client.clone(), get(server.address(), "/held"));
    let held = tokio::spawn(async move { other.send(request).await.map(|_| ()) });
    server.was_asked(1).await;
    let error = client.send(get(server.address(), "/")).await.unwrap_err();
    assert!(error.to_string().contains("waiting for a free connection"), "{error}");
    assert!(error.before_request());
    server.go.add_permits(1);
    held.await.unwrap().unwrap();
}

/// A request that is given up closes its connection; if its place stayed taken, the service would starve.
#[tokio::test]
async fn requests_that_are_given_up_leave_their_places() {
    let server = Server::start(ServerLimits::default());
    let client = client(|config| config.connections = Some(1));
    for round in 1..=20 {
        let given_up = tokio::time::timeout(Duration::from_secs(10), async {
            let (client, request) = (client.clone(), get(server.address(), "/held"));
            let held = tokio::spawn(async move { client.send(request).await.map(|_| ()) });
            server.was_asked(round).await;
            held.abort();
        });
        given_up.await.unwrap();
    }
    port(&client, server.address()).await.unwrap();
}

/// Storages close what was idle for long; the next request would fail for nothing.
#[tokio::test]
async fn a_connection_closed_at_the_far_end_is_replaced() {
    let server = Server::start(ServerLimits {
        head_timeout: Duration::from_millis(100),
        ..ServerLimits::default()
    });
    let client = client(|_| ());
    for _ in 0..10 {
        port(&client, server.address()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
}

/// A server that answers the first request of its first connection, closes that connection when the next request is there, and
/// answers all later connections.
async fn closing_server() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for connection in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                for request in 0.. {
                    if !read_head(&mut stream).await || (connection, request) == (0, 1) {
                        return;
                    }
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
                        .await
                        .unwrap();
                }
            });
        }
    });
    address
}

/// Reads to the end of a request's head. False if the client has left.
async fn read_head(stream: &mut tokio::net::TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}

/// A storage closes what was idle for long at the very moment in which the next request arrives: a question is asked again,
/// an order may have been carried out.
#[tokio::test]
async fn a_connection_closed_under_a_question_is_replaced_and_under_an_order_is_not() {
    for (method, is_repeated) in [
        ("GET", true),
        ("HEAD", true),
        ("PROPFIND", true),
        ("DELETE", false),
        ("POST", false),
    ] {
        let address = closing_server().await;
        let client = client(|_| ());
        port(&client, address).await.unwrap();
        let request = Request::builder().method(method).uri(format!("http://{address}/"));
        let sent = client.send(request.body(body::empty()).unwrap()).await;
        assert_eq!(sent.is_ok(), is_repeated, "{method}: {sent:?}");
    }
}

/// A connection that one user's certificate opened must not serve another user.
#[tokio::test]
async fn identities_do_not_share_connections_but_the_limit() {
    let server = Server::start(ServerLimits::default());
    let ours = client(|config| config.connections = Some(2));
    let theirs = ours.presenting(client_config(&no_roots()).unwrap());
    let first = port(&ours, server.address()).await.unwrap();
    let second = port(&theirs, server.address()).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(port(&ours, server.address()).await.unwrap(), first);
    assert_eq!(port(&theirs, server.address()).await.unwrap(), second);
    let third = ours.presenting(client_config(&no_roots()).unwrap());
    port(&third, server.address()).await.unwrap();
    assert_ne!(
        port(&ours, server.address()).await.unwrap(),
        first,
        "the oldest gave way"
    );
}

/// A cleanup afterwards depends on whether an order can have arrived.
#[tokio::test]
async fn a_request_that_was_handed_over_is_told_from_one_that_was_not() {
    let server = Server::start(ServerLimits::default());
    let client = client(|_| ());
    let mut request = get(server.address(), "/");
    let handed = Handed::watch(&mut request);
    assert!(!handed.is_over());
    client.send(request).await.unwrap();
    assert!(handed.is_over());

    let closed = bind("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap();
    let mut request = get(closed, "/");
    let handed = Handed::watch(&mut request);
    client.send(request).await.unwrap_err();
    assert!(!handed.is_over());
}

/// The least recently used would age in the pool for ever; all of them together are too many.
#[tokio::test]
async fn idle_connections_are_bounded_and_age() {
    let server = Server::start(ServerLimits::default());
    let client = client(|config| {
        config.idle_per_host = 1;
        config.idle_timeout = Duration::from_millis(400);
    });
    let held: Vec<_> = (0..2)
        .map(|_| {
            let (client, request) = (client.clone(), get(server.address(), "/held"));
            tokio::spawn(async move {
                let response = client.send(request).await.unwrap();
                body::read_limited(response.into_body(), 100, Duration::from_secs(5))
                    .await
                    .unwrap()
            })
        })
        .collect();
    server.was_asked(2).await;
    server.go.add_permits(2);
    let mut ports = Vec::new();
    for request in held {
        ports.push(
            std::str::from_utf8(&request.await.unwrap())
                .unwrap()
                .parse::<u16>()
                .unwrap(),
        );
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let kept = port(&client, server.address()).await.unwrap();
    assert!(ports.contains(&kept), "one of two was kept");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_ne!(port(&client, server.address()).await.unwrap(), kept, "it was too old");
}

/// Without this a slow connect looks like a slow answer, and a kept connection like a new one.
#[tokio::test]
async fn a_watch_is_told_the_steps_of_new_connections_alone() {
    let server = Server::start(ServerLimits::default());
    let steps = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = steps.clone();
    let plain = client(|_| ());
    let watched = plain.watched(weir_http::ConnectWatch::new(move |step| told.lock().push(step)));
    let first = port(&watched, server.address()).await.unwrap();
    let taken = std::mem::take(&mut *steps.lock());
    assert_eq!(
        taken,
        [
            ConnectStep::Place,
            ConnectStep::Resolve,
            ConnectStep::Connect,
            ConnectStep::Over
        ]
    );
    assert_eq!(port(&watched, server.address()).await.unwrap(), first);
    assert_eq!(
        port(&plain, server.address()).await.unwrap(),
        first,
        "connections are shared"
    );
    assert!(steps.lock().is_empty());
    // A connection that cannot be made is over too.
    let free = bind("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap();
    port(&watched, free).await.unwrap_err();
    assert_eq!(steps.lock().last(), Some(&ConnectStep::Over));
}
