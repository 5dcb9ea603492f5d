//! The client of every door.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::{
    AddressFilter, Body, ChainCheck, ClientError, ConnectWatch, Identity, SocketSettings, TcpLedger, TlsError,
    TrustRoots,
    connect::{Connector, Target},
    pool::{ConnectionKey, Pool, PoolLimits},
    reload::Reloadable,
};

/// How a [`Client`] connects and how long it waits.
#[derive(Clone)]
pub struct ClientConfig {
    /// The trusted authorities.
    pub roots: TrustRoots,
    /// Limit for resolve and connect together, and again for the handshake. Default 30 s: StoRM WebDAV once had 10 s and
    /// had to raise it under load.
    pub connect_timeout: Duration,
    /// Limit from the request's start to the response's head. Default 60 s.
    pub response_timeout: Duration,
    /// Connections at once, to all endpoints and by all [`Client::presenting`] clients together; `None`, the default, means as
    /// many as are asked for. Idle ones are closed where others are needed.
    pub connections: Option<usize>,
    /// Idle connections kept per endpoint. Default 32.
    pub idle_per_host: usize,
    /// How long an idle connection is kept. Default 20 s: below the 30 s after which [`crate::serve`] closes one.
    pub idle_timeout: Duration,
    /// Addresses that may be connected to; `None` means all. See also [`Client::within`].
    pub filter: Option<AddressFilter>,
    /// The address to connect from, where it is of the other side's kind (IPv4 or IPv6, loopback or not); `None` lets the
    /// kernel choose.
    pub local_address: Option<std::net::IpAddr>,
    /// How the kernel runs the connections. Default: as the system is set.
    pub socket: SocketSettings,
    /// Where the connections are counted. Default: one of its own.
    pub ledger: TcpLedger,
    /// `User-Agent` of requests that carry none.
    pub user_agent: HeaderValue,
}

impl ClientConfig {
    /// The defaults, trusting these roots.
    pub fn new(roots: TrustRoots) -> Self {
        Self {
            roots,
            connect_timeout: Duration::from_secs(30),
            response_timeout: Duration::from_secs(60),
            connections: None,
            idle_per_host: 32,
            idle_timeout: Duration::from_secs(20),
            filter: None,
            local_address: None,
            socket: SocketSettings::default(),
            ledger: TcpLedger::default(),
            user_agent: HeaderValue::from_static(concat!("weir/", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// An HTTP/1.1 client with pooled connections. Clones share the pool.
///
/// A request that found its pooled connection closed before a byte was sent goes out once more on a new one. So does a safe one
/// without a body (GET, HEAD, OPTIONS, PROPFIND) whose pooled connection was closed before its answer. Nothing else is retried, and
/// no redirect is followed.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    trust: Reloadable<Trust>,
    /// Separates connections made within one filter from those of another.
    scope: u64,
    filter: Option<AddressFilter>,
    watch: Option<ConnectWatch>,
    response_timeout: Duration,
    user_agent: HeaderValue,
}

/// The trusted authorities, and our own certificate.
struct Trust {
    tls: Arc<rustls::ClientConfig>,
    roots: Arc<rustls::RootCertStore>,
    check: Option<Arc<dyn ChainCheck>>,
    /// Separates connections made with one TLS configuration from those of another.
    identity: u64,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("response_timeout", &self.response_timeout)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Reads the roots and makes a client.
    pub fn new(config: ClientConfig) -> Result<Self, TlsError> {
        let connector = Connector {
            connect_timeout: config.connect_timeout,
            local_address: config.local_address,
            socket: config.socket,
            ledger: config.ledger,
        };
        let limits = PoolLimits {
            idle_per_host: config.idle_per_host,
            idle_timeout: config.idle_timeout,
            connections: config.connections,
        };
        let roots = Arc::new(config.roots.load()?);
        let trust = Trust {
            tls: crate::tls::trusting(roots.clone())?,
            roots,
            check: None,
            identity: new_identity(),
        };
        Ok(Self {
            pool: Pool::new(connector, limits),
            trust: Arc::new(trust).into(),
            scope: 0,
            filter: config.filter,
            watch: None,
            response_timeout: config.response_timeout,
            user_agent: config.user_agent,
        })
    }

    /// A client with another TLS configuration, usually one with a client certificate. Limits and descriptors are
    /// shared; connections are not: each is used only with the configuration that made it.
    #[must_use]
    pub fn presenting(&self, tls: Arc<rustls::ClientConfig>) -> Self {
        let now = self.trust.get();
        self.trusting(Trust {
            tls,
            roots: now.roots.clone(),
            check: now.check.clone(),
            identity: new_identity(),
        })
    }

    fn trusting(&self, trust: Trust) -> Self {
        Self {
            trust: Arc::new(trust).into(),
            ..self.clone()
        }
    }

    /// A client for URLs from untrusted users: it connects only to addresses that the filter allows. Limits and
    /// descriptors are shared; connections are not, as an existing one would bypass the filter.
    #[must_use]
    pub fn within(&self, filter: AddressFilter) -> Self {
        Self {
            filter: Some(filter),
            scope: new_identity(),
            ..self.clone()
        }
    }

    /// A client that tells of each step on the way to a new connection. Everything else is shared, connections too.
    #[must_use]
    pub fn watched(&self, watch: ConnectWatch) -> Self {
        Self {
            watch: Some(watch),
            ..self.clone()
        }
    }

    /// A client that shows a certificate on request; see [`Self::presenting`]. It also has its own TLS sessions, so
    /// that no request ever travels under another identity.
    ///
    /// # Errors
    /// If the certificate or its key cannot be read.
    pub fn showing(&self, identity: &Identity) -> Result<Self, TlsError> {
        Ok(self.presenting(crate::tls::showing(&self.trust.get().tls, identity)?))
    }

    /// A client that has `check` judge the certificates of each server too, after the usual verification of name, time
    /// and authorities. A refused server is sent nothing, not even our own certificate.
    ///
    /// # Errors
    /// If the trusted authorities cannot be used.
    pub fn judging(&self, check: Arc<dyn ChainCheck>) -> Result<Self, TlsError> {
        let now = self.trust.get();
        Ok(self.trusting(Trust {
            tls: crate::tls::judging(&now.tls, now.roots.clone(), check.clone())?,
            roots: now.roots.clone(),
            check: Some(check),
            identity: new_identity(),
        }))
    }

    /// Reads the trusted roots again, for this client and its clones, including those made by [`Self::within`]. New
    /// connections use them, and requests on these; exchanges under way are not affected.
    ///
    /// # Errors
    /// If they cannot be read; then nothing changes.
    pub fn renew(&self, roots: &TrustRoots) -> Result<(), TlsError> {
        let (roots, now) = (Arc::new(roots.load()?), self.trust.get());
        let mut tls = crate::tls::trusting(roots.clone())?;
        if let Some(check) = &now.check {
            tls = crate::tls::judging(&tls, roots.clone(), check.clone())?;
        }
        let mut tls = (*tls).clone();
        tls.client_auth_cert_resolver = now.tls.client_auth_cert_resolver.clone();
        self.trust.set(Arc::new(Trust {
            tls: Arc::new(tls),
            roots,
            check: now.check.clone(),
            identity: new_identity(),
        }));
        Ok(())
    }

    /// A number that is another one after each [`Self::renew`]: clients that were made from this one before it, by
    /// [`Self::showing`] or [`Self::judging`], go on trusting as it did.
    pub fn trust(&self) -> u64 {
        self.trust.get().identity
    }

    /// Sends a request and waits for the response's head, at most the configured time.
    ///
    /// `dav` and `davs` are taken as `http` and `https`.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, ClientError> {
        self.send_within(request, self.response_timeout).await
    }

    /// As [`Client::send`], with a limit of its own: the head of an upload's response comes after its last byte.
    pub async fn send_within(
        &self,
        mut request: Request<Body>,
        limit: Duration,
    ) -> Result<Response<Incoming>, ClientError> {
        let trust = self.trust.get();
        let target = Target::of(
            request.uri(),
            trust.tls.clone(),
            (self.filter.clone(), self.watch.clone()),
        )?;
        in_origin_form(&mut request, &target)?;
        request
            .extensions_mut()
            .extend(crate::header_case::extensions().clone());
        request
            .headers_mut()
            .entry(header::USER_AGENT)
            .or_insert_with(|| self.user_agent.clone());
        let key = ConnectionKey {
            endpoint: target.endpoint.clone(),
            identity: trust.identity,
            scope: self.scope,
        };
        let sent = tokio::time::timeout(limit, self.pool.send(key, &target, request)).await;
        sent.unwrap_or_else(|_| {
            Err(ClientError::Timeout {
                endpoint: target.endpoint.clone(),
                phase: "response",
                limit,
            })
        })
    }

    /// Sends a request whose body waits for `100 Continue` (RFC 9110 section 10.1.1).
    ///
    /// `Expect: 100-continue` is set; the body starts when `100` comes or when `patience` is over, whichever is first,
    /// and never starts if a final status comes before. `limit` covers the whole exchange up to the response's head.
    pub async fn send_expecting(
        &self,
        request: Request<Body>,
        patience: Duration,
        limit: Duration,
    ) -> Result<Response<Incoming>, ClientError> {
        let (mut parts, body) = request.into_parts();
        parts
            .headers
            .insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        let (go, wait) = oneshot::channel();
        let go = Arc::new(parking_lot::Mutex::new(Some(go)));
        let gate = Gate {
            wait: Some(wait),
            patience: Box::pin(tokio::time::sleep(patience)),
            body,
        };
        let mut request = Request::from_parts(parts, http_body_util::BodyExt::boxed_unsync(gate));
        let on_continue = go.clone();
        hyper::ext::on_informational(&mut request, move |response| {
            if response.status() == http::StatusCode::CONTINUE {
                open(&on_continue, Verdict::Start);
            }
        });
        let outcome = self.send_within(request, limit).await;
        open(&go, Verdict::Never);
        outcome
    }
}

fn new_identity() -> u64 {
    static IDENTITIES: AtomicU64 = AtomicU64::new(1);
    IDENTITIES.fetch_add(1, Ordering::Relaxed)
}

type Opener = Arc<parking_lot::Mutex<Option<oneshot::Sender<Verdict>>>>;

enum Verdict {
    Start,
    Never,
}

fn open(opener: &Opener, verdict: Verdict) {
    if let Some(sender) = opener.lock().take() {
        let _ = sender.send(verdict);
    }
}

/// A body that holds its first byte back until it may go.
struct Gate {
    wait: Option<oneshot::Receiver<Verdict>>,
    patience: Pin<Box<tokio::time::Sleep>>,
    body: Body,
}

impl http_body::Body for Gate {
    type Data = Bytes;
    type Error = crate::body::Cause;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        if let Some(wait) = self.wait.as_mut() {
            match Pin::new(wait).poll(cx) {
                Poll::Ready(Ok(Verdict::Start)) => self.wait = None,
                Poll::Ready(_) => return Poll::Ready(Some(Err("the other side answered before the body".into()))),
                Poll::Pending => {
                    if self.patience.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.wait = None;
                }
            }
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// The request as the server reads it: the path alone in its first line, the host in its header.
fn in_origin_form(request: &mut Request<Body>, target: &Target) -> Result<(), ClientError> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    *request.version_mut() = http::Version::HTTP_11;
    let host = HeaderValue::from_str(&target.authority()).map_err(|_| ClientError::Address {
        endpoint: target.endpoint.clone(),
        reason: "the host cannot be written into a header",
    })?;
    request.headers_mut().entry(header::HOST).or_insert(host);
    Ok(())
}
