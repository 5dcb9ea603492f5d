//! The client's connector: resolve, filter, connect, handshake; each with its own limit and its own error.

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};

use crate::{
    AddressFilter, ClientError, ConnectStep, ConnectWatch, ConnectedTo,
    buffers::AdjustableAhead as _,
    secured::{ClientSide, Secured},
    socket::{SocketSettings, TcpLedger},
    tcp::Tcp,
    tls::SEALED_AHEAD,
};

pub(crate) struct Connector {
    pub(crate) connect_timeout: Duration,
    pub(crate) local_address: Option<IpAddr>,
    pub(crate) socket: SocketSettings,
    pub(crate) ledger: TcpLedger,
}

/// `scheme://host:port` of a URI: all that may be shown of it.
pub(crate) fn endpoint_of(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("?");
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{scheme}://{host}:{port}"),
        (Some(host), None) => format!("{scheme}://{host}"),
        _ => format!("{scheme}://"),
    }
}

/// The peer to connect to, and the parameters of the connection.
pub(crate) struct Target {
    /// As [`endpoint_of`] has it.
    pub(crate) endpoint: String,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    tls: Option<Arc<rustls::ClientConfig>>,
    filter: Option<AddressFilter>,
    /// Is told of the steps.
    watch: Option<ConnectWatch>,
}

impl Target {
    /// `dav` and `davs` are taken as `http` and `https`.
    pub(crate) fn of(
        uri: &Uri,
        tls: Arc<rustls::ClientConfig>,
        (filter, watch): (Option<AddressFilter>, Option<ConnectWatch>),
    ) -> Result<Self, ClientError> {
        let endpoint = endpoint_of(uri);
        let refuse = |reason| ClientError::Address {
            endpoint: endpoint.clone(),
            reason,
        };
        let secure = match uri.scheme_str() {
            Some("https" | "davs") => true,
            Some("http" | "dav") => false,
            _ => return Err(refuse("the scheme must be http or https")),
        };
        let host = uri.host().ok_or_else(|| refuse("there is no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = secure.then_some(tls);
        Ok(Self {
            endpoint,
            host,
            port,
            tls,
            filter,
            watch,
        })
    }

    /// A step begins.
    pub(crate) fn tell(&self, step: ConnectStep) {
        ConnectWatch::tell(self.watch.as_ref(), step);
    }

    /// The value of `Host`: the port only where it is not the scheme's own (RFC 9110 section 7.2).
    pub(crate) fn authority(&self) -> String {
        let usual = if self.tls.is_some() { 443 } else { 80 };
        let host = &self.host;
        match (host.contains(':'), self.port == usual) {
            (true, true) => format!("[{host}]"),
            (true, false) => format!("[{host}]:{}", self.port),
            (false, true) => host.clone(),
            (false, false) => format!("{host}:{}", self.port),
        }
    }
}

impl Connector {
    /// Connects; the place is held until the connection is closed.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<Stream, ClientError> {
        let endpoint = &target.endpoint;
        let tcp = self.dial(target).await?;
        let ends = tcp.peer_addr().and_then(|peer| Ok((peer, tcp.local_addr()?)));
        let (peer, local) = ends.map_err(|source| ClientError::Connect {
            endpoint: endpoint.clone(),
            source,
        })?;
        let mut tcp = Tcp::new(tcp, None);
        tcp.enter(&self.ledger, peer.ip());
        let to = ConnectedTo {
            peer,
            local,
            socket: tcp.watch(),
            buffers: tcp.buffers(),
        };
        let io = match &target.tls {
            Some(tls) => {
                target.tell(ConnectStep::Handshake);
                self.handshake(endpoint, &target.host, tls.clone(), tcp).await?
            }
            None => Transport::Plain(tcp),
        };
        Ok(Stream {
            io: TokioIo::new(io),
            to,
            sealed: 0,
            _place: place,
        })
    }

    /// Connects, from the configured address where that can reach the other side.
    async fn open(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let usable = |from: &IpAddr| from.is_ipv4() == to.is_ipv4() && from.is_loopback() == to.ip().is_loopback();
        let from = self.local_address.filter(usable);
        match self.connect_from(from, to).await {
            // The ports of this local address are used up: another local address is better than no connection.
            Err(error)
                if from.is_some() && matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) =>
            {
                self.connect_from(None, to).await
            }
            outcome => outcome,
        }
    }

    async fn connect_from(&self, from: Option<IpAddr>, to: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = if to.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if !self.socket.is_default() {
            self.socket.apply(&socket)?;
        }
        if let Some(from) = from {
            // Ports of connections that were just closed may be taken again.
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::new(from, 0))?;
        }
        socket.connect(to).await
    }

    async fn dial(&self, target: &Target) -> Result<TcpStream, ClientError> {
        let endpoint = &target.endpoint;
        let attempt = async {
            target.tell(ConnectStep::Resolve);
            let addresses = tokio::net::lookup_host((target.host.as_str(), target.port))
                .await
                .map_err(|source| ClientError::Resolve {
                    endpoint: endpoint.to_owned(),
                    source,
                })?;
            target.tell(ConnectStep::Connect);
            let mut last = None;
            for address in addresses {
                let filter = target.filter.as_ref();
                if let Some(kind) = filter.and_then(|filter| filter.refuses(address.ip())) {
                    last.get_or_insert(ClientError::Forbidden {
                        endpoint: endpoint.to_owned(),
                        address: address.ip(),
                        kind,
                    });
                    continue;
                }
                match self.open(address).await {
                    Ok(tcp) => {
                        // Requests and performance markers are small and must not wait for a full segment.
                        let _ = tcp.set_nodelay(true);
                        keep_alive(&tcp);
                        return Ok(tcp);
                    }
                    Err(source) => {
                        last = Some(ClientError::Connect {
                            endpoint: endpoint.to_owned(),
                            source,
                        });
                    }
                }
            }
            Err(last.unwrap_or_else(|| ClientError::Resolve {
                endpoint: endpoint.to_owned(),
                source: std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address"),
            }))
        };
        timeout(self.connect_timeout, attempt).await.unwrap_or_else(|_| {
            Err(ClientError::Timeout {
                endpoint: endpoint.to_owned(),
                phase: "connect",
                limit: self.connect_timeout,
            })
        })
    }

    async fn handshake(
        &self,
        endpoint: &str,
        host: &str,
        tls: Arc<rustls::ClientConfig>,
        tcp: Tcp,
    ) -> Result<Transport, ClientError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ClientError::Address {
            endpoint: endpoint.to_owned(),
            reason: "the host is not a valid name",
        })?;
        match timeout(self.connect_timeout, Secured::connect(tcp, tls, name)).await {
            Ok(Ok(stream)) => Ok(Transport::Tls(Box::new(stream))),
            Ok(Err(source)) => Err(broken_off(endpoint.to_owned(), source)),
            Err(_) => Err(ClientError::Timeout {
                endpoint: endpoint.to_owned(),
                phase: "handshake",
                limit: self.connect_timeout,
            }),
        }
    }
}

/// Classifies a failed handshake. An error of rustls concerns certificates and versions; a connection broken by the
/// other side is a failed connection, and another attempt may succeed.
fn broken_off(endpoint: String, source: std::io::Error) -> ClientError {
    let by_rustls = source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if by_rustls.is_some() {
        ClientError::Tls { endpoint, source }
    } else {
        ClientError::Connect { endpoint, source }
    }
}

/// A connection, plain or TLS, that knows its peer.
pub(crate) struct Stream {
    io: TokioIo<Transport>,
    to: ConnectedTo,
    /// The current limit of encrypted bytes ahead of the socket.
    sealed: usize,
    _place: Option<OwnedSemaphorePermit>,
}

impl Stream {
    /// Both ends.
    pub(crate) fn to(&self) -> ConnectedTo {
        self.to.clone()
    }

    /// Before a write: the bound may have moved.
    fn bound(&mut self) {
        let sealed = SEALED_AHEAD.min(self.to.buffers.get());
        if sealed != self.sealed {
            self.sealed = sealed;
            if let Transport::Tls(tls) = self.io.inner_mut() {
                tls.seal_ahead(sealed);
            }
        }
    }
}

enum Transport {
    Plain(Tcp),
    Tls(Box<Secured<ClientSide>>),
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<std::io::Result<usize>> {
        self.bound();
        Pin::new(&mut self.io).poll_write(cx, buffer)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.bound();
        Pin::new(&mut self.io).poll_write_vectored(cx, buffers)
    }
}

macro_rules! either {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match $self.get_mut() {
            Transport::Plain(io) => Pin::new(io).$method($($argument),*),
            Transport::Tls(io) => Pin::new(io.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        either!(self, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<std::io::Result<usize>> {
        either!(self, poll_write(cx, buffer))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        either!(self, poll_shutdown(cx))
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(io) => io.is_write_vectored(),
            Self::Tls(io) => io.is_write_vectored(),
        }
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        either!(self, poll_write_vectored(cx, buffers))
    }
}

/// A connection over which nothing comes while a storage copies is probed. A peer that is gone is noticed within 30 s, and not with the next
/// thing that is sent.
fn keep_alive(tcp: &TcpStream) {
    let probes = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    let _ = socket2::SockRef::from(tcp).set_tcp_keepalive(&probes);
}
