//! Heads that are large and never end, on thousands of connections at one time.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::{
    convert::Infallible,
    future::ready,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::sleep,
};
use weir_http::{
    Body, Client, ClientConfig, ServerLimits, TrustRoots, bind, body, raise_open_files, serve, testing::until,
};

const ATTACKERS: usize = 2000;

/// The bytes that each of them sends of a head behind the first bytes, at once: more than that would be read ahead.
const HEAD: usize = 60_000;

/// The most that heads may take: 32 MiB of large ones, and twice 8 KiB of each connection, for the allocator's sake.
const MOST: u64 = (32 << 20) + (ATTACKERS as u64 * (16 << 10));

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

/// Says how long the header `x` was.
async fn measure(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let length = request.headers().get("x").map_or(0, http::HeaderValue::len);
    Ok(Response::new(body::full(length.to_string())))
}

/// The state that attackers share.
struct Attack {
    address: SocketAddr,
    rest: Vec<u8>,
    /// How many have begun, since the start.
    begun: AtomicUsize,
    /// Whether they go on behind the first bytes.
    goes_on: watch::Sender<bool>,
    /// How many have sent all that they will, since the start.
    sent: AtomicUsize,
}

impl Attack {
    /// Sends what never ends, and comes again when it is cut.
    async fn carry_out(&self) {
        loop {
            // To be cut is no failure of it.
            let _ = self.once().await;
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn once(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nx: ").await?;
        self.begun.fetch_add(1, Ordering::Relaxed);
        let _ = self.goes_on.subscribe().wait_for(|goes_on| *goes_on).await;
        stream.write_all(&self.rest).await?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        stream.read(&mut [0; 1]).await.map(drop)
    }
}

/// Strangers would take 64 KiB each, and as much that was read ahead of them: a quarter of a gigabyte of two thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_never_end_have_one_bound_and_honest_ones_are_answered() {
    raise_open_files().unwrap();
    let limits = ServerLimits {
        // On a busy machine all of this takes a while; the measured connection must not end by itself meanwhile.
        head_timeout: Duration::from_secs(300),
        ..ServerLimits::default()
    };
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = serve(listener, None, limits, tower::service_fn(measure)).unwrap();
    let attack = Arc::new(Attack {
        address: server.address(),
        rest: vec![b'a'; HEAD],
        begun: AtomicUsize::new(0),
        goes_on: watch::Sender::new(false),
        sent: AtomicUsize::new(0),
    });
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|_| {
            let attack = attack.clone();
            tokio::spawn(async move { attack.carry_out().await })
        })
        .collect();
    until(
        "all attackers",
        || ready(attack.begun.load(Ordering::Relaxed)),
        |n| *n >= ATTACKERS,
    )
    .await;
    sleep(Duration::from_millis(500)).await;
    let (before, peak) = (resident(), Arc::new(AtomicU64::new(0)));
    let looks = tokio::spawn({
        let peak = peak.clone();
        async move {
            loop {
                peak.fetch_max(resident(), Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    attack.goes_on.send_replace(true);
    until(
        "all attackers",
        || ready(attack.sent.load(Ordering::Relaxed)),
        |n| *n >= ATTACKERS,
    )
    .await;
    let client = Client::new(ClientConfig::new(TrustRoots::default())).unwrap();
    for length in [100, 40_000, 7_000, 40_000, 60_000] {
        let uri = format!("http://{}/", server.address());
        let request = Request::get(uri).header("x", "h".repeat(length));
        let answer = client.send(request.body(body::empty()).unwrap()).await.unwrap();
        let said = body::read_limited(answer.into_body(), 100, Duration::from_secs(30)).await;
        assert_eq!(said.unwrap(), length.to_string());
    }
    // The attack goes on for a while.
    sleep(Duration::from_secs(2)).await;
    looks.abort();
    for attacker in attackers {
        attacker.abort();
    }
    let took = peak.load(Ordering::Relaxed).saturating_sub(before);
    let (sent, occupancy) = (attack.sent.load(Ordering::Relaxed), server.occupancy());
    assert!(
        took <= MOST,
        "{took} bytes beyond {before} for {sent} heads: {occupancy:?}"
    );
    assert!(occupancy.heads_cut > 0, "{occupancy:?}");
}

/// A limit below what is held free of charge would be none: the rest would wrap around.
#[tokio::test]
async fn a_small_limit_is_one() {
    let limits = ServerLimits {
        head: 4096,
        ..ServerLimits::default()
    };
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let server = serve(listener, None, limits, tower::service_fn(measure)).unwrap();
    let ask = async |length: usize| {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let head = format!(
            "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx: {}\r\n\r\n",
            "a".repeat(length)
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // To be cut off is an answer too.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    assert!(ask(3000).await.starts_with("HTTP/1.1 200"));
    let long = ask(5000).await;
    assert!(!long.contains(" 200 "), "{long}");
    assert!(ask(3000).await.ends_with("3000"));
}
