//! The accept loop of every door.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, header::CONNECTION};
use http_body::Body as _;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    body::Cause,
    buffers::{AdjustableAhead, Buffers},
    client_certificates::PeerCertificates,
    connection_slots::{Admitted, ConnectionSlot, ConnectionSlots, Occupancy},
    direct::Direct,
    framing,
    head::{Allowance, Answer, Limited},
    heads::Heads,
    reload::Reloadable,
    secured::Secured,
    slow_reader::{CutShort, Pace},
    socket::{SocketSettings, SocketWatch, TcpLedger},
    tcp::Tcp,
    until_sent::UntilSent,
};

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Open connections. Beyond them the one that has been idle longest is closed for each new one; if none is idle,
    /// new ones wait in the kernel's backlog. Default 4096.
    pub connections: usize,
    /// Open connections of one client: an IPv4 address, or an IPv6 network of 64 bits. Beyond them its own idle ones are
    /// closed; if it has none, the new one is refused: by `429` where it is plain, by closing it where it is not. `None`, the
    /// default: no limit.
    pub connections_per_client: Option<usize>,
    /// Limit for the TLS handshake. Default 10 s.
    pub handshake_timeout: Duration,
    /// Limit for a request's head, and for an idle kept-alive connection. Default 30 s.
    pub head_timeout: Duration,
    /// Limit for a write of which nothing is taken: a client that stops reading. Default 60 s.
    pub write_timeout: Duration,
    /// Slowest pace at which a client may read an answer. Default: none.
    pub pace: Option<Pace>,
    /// Header lines of a request. Default 100, as hyper has it.
    pub headers: usize,
    /// The longest head of a request; beyond it the connection is closed. Default 64 KiB: several
    /// tokens of 8 KiB. Anybody can make a connection take so much.
    pub head: usize,
    /// Memory for incomplete heads of more than 8 KiB, of all connections; each takes twice the longest. When none is
    /// left, waiting connections are served one after the other, and each evicts the longest holder. Default 32 MiB.
    /// Set at the start, and not changed by a reload.
    pub heads: usize,
    /// Read buffer of a connection. Default 512 KiB; grown only as bodies need it.
    pub buffer: usize,
    /// How long work in hand may go on after [`RunningServer::shutdown`]. Default 10 s.
    pub grace: Duration,
    /// How long, of that, idle connections are kept when the server stops, for requests that are on their way. Default: not at all.
    pub linger: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_client: None,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            pace: None,
            headers: 100,
            head: 64 * 1024,
            heads: 32 << 20,
            buffer: 512 * 1024,
            grace: Duration::from_secs(10),
            linger: Duration::ZERO,
        }
    }
}

/// Time for a connection to complete a request's head when its slot is wanted.
const LEAVE: Duration = Duration::from_secs(1);

/// The answer to a client beyond its share (RFC 6585 section 4).
const REFUSAL: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 10\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Where a request came from and how; found in the extensions of every request.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The TCP figures of the connection.
    pub socket: SocketWatch,
    /// How much of a body it may hold.
    pub buffers: Buffers,
    /// Why the connection was cut, if the client took too little.
    pub cut_short: CutShort,
    /// Keeps things until the answer is with the kernel.
    pub until_sent: UntilSent,
    /// True while the connection holds an uncounted large head; refusing handlers should close it.
    pub holds_large_head: bool,
}

/// The TLS configuration of a server: none, a fixed one, or one that may be exchanged while it runs. Connections keep
/// the one they began with.
#[derive(Debug, Clone, Default)]
pub struct ServerTls(Option<Reloadable<rustls::ServerConfig>>);

impl From<Option<Arc<rustls::ServerConfig>>> for ServerTls {
    fn from(config: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self(config.map(Reloadable::from))
    }
}

impl From<Reloadable<rustls::ServerConfig>> for ServerTls {
    fn from(config: Reloadable<rustls::ServerConfig>) -> Self {
        Self(Some(config))
    }
}

impl ServerTls {
    /// For connections that come from now on, the configuration of `newer`. Whether there is TLS at all stays as it is.
    pub fn renew(&self, newer: &Self) {
        if let (Some(current), Some(newer)) = (&self.0, &newer.0) {
            current.set(newer.get());
        }
    }
}

/// Binds a listening socket: address reuse on, a backlog of 1024 for bursts of new connections.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    bind_with(address, &SocketSettings::default())
}

/// As [`bind`]; the settings hold for every connection that is accepted.
///
/// # Errors
/// If the address cannot be had, or the kernel refuses a setting; the error names it.
pub fn bind_with(address: SocketAddr, settings: &SocketSettings) -> io::Result<TcpListener> {
    let socket = reusable(address)?;
    socket.set_nonblocking(true)?;
    settings.apply(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

fn reusable(address: SocketAddr) -> io::Result<socket2::Socket> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// A port that the system assigns to nobody else while this exists. [`bind`] still gets it, in this process or another.
#[derive(Debug)]
pub struct Reservation {
    address: SocketAddr,
    /// Bound, not listening: Linux then lets listeners with `SO_REUSEADDR` bind the port, and gives it to no socket that
    /// asks for any port.
    _socket: OwnedFd,
}

impl Reservation {
    /// Reserves this address; port 0 reserves one that is free.
    ///
    /// # Errors
    /// If somebody listens on the port, or the host has no such address.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = reusable(address)?;
        socket.bind(&address.into())?;
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self {
            address,
            _socket: socket.into(),
        })
    }

    /// The reserved address, with its port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A server that accepts until it is told to stop. Dropping it stops it without grace.
pub struct RunningServer {
    address: SocketAddr,
    /// The listening socket, for later settings; nothing can connect to it once this stops.
    socket: Option<OwnedFd>,
    slots: Arc<ConnectionSlots>,
    heads: Arc<Heads>,
    ledger: TcpLedger,
    limits: Reloadable<ServerLimits>,
    stop: CancellationToken,
    abort: CancellationToken,
    tracker: TaskTracker,
}

impl RunningServer {
    /// The address it listens on, with the port that was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many are connected.
    pub fn occupancy(&self) -> Occupancy {
        occupancy(&self.slots, &self.heads)
    }

    /// A reader of the number of connections.
    pub fn watch_occupancy(&self) -> impl Fn() -> Occupancy + Send + Sync + 'static {
        let (slots, heads) = (self.slots.clone(), self.heads.clone());
        move || occupancy(&slots, &heads)
    }

    /// The TCP totals of its connections.
    pub fn ledger(&self) -> TcpLedger {
        self.ledger.clone()
    }

    /// Other limits, for connections that come from now on and for the end. Nothing that is connected is cut off.
    pub fn adjust(&self, limits: ServerLimits) {
        self.slots.adjust(limits.connections, limits.connections_per_client);
        self.limits.set(Arc::new(limits));
    }

    /// Applies settings to connections accepted from now on. Settings that are left out keep their values.
    ///
    /// # Errors
    /// If the kernel refuses a setting; those before it are in force.
    pub fn tune(&self, settings: &SocketSettings) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| settings.apply(socket))
    }

    /// Stops accepting, lets requests in hand end within the grace, then cuts the rest.
    pub async fn shutdown(mut self) {
        self.socket = None;
        self.stop.cancel();
        self.tracker.close();
        if timeout(self.limits.get().grace, self.tracker.wait()).await.is_err() {
            self.abort.cancel();
            self.tracker.wait().await;
        }
    }
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.abort.cancel();
    }
}

fn occupancy(slots: &ConnectionSlots, heads: &Heads) -> Occupancy {
    Occupancy {
        heads_cut: heads.cut(),
        ..slots.occupancy()
    }
}

/// Serves HTTP/1.1 on a bound listener, over TLS if a configuration is given, on the current runtime.
///
/// Each request carries a [`ConnectionInfo`] in its extensions, and [`PeerCertificates`] if the client showed some. A `100 Continue` goes out when the service first polls the
/// request's body: a service that refuses before that never takes the body.
pub fn serve<S, B>(
    listener: TcpListener,
    tls: impl Into<ServerTls>,
    limits: ServerLimits,
    service: S,
) -> io::Result<RunningServer>
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Cause>,
{
    let running = RunningServer {
        address: listener.local_addr()?,
        socket: Some(listener.as_fd().try_clone_to_owned()?),
        slots: ConnectionSlots::new(limits.connections, limits.connections_per_client),
        heads: Heads::new(limits.heads),
        ledger: TcpLedger::default(),
        limits: Arc::new(limits).into(),
        stop: CancellationToken::new(),
        abort: CancellationToken::new(),
        tracker: TaskTracker::new(),
    };
    let door = Door {
        tls: tls.into(),
        slots: running.slots.clone(),
        heads: running.heads.clone(),
        ledger: running.ledger.clone(),
        limits: running.limits.clone(),
        service,
        stop: running.stop.clone(),
        abort: running.abort.clone(),
        tracker: running.tracker.clone(),
    };
    running.tracker.spawn(door.accept_all(listener));
    Ok(running)
}

#[derive(Clone)]
struct Door<S> {
    tls: ServerTls,
    slots: Arc<ConnectionSlots>,
    heads: Arc<Heads>,
    ledger: TcpLedger,
    limits: Reloadable<ServerLimits>,
    service: S,
    stop: CancellationToken,
    abort: CancellationToken,
    tracker: TaskTracker,
}

/// Optional properties of a connection for its requests.
#[derive(Default)]
struct RequestExtras {
    certificates: Option<PeerCertificates>,
    direct: Option<Direct>,
}

impl<S, B> Door<S>
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Cause>,
{
    async fn accept_all(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((tcp, peer)) => {
                    // New clients wait in the kernel's backlog meanwhile.
                    let admitted = tokio::select! {
                        biased;
                        admitted = self.slots.take(peer.ip()) => admitted,
                        () = self.stop.cancelled() => break,
                    };
                    self.admit(tcp, peer, admitted);
                }
                // Out of descriptors, or a peer that left at once: neither may spin the loop or end it.
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        self.accept_rest(listener);
    }

    /// Serves the clients in the backlog. The kernel has told them that they are connected: closing the socket would
    /// reset them, with the requests that they have sent already. Clients with room are served one more request each.
    fn accept_rest(self, listener: TcpListener) {
        // Past the runtime, which may not have been told of the newest yet.
        let Ok(listener) = listener.into_std() else { return };
        while let Ok((tcp, peer)) = listener.accept() {
            let admitted = self.slots.take(peer.ip()).now_or_never();
            let (Some(admitted), Ok(())) = (admitted, tcp.set_nonblocking(true)) else {
                return;
            };
            if let Ok(tcp) = TcpStream::from_std(tcp) {
                self.admit(tcp, peer, admitted);
            }
        }
    }

    fn admit(&self, tcp: TcpStream, peer: SocketAddr, admitted: Option<Admitted>) {
        let door = self.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = door.abort.cancelled() => {}
                () = door.handle(tcp, peer, admitted) => {}
            }
        });
    }

    async fn handle(&self, tcp: TcpStream, peer: SocketAddr, admitted: Option<Admitted>) {
        let Some(admitted) = admitted else {
            tracing::debug!(%peer, "refused: its address has as many connections as one may have");
            return self.refuse(tcp).await;
        };
        let limits = self.limits.get();
        let _ = tcp.set_nodelay(true);
        let Ok(local) = tcp.local_addr() else { return };
        let mut tcp = Tcp::new(tcp, None);
        tcp.keep_pace(limits.write_timeout, limits.pace);
        tcp.enter(&self.ledger, peer.ip());
        let _counted = self.slots.count_slow(tcp.cut_short());
        let tls = self.tls.0.as_ref().map(Reloadable::get);
        let info = ConnectionInfo {
            peer,
            local,
            tls: tls.is_some(),
            socket: tcp.watch(),
            buffers: tcp.buffers(),
            cut_short: tcp.cut_short(),
            until_sent: UntilSent::default(),
            holds_large_head: false,
        };
        let Some(tls) = tls else {
            let direct = Some(tcp.direct());
            return self
                .speak(
                    tcp,
                    info,
                    RequestExtras {
                        direct,
                        ..RequestExtras::default()
                    },
                    &admitted.slot,
                )
                .await;
        };
        let shaken = tokio::select! {
            () = admitted.slot.wanted() => return,
            shaken = timeout(limits.handshake_timeout, Secured::accept(tcp, tls)) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let certificates = stream.peer_certificates();
                let certificates = certificates.map(|chain| PeerCertificates(chain.to_vec().into()));
                self.speak(
                    stream,
                    info,
                    RequestExtras {
                        certificates,
                        ..RequestExtras::default()
                    },
                    &admitted.slot,
                )
                .await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    /// Says no where that costs no handshake.
    async fn refuse(&self, mut tcp: TcpStream) {
        if self.tls.0.is_none() {
            let _ = timeout(Duration::from_secs(1), tcp.write_all(REFUSAL)).await;
        }
    }

    async fn speak<I>(&self, io: I, info: ConnectionInfo, beside: RequestExtras, slot: &Arc<ConnectionSlot>)
    where
        I: AsyncRead + AsyncWrite + AdjustableAhead + Unpin + Send + 'static,
    {
        let limits = self.limits.get();
        let allowance = Allowance::new(limits.head, slot.clone(), info.until_sent.clone(), self.heads.clone());
        let io = Limited::new(io, allowance.clone(), info.buffers.clone());
        let (service, stop) = (self.service.clone(), self.stop.clone());
        let peer = info.peer;
        let service = tower::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectionInfo {
                holds_large_head: allowance.is_large(),
                ..info.clone()
            });
            if let Some(certificates) = &beside.certificates {
                request.extensions_mut().insert(certificates.clone());
            }
            if let Some(direct) = &beside.direct {
                request.extensions_mut().insert(direct.clone());
            }
            // A clone is ready when its original is; the rooms' services are always ready.
            let mut service = service.clone();
            let (allowance, stop) = (allowance.clone(), stop.clone());
            allowance.lift(!request.body().is_end_stream());
            let ambiguous = framing::check(&request).err();
            async move {
                if let Some(ambiguous) = ambiguous {
                    return Ok(ambiguous
                        .response()
                        .map(|body| Answer::new(Either::Right(body), allowance)));
                }
                std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
                let mut response = service.call(request).await?;
                if allowance.is_burden() || stop.is_cancelled() {
                    response
                        .headers_mut()
                        .insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| Answer::new(Either::Left(body), allowance)))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .max_buf_size(limits.buffer)
            .max_headers(limits.headers)
            // Bodies are written from where they are, which `Direct` relies on.
            .writev(true)
            .serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = self.stop.cancelled() => {
                // A request on its way to an idle connection would meet its end: answers say `close` from now on, and
                // only silent clients are cut off.
                if let Ok(outcome) = timeout(limits.linger, connection.as_mut()).await {
                    outcome
                } else {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
            () = slot.wanted() => {
                connection.as_mut().graceful_shutdown();
                match timeout(LEAVE, connection.as_mut()).await {
                    Ok(outcome) => outcome,
                    // It has begun a head and does not end it.
                    Err(_) if slot.is_idle() => return,
                    Err(_) => connection.await,
                }
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%peer, %error, "connection ended early");
        }
    }
}
