//! The client's connection pool: connections are kept for the next request, counted, and given up where others need the
//! descriptor.
//!
//! A connection belongs to an endpoint and to the identity shown there, and is never reused across either. The most
//! recently used idle one is used first, so that the others age out. With a limit on connections, a new one is made
//! only after an idle one of any endpoint has been closed. If none is idle, the request waits as long as it would for a
//! connect.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

use crate::{Body, CarriedBy, ClientError, ConnectStep, ConnectedTo, connect::Connector, connect::Target};

/// How often idle connections are looked through, as a part of their time.
const SWEEPS: u32 = 4;

/// Limits of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolLimits {
    pub(crate) idle_per_host: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) connections: Option<usize>,
}

/// The peer of a connection, and our identity on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionKey {
    /// `scheme://host:port`.
    pub(crate) endpoint: String,
    /// The TLS configuration that made it, and with it the client certificate.
    pub(crate) identity: u64,
    /// The address filter that allowed it.
    pub(crate) scope: u64,
}

/// Tells whether a request was handed to a connection: before that, nothing of it can have reached the other side.
#[derive(Debug, Clone, Default)]
pub struct Handed(Arc<AtomicBool>);

impl Handed {
    /// Watches a request.
    pub fn watch(request: &mut Request<Body>) -> Self {
        let handed = Self::default();
        request.extensions_mut().insert(handed.clone());
        handed
    }

    /// Whether it was handed over by now.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A connection that takes requests.
struct Connection {
    sender: SendRequest<Body>,
    peer: ConnectedTo,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Default)]
struct IdleConnections {
    /// The freshest at the back.
    idle: HashMap<ConnectionKey, VecDeque<Idle>>,
    count: usize,
    swept: bool,
}

pub(crate) struct Pool {
    connector: Connector,
    builder: Builder,
    limits: PoolLimits,
    places: Option<Arc<Semaphore>>,
    /// Requests that wait for a place.
    waiting: AtomicUsize,
    kept: Mutex<IdleConnections>,
}

/// A waiting request, for as long as this lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pool {
    pub(crate) fn new(connector: Connector, limits: PoolLimits) -> Arc<Self> {
        let mut builder = Builder::new();
        builder
            // 512 KiB lets one read take many TLS records (16 KiB each) and halves the wake-ups per gigabyte.
            .max_buf_size(512 * 1024)
            .title_case_headers(true)
            .preserve_header_case(true);
        Arc::new(Self {
            connector,
            builder,
            limits,
            places: limits.connections.map(|most| Arc::new(Semaphore::new(most))),
            waiting: AtomicUsize::new(0),
            kept: Mutex::default(),
        })
    }

    /// Sends a request whose URI has the form that a server reads, on a connection to `target`.
    ///
    /// A kept connection may have been closed at the far end meanwhile. A request of which nothing was sent goes out
    /// again. So does a safe one without a body if the connection is closed before its answer begins (RFC 9112, 9.3.1).
    pub(crate) async fn send(
        self: &Arc<Self>,
        key: ConnectionKey,
        target: &Target,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, ClientError> {
        while let Some(connection) = self.take(&key) {
            let copy = repeatable(&request);
            match self.exchange(&key, connection, request).await {
                Ok(response) => return Ok(response),
                Err((Some(unsent), _)) => request = unsent,
                Err((None, error)) => {
                    let Some(copy) = copy.filter(|_| closed_early(&error)) else {
                        return Err(error);
                    };
                    request = copy;
                    break;
                }
            }
        }
        // Boxed: a handshake takes some kilobytes, and requests live much longer.
        let opened = Box::pin(self.open(&key, target)).await;
        target.tell(ConnectStep::Over);
        let connection = opened?;
        let sent = self.exchange(&key, connection, request).await;
        sent.map_err(|(_, error)| error)
    }

    async fn exchange(
        self: &Arc<Self>,
        key: &ConnectionKey,
        mut connection: Connection,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, (Option<Request<Body>>, ClientError)> {
        if let Some(handed) = request.extensions().get::<Handed>() {
            handed.0.store(true, Ordering::Release);
        }
        if let Some(carried) = request.extensions().get::<CarriedBy>() {
            carried.is(&connection.peer);
        }
        match connection.sender.try_send_request(request).await {
            Ok(mut response) => {
                response.extensions_mut().insert(connection.peer.clone());
                self.give_back(key, connection);
                Ok(response)
            }
            Err(mut error) => {
                let unsent = error.take_message();
                if let Some(handed) = unsent.as_ref().and_then(|request| request.extensions().get::<Handed>()) {
                    handed.0.store(false, Ordering::Release);
                }
                let error = ClientError::Exchange {
                    endpoint: key.endpoint.clone(),
                    source: Box::new(error.into_error()),
                };
                Err((unsent, error))
            }
        }
    }

    async fn open(self: &Arc<Self>, key: &ConnectionKey, target: &Target) -> Result<Connection, ClientError> {
        target.tell(ConnectStep::Place);
        let place = self.place(&key.endpoint).await?;
        let stream = self.connector.connect(target, place).await?;
        let peer = stream.to();
        let made = self.builder.handshake(stream).await;
        let (sender, connection) = made.map_err(|error| ClientError::Exchange {
            endpoint: key.endpoint.clone(),
            source: Box::new(error),
        })?;
        // A waiting request learns of its end.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, peer })
    }

    /// The right to one more connection.
    async fn place(&self, endpoint: &str) -> Result<Option<OwnedSemaphorePermit>, ClientError> {
        let Some(places) = &self.places else { return Ok(None) };
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Ok(Some(place));
        }
        // Registered before the oldest is given up: connections that become idle after that see it.
        let _waiting = Waiting::begin(&self.waiting);
        self.give_up_oldest();
        let limit = self.connector.connect_timeout;
        match timeout(limit, places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(Some(place)),
            _ => Err(ClientError::Timeout {
                endpoint: endpoint.to_owned(),
                phase: "waiting for a free connection",
                limit,
            }),
        }
    }

    /// Keeps a connection for the next request, as soon as the answer to this one was read to its end.
    fn give_back(self: &Arc<Self>, key: &ConnectionKey, mut connection: Connection) {
        if connection.sender.is_ready() {
            return self.keep(key.clone(), connection);
        }
        let (pool, key) = (Arc::downgrade(self), key.clone());
        tokio::spawn(async move {
            if connection.sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                pool.keep(key, connection);
            }
        });
    }

    fn keep(self: &Arc<Self>, key: ConnectionKey, connection: Connection) {
        let mut kept = self.kept.lock();
        // A waiting request needs this one more than a later one.
        if self.waiting.load(Ordering::SeqCst) > 0 || self.limits.idle_per_host == 0 {
            return;
        }
        let idle = kept.idle.entry(key).or_default();
        idle.push_back(Idle {
            connection,
            since: Instant::now(),
        });
        if idle.len() > self.limits.idle_per_host {
            idle.pop_front();
        } else {
            kept.count += 1;
        }
        if !std::mem::replace(&mut kept.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.limits.idle_timeout));
        }
    }

    /// The freshest idle connection that still lives.
    fn take(&self, key: &ConnectionKey) -> Option<Connection> {
        let mut kept = self.kept.lock();
        let idle = kept.idle.get_mut(key)?;
        let (mut found, mut gone) = (None, 0);
        while let Some(Idle { connection, since }) = idle.pop_back() {
            gone += 1;
            if since.elapsed() < self.limits.idle_timeout && connection.sender.is_ready() {
                found = Some(connection);
                break;
            }
        }
        if idle.is_empty() {
            kept.idle.remove(key);
        }
        kept.count -= gone;
        found
    }

    fn give_up_oldest(&self) {
        let mut kept = self.kept.lock();
        let oldest = kept
            .idle
            .iter()
            .min_by_key(|(_, idle)| idle.front().map(|one| one.since));
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        if let Some(idle) = kept.idle.get_mut(&key) {
            idle.pop_front();
            if idle.is_empty() {
                kept.idle.remove(&key);
            }
            kept.count -= 1;
        }
    }

    /// Closes connections that were idle for too long. Returns whether any is left.
    fn close_aged(&self) -> bool {
        let mut kept = self.kept.lock();
        let limit = self.limits.idle_timeout;
        kept.idle.retain(|_, idle| {
            idle.retain(|one| one.since.elapsed() < limit && !one.connection.sender.is_closed());
            !idle.is_empty()
        });
        kept.count = kept.idle.values().map(VecDeque::len).sum();
        kept.swept = kept.count > 0;
        kept.swept
    }
}

/// A copy of a request that may be repeated: a safe one (RFC 9110, 9.2.1) without a body. A repeated DELETE could be
/// answered 404 for an object that the first one removed: whether that is success is for the caller to decide.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    let is_safe = matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS" | "PROPFIND");
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(crate::body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// The far end closed the connection before its answer was whole.
fn closed_early(error: &ClientError) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_incomplete_message)
        {
            return true;
        }
        let broken = |error: &std::io::Error| {
            use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
            matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected
            )
        };
        if cause.downcast_ref::<std::io::Error>().is_some_and(broken) {
            return true;
        }
        source = cause.source();
    }
    false
}

/// Lives as long as anything is kept.
async fn sweep(pool: Weak<Pool>, idle_timeout: Duration) {
    let pause = (idle_timeout / SWEEPS).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(pause).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_aged()) {
            return;
        }
    }
}
