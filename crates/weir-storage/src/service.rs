//! From a request to its answer: path, permission, verb; and its accounting.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::{
    AuthError, Operation, StoragePath, Verifier,
    x509::{Door, ServerRevocations},
};
use weir_http::{Body, BodyError, Client, ConnectionInfo, Direct, body};
use weir_network::firefly::{Beacon, Tag};

use crate::{
    access::{Caller, Mintage, Policy, Who},
    access_log::AccessLog,
    admission::{Admission, Party, Slot, Work},
    area::{Area, NameSpace, PathTarget},
    backend::Meta,
    checksums::ChecksumReaders,
    config::StorageConfig,
    data::BlockPool,
    exchange::Exchange,
    flow::{Ends, FlowMarker},
    memory::Budget,
    metrics::{Kind, Metrics},
    refusal::Refusal,
    standing::Standing,
    verbs, well_known,
};

/// Limits on the body that is read and discarded after a refusal, so that the client can read the refusal instead of
/// meeting a reset connection.
const LINGER_BYTES: u64 = 64 << 20;
const LINGER_TIME: Duration = Duration::from_secs(10);

/// Everything that requests share. A reload makes a new one, to which the parts are handed on that must last; requests in
/// hand keep theirs.
pub(crate) struct Endpoint {
    pub(crate) config: StorageConfig,
    /// How clients write this endpoint, without a trailing slash.
    pub(crate) url: String,
    pub(crate) names: NameSpace,
    pub(crate) verifier: Verifier,
    /// Knows clients by their certificates, if any are taken.
    pub(crate) door: Option<Arc<Door>>,
    pub(crate) policy: Arc<Policy>,
    /// Makes tokens, if the endpoint makes any.
    pub(crate) mintage: Option<Mintage>,
    pub(crate) client: Client,
    /// Asks issuers for their keys.
    pub(crate) issuers_client: Client,
    /// Other servers whose certificates are revoked.
    pub(crate) revocations: Arc<ServerRevocations>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Arc<AccessLog>,
    pub(crate) checksums: ChecksumReaders,
    pub(crate) blocks: Arc<BlockPool>,
    pub(crate) memory: Budget,
    pub(crate) admission: Admission,
    pub(crate) beacon: Beacon,
    pub(crate) standing: Standing,
}

/// One request on its way through.
pub(crate) struct Call {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) path: StoragePath,
    pub(crate) info: ConnectionInfo,
    /// The server's data about the connection, including the client's certificates.
    extensions: http::Extensions,
    /// Taken by the verb that reads it, and put back if it is refused in the middle.
    pub(crate) body: Option<Incoming>,
    /// Whether some of it has been read, and so the client invited to send it.
    pub(crate) body_begun: bool,
    /// Taken by the verb whose answer outlives the call.
    pub(crate) exchange: Option<Exchange>,
    /// `None`: the caller is not determined yet.
    caller: Option<Caller>,
}

/// Answers one request; every error becomes an answer too.
pub(crate) async fn answer(endpoint: Arc<Endpoint>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (parts, incoming) = request.into_parts();
    let info = parts
        .extensions
        .get::<ConnectionInfo>()
        .cloned()
        .expect("the server puts it into every request");
    let (log, metrics) = (endpoint.log.clone(), endpoint.metrics.clone());
    let path = StoragePath::from_url_path(parts.uri.path());
    let shown = path
        .as_ref()
        .map_or_else(|_| parts.uri.path().to_owned(), ToString::to_string);
    let exchange = Exchange::new(log, metrics, &parts.method, shown, &info, parts.version, &parts.headers);
    let mut call = Call {
        endpoint,
        method: parts.method,
        headers: parts.headers,
        path: StoragePath::root(),
        info,
        extensions: parts.extensions,
        body: Some(incoming),
        body_begun: false,
        exchange: Some(exchange),
        caller: None,
    };
    let outcome = match (&call.method, path) {
        // `OPTIONS *` has no path.
        (&Method::OPTIONS, _) => Ok(verbs::options()),
        (_, Err(error)) => Err(Refusal::bad_request(error.to_string())),
        (_, Ok(path)) => {
            if let Some(outcome) = well_known::answer(&mut call, parts.uri.path()).await {
                outcome
            } else {
                call.path = path;
                verbs::dispatch(&mut call).await
            }
        }
    };
    let response = outcome.unwrap_or_else(|refusal| call.refuse(refusal));
    if let Some(exchange) = &call.exchange {
        exchange.answered(response.status());
    }
    Ok(response)
}

impl Call {
    /// Lets the kernel send files by itself: on connections without TLS.
    pub(crate) fn direct(&self) -> Option<Direct> {
        self.extensions.get().cloned()
    }

    /// The area that the path leads into, and the path inside it.
    pub(crate) fn area(&self) -> Result<(Arc<Area>, StoragePath), Refusal> {
        match self.endpoint.names.find(&self.path)? {
            PathTarget::Area(area, inside) => Ok((area, inside)),
            PathTarget::Above(_) | PathTarget::Nowhere => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("there is no storage area at {}", self.path),
            )),
        }
    }

    /// The caller of the request, by its credentials.
    pub(crate) async fn caller(&mut self) -> Result<Caller, Refusal> {
        if let Some(caller) = &self.caller {
            return Ok(caller.clone());
        }
        let caller = Caller::new(self.who().await?, self.endpoint.policy.clone());
        if let Some(exchange) = &self.exchange {
            exchange.set_caller(caller.clone());
        }
        self.caller = Some(caller.clone());
        Ok(caller)
    }

    /// A token decides alone; without one the certificate does.
    async fn who(&self) -> Result<Who, Refusal> {
        let now = SystemTime::now();
        if let Some(bearer) = bearer(&self.headers) {
            return Ok(Who::Token(self.endpoint.verifier.verify(bearer, now).await?));
        }
        let Some(door) = &self.endpoint.door else {
            return Ok(Who::Anonymous);
        };
        Ok(match door.clients().identity(&self.extensions, now)? {
            Some(identity) => {
                let vo = door.vo(&identity);
                Who::Certificate(identity, vo)
            }
            None => Who::Anonymous,
        })
    }

    /// The caller, where anonymous callers have no rights.
    pub(crate) async fn known_caller(&mut self) -> Result<Caller, Refusal> {
        let caller = self.caller().await?;
        match &caller.who {
            Who::Anonymous => Err(AuthError::Missing.into()),
            Who::Token(_) | Who::Certificate(..) => Ok(caller),
        }
    }

    /// Whether the caller is anonymous, or not determined yet.
    fn is_stranger(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| matches!(caller.who, Who::Anonymous))
    }

    /// A slot for such work in an area, after a short wait if need be.
    pub(crate) async fn place(&self, work: Work, area: &Area) -> Result<Slot, Refusal> {
        self.endpoint.admission.enter(work, self.party(area)).await
    }

    /// The party that the request's work is counted for: by the present knowledge of the caller.
    pub(crate) fn party(&self, area: &Area) -> Party {
        let caller = self.caller.as_ref();
        Party {
            vo: caller.and_then(Caller::vo).map(str::to_owned),
            client: caller
                .and_then(Caller::name)
                .unwrap_or_else(|| self.info.peer.ip().to_canonical().to_string()),
            area: area.name.clone(),
        }
    }

    /// Whether the request may do this with a path.
    pub(crate) async fn permit(
        &mut self,
        operation: Operation,
        path: &StoragePath,
        area: Option<&Area>,
    ) -> Result<(), Refusal> {
        let reading = matches!(operation, Operation::Read | Operation::Stat | Operation::List);
        if reading && area.is_some_and(|area| area.anonymous_read) {
            return Ok(());
        }
        Ok(self.caller().await?.may(operation, path)?)
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        self.exchange.as_ref().expect("no verb has taken it yet")
    }

    /// Begins to move data under this request; gives the counter to advance.
    pub(crate) fn begin_transfer(&self, kind: Kind, area: &Arc<Area>) -> Arc<AtomicU64> {
        let moved = self.exchange().begin_transfer(kind, area, None);
        self.mark(kind, &moved);
        moved
    }

    /// Reports this connection's flow. A copy within the endpoint moves nothing over a network.
    pub(crate) fn mark(&self, kind: Kind, moved: &Arc<AtomicU64>) {
        let marker = self.marker(kind);
        self.exchange().tagged(marker.tag);
        if marker.tag.is_some() && matches!(kind, Kind::Get | Kind::Put) {
            self.exchange().keep(marker.mark(&Ends::from(&self.info), moved, 0));
        }
    }

    /// Tells networks of the request's flows.
    pub(crate) fn marker(&self, kind: Kind) -> FlowMarker {
        FlowMarker {
            beacon: self.endpoint.beacon.clone(),
            tag: self.tag(),
            kind,
        }
    }

    /// The flow's owner and purpose, from the request.
    fn tag(&self) -> Option<Tag> {
        Tag::from_header(self.headers.get_all("scitag").iter().map(HeaderValue::as_bytes))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The request's whole body, of at most so many bytes. All of it must come within the time that a client may be
    /// silent: a client that sends it byte by byte holds a connection that others could use.
    pub(crate) async fn read_body(&mut self, limit: usize) -> Result<Bytes, Refusal> {
        let incoming = self.body.take().expect("no verb before this one has taken the body");
        self.body_begun = true;
        let idle = self.endpoint.config.limits.idle_timeout;
        body::read_within(incoming, limit, idle)
            .await
            .map_err(|error| match error {
                BodyError::TooLarge { .. } => {
                    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, weir_auth::error_chain(&error))
                }
                BodyError::Stalled(_) | BodyError::Late(_) => {
                    Refusal::new(StatusCode::REQUEST_TIMEOUT, weir_auth::error_chain(&error))
                }
                BodyError::Broken(_) => Refusal::bad_request(weir_auth::error_chain(&error)),
            })
    }

    /// Whether the client waits for our word before it sends the body.
    pub(crate) fn expects_continue(&self) -> bool {
        self.header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
    }

    /// The answer to a refused request. A body that is already on its way is thrown away behind it.
    fn refuse(&mut self, refusal: Refusal) -> Response<Body> {
        let refusal = refusal.about(&self.path);
        if let Some(exchange) = &self.exchange {
            exchange.failed(&refusal.reason);
        }
        match self.body.take() {
            None => refusal.into_response(),
            Some(incoming) if incoming.is_end_stream() => refusal.into_response(),
            Some(incoming) if self.body_begun || !self.expects_continue() => {
                let long = incoming.size_hint().lower() > LINGER_BYTES;
                // Strangers would have the memory of large heads for as long as a body may take to come.
                let costly = self.info.holds_large_head && self.is_stranger();
                let text = Bytes::from(refusal.text());
                let refusal = if long || costly { refusal.closing() } else { refusal };
                let time = if costly { LINGER_TIME / 10 } else { LINGER_TIME };
                refusal.respond(lingering(text, incoming, time))
            }
            // Polling the body would invite the client to send it. A body that comes all the same must not be taken for
            // a request.
            Some(_) => refusal.closing().into_response(),
        }
    }
}

/// A body that ends when the request's own has been read, within limits.
fn lingering(text: Bytes, incoming: Incoming, time: Duration) -> Body {
    let drain = async move {
        let mut incoming = incoming;
        let mut left = LINGER_BYTES;
        let all = async {
            while let Some(Ok(frame)) = incoming.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
                if left == 0 {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(time, all).await;
    };
    let first = futures_util::stream::once(async move { Some(text) });
    let then = futures_util::stream::once(async move {
        drain.await;
        None
    });
    body::stream(first.chain(then).filter_map(|piece| async move { piece.map(Ok) }))
}

/// The token of an `Authorization: Bearer` header (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Refuses a trailing slash on what is a file: the right to `/f/` is no right to the file `/f`.
pub(crate) fn check_kind(path: &StoragePath, meta: &Meta) -> Result<(), Refusal> {
    if path.is_directory() && !meta.directory && !path.is_root() {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            format!("{path} is a file, not a directory: ask without the last slash"),
        ));
    }
    Ok(())
}
