//! The sender of fireflies: destinations, intervals and counters.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_http::{Network, SocketWatch};
use weir_units::Timestamp;

use super::{Event, Flow, PORT, Usage};

/// Configuration of the firefly sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FireflyConfig {
    /// Collectors, as `192.0.2.1:10514`.
    pub collectors: Vec<SocketAddr>,
    /// Whether the other end of each flow is told too, at port 10514 of its address.
    pub peers: bool,
    /// How often a flow that goes on is told again.
    #[serde(with = "weir_units::duration")]
    pub interval: Duration,
    /// Peers whose flows are not reported: a site's own machines.
    pub exclude: Vec<Network>,
}

impl Default for FireflyConfig {
    fn default() -> Self {
        Self {
            collectors: Vec::new(),
            peers: false,
            interval: Duration::from_secs(60),
            exclude: Vec::new(),
        }
    }
}

impl FireflyConfig {
    /// Whether anybody is told anything.
    pub fn is_on(&self) -> bool {
        self.peers || !self.collectors.is_empty()
    }
}

/// How a flow stands.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Bytes so far.
    pub usage: Usage,
    /// The figures of TCP; `None` once the connection is closed.
    pub tcp: Option<weir_http::TcpFigures>,
}

/// Datagrams since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Handed to the network.
    pub sent: u64,
    /// Fireflies dropped because the network took them too slowly.
    pub dropped: u64,
}

/// Sends fireflies for all flows of a service.
#[derive(Clone)]
pub struct Beacon {
    inner: Option<Arc<Inner>>,
    counts: Arc<Counts>,
}

/// Datagrams of a beacon and of those before it.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

struct Inner {
    config: FireflyConfig,
    host: String,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    flows: Mutex<Flows>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Flows {
    next: u64,
    open: HashMap<u64, Arc<Mark>>,
}

struct Mark {
    flow: Flow,
    look: Box<dyn Fn() -> Usage + Send + Sync>,
    socket: SocketWatch,
}

impl Mark {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            usage: (self.look)(),
            tcp: self.socket.figures(),
        }
    }
}

/// A flow that is marked until this is dropped.
pub struct Marked {
    inner: Arc<Inner>,
    number: u64,
    mark: Arc<Mark>,
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.inner.flows.lock().open.remove(&self.number);
        self.inner.tell(&self.mark, Event::End);
    }
}

impl Beacon {
    /// A beacon that sends nothing.
    pub fn off() -> Self {
        Self {
            inner: None,
            counts: Arc::default(),
        }
    }

    /// Starts a beacon on the current runtime, which sends to the configured destinations. `host` is the name of the sender.
    ///
    /// # Errors
    /// No socket could be opened, neither for IPv4 nor for IPv6.
    pub fn start(config: FireflyConfig, host: &str) -> io::Result<Self> {
        Self::off().succeeded_by(config, host)
    }

    /// One with another configuration that counts on. Flows that are marked stay with this one, until they end.
    ///
    /// # Errors
    /// As [`Beacon::start`].
    pub fn succeeded_by(&self, config: FireflyConfig, host: &str) -> io::Result<Self> {
        let counts = self.counts.clone();
        if !config.is_on() {
            return Ok(Self { inner: None, counts });
        }
        let bind = |ip: IpAddr| {
            let socket = UdpSocket::bind((ip, 0))?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        };
        let (v4, v6) = (bind(Ipv4Addr::UNSPECIFIED.into()), bind(Ipv6Addr::UNSPECIFIED.into()));
        let (v4, v6) = match (v4, v6) {
            (Err(error), Err(_)) => return Err(error),
            (v4, v6) => (v4.ok(), v6.ok()),
        };
        let inner = Arc::new(Inner {
            host: host.to_owned(),
            v4,
            v6,
            flows: Mutex::default(),
            counts: counts.clone(),
            config,
        });
        tokio::spawn(repeat(Arc::downgrade(&inner), inner.config.interval));
        Ok(Self {
            inner: Some(inner),
            counts,
        })
    }

    /// Reports the start of a flow, which goes on until the returned guard is dropped. `None` if the flow is not reported.
    ///
    /// `usage` is called now and then, from any thread, and returns the bytes so far.
    pub fn mark(
        &self,
        flow: Flow,
        socket: SocketWatch,
        usage: impl Fn() -> Usage + Send + Sync + 'static,
    ) -> Option<Marked> {
        let inner = self.inner.clone()?;
        let excluded = |network: &Network| network.contains(flow.peer.ip());
        if inner.config.exclude.iter().any(excluded) {
            return None;
        }
        let mark = Arc::new(Mark {
            flow,
            look: Box::new(usage),
            socket,
        });
        let number = {
            let mut flows = inner.flows.lock();
            flows.next += 1;
            let number = flows.next;
            flows.open.insert(number, mark.clone());
            number
        };
        inner.tell(&mark, Event::Start);
        Some(Marked { inner, number, mark })
    }

    /// Counters of sent and dropped fireflies.
    pub fn sent(&self) -> Sent {
        self.counts.read()
    }

    /// A reader of the counters of this beacon and of its successors.
    pub fn watch_sent(&self) -> impl Fn() -> Sent + Send + Sync + 'static {
        let counts = self.counts.clone();
        move || counts.read()
    }
}

impl Counts {
    fn read(&self) -> Sent {
        Sent {
            sent: self.sent.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    fn tell(&self, mark: &Mark, event: Event) {
        let snapshot = mark.snapshot();
        let now = Timestamp::from(SystemTime::now());
        let datagram = mark
            .flow
            .datagram(event, now, &self.host, snapshot.usage, snapshot.tcp.as_ref());
        let peer = SocketAddr::new(mark.flow.peer.ip().to_canonical(), PORT);
        let peers = self.config.peers.then_some(peer);
        for to in self.config.collectors.iter().copied().chain(peers) {
            let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
            let taken = socket
                .as_ref()
                .is_some_and(|socket| socket.send_to(&datagram, to).is_ok());
            let counter = if taken { &self.counts.sent } else { &self.counts.dropped };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Tells of all flows that go on, as long as the beacon lives.
async fn repeat(inner: Weak<Inner>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval.max(Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let Some(inner) = inner.upgrade() else { return };
        let open: Vec<Arc<Mark>> = inner.flows.lock().open.values().cloned().collect();
        for mark in open {
            inner.tell(&mark, Event::Ongoing);
        }
    }
}
