//! The last resort: the bytes pass through this service, from a GET into a PUT, one frame at a time.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_http::{Body, body::Cause};
use weir_units::{Algorithm, Checksum, Hasher};
use weir_world::{ErrorClass, Failure, Phase, Wait};

use crate::{
    clock::AttemptClock,
    copying::thirdparty::RefusedCopy,
    requests::wire::{Forward, keeps_credentials, redirected_to, send, text_of},
    steps::attempt::Attempt,
};

/// Longest wait for `100 Continue` before the body is sent all the same: long enough for a token check, short enough to
/// lose nothing where the destination never sends it.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(2);

/// Copies through this service. Returns the checksum of the streamed bytes.
pub(crate) async fn copy(attempt: &Attempt<'_>, size: Option<u64>) -> Result<Option<Checksum>, RefusedCopy> {
    let began = Instant::now();
    let relay = Arc::new(Relay::new(attempt.expected.algorithm, attempt.clock.clone()));
    let mut uri = attempt
        .destination
        .uri(Phase::Transfer)
        .map_err(RefusedCopy::for_good)?;
    let mut token = attempt.destination.bearer();
    for _ in 0..5 {
        if relay.needs_source() {
            attempt.clock.enter(Wait::FirstByte);
            let (source, length) = open(attempt).await.map_err(RefusedCopy::for_good)?;
            relay.begin(source, length.or(size));
        }
        let mut request = Request::new(relay.body());
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = uri.clone();
        if let Some(token) = &token {
            request.headers_mut().insert(header::AUTHORIZATION, token.clone());
        }
        if !attempt.may_overwrite() {
            request
                .headers_mut()
                .insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(length) = relay.length() {
            request
                .headers_mut()
                .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        match put(attempt, &relay, request).await? {
            None => {
                attempt.counted(Some(relay.moved.load(Ordering::Relaxed)));
                if let Some(at) = relay.first_byte.get() {
                    attempt.first_byte(at.duration_since(began));
                }
                return Ok(relay.checksum());
            }
            Some(next) => {
                if !keeps_credentials(&uri, &next, Forward::Same) {
                    token = None;
                }
                uri = next;
            }
        }
    }
    let scene = attempt.destination.scene(Phase::Transfer);
    Err(RefusedCopy::for_good(
        scene.fail(ErrorClass::Protocol, "PUT: more than 5 redirects in a row"),
    ))
}

/// Opens the source.
async fn open(attempt: &Attempt<'_>) -> Result<(Incoming, Option<u64>), Failure> {
    let side = attempt.source;
    let limit = attempt.settings.response_timeout;
    let request = (Method::GET, HeaderMap::new());
    let answer = send(attempt.client, side, Phase::Transfer, request, Forward::Same, limit).await?;
    let response = answer.response;
    let status = response.status();
    if !status.is_success() {
        let text = text_of(response).await;
        return Err(side
            .scene(Phase::Transfer)
            .status(&side.naming(&Method::GET), status, &text));
    }
    let length = response
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    Ok((response.into_body(), length))
}

/// One PUT. Gives the place it is redirected to, if it is.
async fn put(
    attempt: &Attempt<'_>,
    relay: &Arc<Relay>,
    mut request: Request<Body>,
) -> Result<Option<Uri>, RefusedCopy> {
    let side = attempt.destination;
    let scene = side.scene(Phase::Transfer);
    let uri = request.uri().clone();
    let limit = attempt.wall;
    attempt.order_goes_out(&mut request);
    let sending = async {
        if relay.length() == Some(0) {
            attempt.client.send_within(request, limit).await
        } else {
            attempt.client.send_expecting(request, CONTINUE_PATIENCE, limit).await
        }
    };
    let outcome = tokio::select! {
        outcome = sending => outcome,
        failure = watch(attempt, relay) => return Err(RefusedCopy::for_good(failure)),
    };
    let response = match outcome {
        Ok(response) => {
            // A PUT that was refused or redirected before its body left nothing behind.
            attempt.order_came_back(relay.needs_source() || response.status().is_success());
            attempt.order_is_over(response.status().is_success());
            response
        }
        Err(error) => {
            attempt.order_came_back(!error.before_request());
            let mut failure = match relay.source_error() {
                Some(text) => attempt
                    .source
                    .scene(Phase::Transfer)
                    .fail(ErrorClass::Network, format!("reading broke off: {text}")),
                None => scene.client(&side.naming(&Method::PUT), &error),
            };
            failure.bytes_moved = attempt.bytes_moved();
            return Err(RefusedCopy::for_good(failure));
        }
    };
    attempt.moved(relay.moved.load(Ordering::Relaxed));
    if let Some(next) =
        redirected_to(&response, &uri, side, Phase::Transfer, &Method::PUT).map_err(RefusedCopy::for_good)?
    {
        return Ok(Some(next));
    }
    let status = response.status();
    let text = text_of(response).await;
    if status.is_success() {
        return Ok(None);
    }
    let mut failure = scene.status(&side.naming(&Method::PUT), status, &text);
    failure.bytes_moved = attempt.bytes_moved();
    Err(RefusedCopy::for_good(failure))
}

/// Reports progress, and ends only when bytes stop moving.
async fn watch(attempt: &Attempt<'_>, relay: &Relay) -> Failure {
    let patience = attempt.settings.stall_timeout;
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(Duration::from_millis(500).min(patience)).await;
        let moved = relay.moved.load(Ordering::Relaxed);
        if moved > seen {
            (seen, since) = (moved, Instant::now());
            attempt.moved(moved);
        } else if since.elapsed() >= patience {
            let side = if relay.waits_for_source.load(Ordering::Relaxed) {
                attempt.source
            } else {
                attempt.destination
            };
            let text = format!(
                "no byte moved for {}, after {moved} bytes",
                weir_units::duration::format(patience)
            );
            let mut failure = side.scene(Phase::Transfer).fail(ErrorClass::Stall, text);
            failure.bytes_moved = attempt.bytes_moved();
            return failure;
        }
    }
}

/// State shared by source and destination: the body that is not yet taken, the count, the checksum.
struct Relay {
    source: Mutex<Option<Incoming>>,
    length: AtomicU64,
    hasher: Mutex<Option<Hasher>>,
    algorithm: Algorithm,
    moved: AtomicU64,
    /// When the first data came from the source.
    first_byte: OnceLock<Instant>,
    waits_for_source: AtomicBool,
    error: Mutex<Option<String>>,
    clock: AttemptClock,
}

const UNKNOWN: u64 = u64::MAX;

impl Relay {
    fn new(algorithm: Algorithm, clock: AttemptClock) -> Self {
        Self {
            source: Mutex::new(None),
            length: AtomicU64::new(UNKNOWN),
            hasher: Mutex::new(None),
            algorithm,
            moved: AtomicU64::new(0),
            first_byte: OnceLock::new(),
            waits_for_source: AtomicBool::new(false),
            error: Mutex::new(None),
            clock,
        }
    }

    fn needs_source(&self) -> bool {
        self.source.lock().is_none()
    }

    fn begin(&self, source: Incoming, length: Option<u64>) {
        *self.source.lock() = Some(source);
        *self.hasher.lock() = Some(Hasher::new(&[self.algorithm]));
        self.length.store(length.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.moved.store(0, Ordering::Relaxed);
    }

    fn length(&self) -> Option<u64> {
        Some(self.length.load(Ordering::Relaxed)).filter(|length| *length != UNKNOWN)
    }

    /// So many bytes came from the source. With the last one the wait for the destination's answer begins: a body of known
    /// length is not asked for its end.
    fn came(&self, bytes: u64) {
        if self.first_byte.set(Instant::now()).is_ok() {
            self.clock.enter(Wait::Network);
        }
        let moved = self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.length() == Some(moved) {
            self.clock.enter(Wait::Close);
        }
    }

    fn source_error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    fn checksum(&self) -> Option<Checksum> {
        self.hasher
            .lock()
            .take()
            .and_then(|hasher| hasher.finish().get(self.algorithm).cloned())
    }

    fn body(self: &Arc<Self>) -> Body {
        RelayBody {
            relay: self.clone(),
            source: None,
        }
        .boxed_unsync()
    }
}

/// Takes the source when the first byte is wanted: a PUT that is redirected before leaves it for the next.
struct RelayBody {
    relay: Arc<Relay>,
    source: Option<Incoming>,
}

impl http_body::Body for RelayBody {
    type Data = Bytes;
    type Error = Cause;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if this.source.is_none() {
            this.source = this.relay.source.lock().take();
        }
        let Some(source) = this.source.as_mut() else {
            return Poll::Ready(None);
        };
        match Pin::new(source).poll_frame(cx) {
            Poll::Pending => {
                this.relay.waits_for_source.store(true, Ordering::Relaxed);
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => {
                this.relay.waits_for_source.store(false, Ordering::Relaxed);
                if let Some(data) = frame.data_ref() {
                    this.relay.came(data.len() as u64);
                    if let Some(hasher) = this.relay.hasher.lock().as_mut() {
                        hasher.update(data);
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                *this.relay.error.lock() = Some(weir_auth::error_chain(&error));
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                this.relay.clock.enter(Wait::Close);
                Poll::Ready(None)
            }
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.relay
            .length()
            .map_or_else(http_body::SizeHint::new, http_body::SizeHint::with_exact)
    }
}
