//! The accept loop of every door.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    body::Cause,
    client_certificates::PeerCertificates,
    head::{Allowance, Answer, Limited},
    tcp::Tcp,
};

/// What a server puts up with.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Open connections; beyond them new ones wait in the kernel's backlog. Default 4096.
    pub connections: usize,
    /// Limit for the TLS handshake. Default 10 s.
    pub handshake_timeout: Duration,
    /// Limit for a request's head, and for an idle kept-alive connection. Default 30 s.
    pub head_timeout: Duration,
    /// Limit for a write that makes no progress: a client that stops reading. Default 60 s.
    pub write_timeout: Duration,
    /// Header lines of a request. Default 100, as hyper has it.
    pub headers: usize,
    /// The longest head of a request; beyond it the connection is closed. Default 64 KiB: several
    /// tokens of 8 KiB. Anybody can make a connection take so much.
    pub head: usize,
    /// Read buffer of a connection. Default 512 KiB; grown only as bodies need it.
    pub buffer: usize,
    /// How long work in hand may go on after [`RunningServer::shutdown`]. Default 10 s.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshake_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            headers: 100,
            head: 64 * 1024,
            buffer: 512 * 1024,
            grace: Duration::from_secs(10),
        }
    }
}

/// Where a request came from and how; found in the extensions of every request.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionInfo {
    /// The other end.
    pub peer: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// Binds a listening socket: address reuse on, a backlog of 1024 for bursts of new connections.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = if address.is_ipv4() {
        socket2::Domain::IPV4
    } else {
        socket2::Domain::IPV6
    };
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}

/// A server that accepts until it is told to stop. Dropping it stops it without grace.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: CancellationToken,
    abort: CancellationToken,
    tracker: TaskTracker,
    grace: Duration,
}

impl RunningServer {
    /// The address it listens on, with the port that was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets requests in hand end within the grace, then cuts what is left.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tracker.close();
        if timeout(self.grace, self.tracker.wait()).await.is_err() {
            self.abort.cancel();
            self.tracker.wait().await;
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.abort.cancel();
    }
}

/// Serves HTTP/1.1 on a bound listener, over TLS if a configuration is given, on the current runtime.
///
/// Each request carries a [`ConnectionInfo`] in its extensions, and [`PeerCertificates`] if the client showed some. A `100 Continue` goes out when the service first polls the
/// request's body: a service that refuses before that never takes the body.
pub fn serve<S, B>(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
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
        stop: CancellationToken::new(),
        abort: CancellationToken::new(),
        tracker: TaskTracker::new(),
        grace: limits.grace,
    };
    let door = Door {
        tls: tls.map(tokio_rustls::TlsAcceptor::from),
        limits: Arc::new(limits),
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
    tls: Option<tokio_rustls::TlsAcceptor>,
    limits: Arc<ServerLimits>,
    service: S,
    stop: CancellationToken,
    abort: CancellationToken,
    tracker: TaskTracker,
}

impl<S, B> Door<S>
where
    S: tower::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Cause>,
{
    async fn accept_all(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = accept_one(&listener, &places) => accepted,
            };
            match accepted {
                Ok((tcp, peer, place)) => {
                    let door = self.clone();
                    self.tracker.spawn(async move {
                        let _place = place;
                        tokio::select! {
                            () = door.abort.cancelled() => {}
                            () = door.handle(tcp, peer) => {}
                        }
                    });
                }
                // Out of descriptors, or a peer that left at once: neither may spin the loop or end it.
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn handle(&self, tcp: TcpStream, peer: SocketAddr) {
        let _ = tcp.set_nodelay(true);
        let Ok(local) = tcp.local_addr() else { return };
        let info = ConnectionInfo {
            peer,
            local,
            tls: self.tls.is_some(),
        };
        let tcp = Tcp::new(tcp, Some(self.limits.write_timeout));
        let Some(acceptor) = &self.tls else {
            return self.speak(tcp, info, None).await;
        };
        match timeout(self.limits.handshake_timeout, acceptor.accept(tcp)).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let certificates = certificates.map(|chain| {
                    let owned = chain.iter().map(|certificate| certificate.clone().into_owned());
                    PeerCertificates(owned.collect())
                });
                self.speak(stream, info, certificates).await;
            }
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
        }
    }

    async fn speak<I>(&self, io: I, info: ConnectionInfo, certificates: Option<PeerCertificates>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let allowance = Allowance::new(self.limits.head);
        let io = Limited::new(io, allowance.clone());
        let service = self.service.clone();
        let service = tower::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(info);
            if let Some(certificates) = &certificates {
                request.extensions_mut().insert(certificates.clone());
            }
            // A clone is ready when its original is; the rooms' services are always ready.
            let mut service = service.clone();
            let allowance = allowance.clone();
            allowance.lift();
            async move {
                std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
                let response = service.call(request).await?;
                Ok::<_, Infallible>(response.map(|body| Answer::new(body, allowance)))
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_timeout)
            .max_buf_size(self.limits.buffer)
            .max_headers(self.limits.headers)
            .serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
        let mut connection = std::pin::pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(peer = %info.peer, %error, "connection ended early");
        }
    }
}

/// Takes a place first and a connection then, so that a full server leaves newcomers in the kernel's backlog.
async fn accept_one(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(|_| io::Error::other("the server is closing"))?;
    let (tcp, peer) = listener.accept().await?;
    Ok((tcp, peer, place))
}
