//! The client of every door.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy,
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::oneshot;

use crate::{
    AddressFilter, Body, ClientError, TlsError, TrustRoots, client_config,
    connect::{Connector, endpoint_of},
};

/// The address at the other end; found in the extensions of every response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedTo(pub SocketAddr);

/// How a [`Client`] connects and how long it waits.
#[derive(Clone)]
pub struct ClientConfig {
    /// Who is trusted.
    pub roots: TrustRoots,
    /// Limit for resolve and connect together, and again for the handshake. Default 30 s: StoRM WebDAV once had 10 s and
    /// had to raise it under load.
    pub connect_timeout: Duration,
    /// Limit from the request's start to the response's head. Default 60 s.
    pub response_timeout: Duration,
    /// Idle connections kept per endpoint. Default 32.
    pub idle_per_host: usize,
    /// How long an idle connection is kept. Default 20 s: below the 30 s after which [`crate::serve`] closes one.
    pub idle_timeout: Duration,
    /// Addresses that may be connected to; `None` means all.
    pub filter: Option<AddressFilter>,
    /// The address to connect from, where it is of the other side's kind (IPv4 or IPv6, loopback or not); `None` lets the
    /// kernel choose.
    pub local_address: Option<std::net::IpAddr>,
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
            idle_per_host: 32,
            idle_timeout: Duration::from_secs(20),
            filter: None,
            local_address: None,
            user_agent: HeaderValue::from_static(concat!("weir/", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// An HTTP/1.1 client with pooled connections. Clones share the pool.
///
/// A request that found its pooled connection closed before a byte was sent goes out once more on a new one; nothing else is
/// retried, and no redirect is followed.
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<Connector, Body>,
    response_timeout: Duration,
    user_agent: HeaderValue,
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
            tls: client_config(&config.roots)?,
            connect_timeout: config.connect_timeout,
            filter: config.filter,
            local_address: config.local_address,
        };
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.idle_timeout)
            .pool_max_idle_per_host(config.idle_per_host)
            // 512 KiB lets one read take many TLS records (16 KiB each) and halves the wake-ups per gigabyte.
            .http1_max_buf_size(512 * 1024)
            .http1_title_case_headers(true)
            .http1_preserve_header_case(true)
            .build(connector);
        Ok(Self {
            inner,
            response_timeout: config.response_timeout,
            user_agent: config.user_agent,
        })
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
        normalise(&mut request)?;
        request.extensions_mut().extend(crate::case::extensions().clone());
        request
            .headers_mut()
            .entry(header::USER_AGENT)
            .or_insert_with(|| self.user_agent.clone());
        let endpoint = endpoint_of(request.uri());
        match tokio::time::timeout(limit, self.inner.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unwrap_connect(error, endpoint)),
            Err(_) => Err(ClientError::Timeout {
                endpoint,
                phase: "response",
                limit,
            }),
        }
    }

    /// Sends a request whose body waits for the other side's word (RFC 9110 section 10.1.1).
    ///
    /// `Expect: 100-continue` is set; the body starts when `100` comes or when `patience` is over, whichever is first, and
    /// never starts if a final status comes before. `limit` covers the whole exchange up to the response's head.
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
        let go = Arc::new(std::sync::Mutex::new(Some(go)));
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

type Opener = Arc<std::sync::Mutex<Option<oneshot::Sender<Verdict>>>>;

enum Verdict {
    Start,
    Never,
}

fn open(opener: &Opener, verdict: Verdict) {
    if let Some(sender) = opener.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
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

/// Turns `davs` into `https` (and `dav` into `http`), which the pool and the Host header need.
fn normalise(request: &mut Request<Body>) -> Result<(), ClientError> {
    let plain = match request.uri().scheme_str() {
        Some("davs") => "https",
        Some("dav") => "http",
        _ => return Ok(()),
    };
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = plain.parse().ok();
    let endpoint = endpoint_of(request.uri());
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| ClientError::Address {
        endpoint,
        reason: "the address is malformed",
    })?;
    Ok(())
}

/// The connector's own error is inside the pool's: hand it out as it is.
fn unwrap_connect(error: legacy::Error, endpoint: String) -> ClientError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(ours) = current.downcast_ref::<ClientError>() {
            return ours.duplicate();
        }
        cause = current.source();
    }
    ClientError::Exchange {
        endpoint,
        source: Box::new(error),
    }
}

impl ClientError {
    /// The pool lends its cause only by reference; `io::Error` is rebuilt from kind and text.
    fn duplicate(&self) -> Self {
        let copy = |source: &std::io::Error| std::io::Error::new(source.kind(), source.to_string());
        match self {
            Self::Address { endpoint, reason } => Self::Address {
                endpoint: endpoint.clone(),
                reason,
            },
            Self::Resolve { endpoint, source } => Self::Resolve {
                endpoint: endpoint.clone(),
                source: copy(source),
            },
            Self::Forbidden { endpoint, address } => Self::Forbidden {
                endpoint: endpoint.clone(),
                address: *address,
            },
            Self::Connect { endpoint, source } => Self::Connect {
                endpoint: endpoint.clone(),
                source: copy(source),
            },
            Self::Tls { endpoint, source } => Self::Tls {
                endpoint: endpoint.clone(),
                source: copy(source),
            },
            Self::Timeout { endpoint, phase, limit } => Self::Timeout {
                endpoint: endpoint.clone(),
                phase,
                limit: *limit,
            },
            Self::Exchange { endpoint, source } => Self::Exchange {
                endpoint: endpoint.clone(),
                source: source.to_string().into(),
            },
        }
    }
}
