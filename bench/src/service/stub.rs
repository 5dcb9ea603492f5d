//! A storage that moves nothing, in a process of its own: transfer services are measured against it.
//!
//! `/src/...` is a file of one megabyte, always. `/dst/t30000/...` is not there until a COPY to it has ended, which takes 30,000 ms
//! and tells a performance marker each five seconds. Everything comes from tape (see
//! [`super::tape`]) if it is asked for there. `GET /stats` tells what happened when, by the machine's monotonic clock.

use std::{collections::HashSet, convert::Infallible, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use weir_http::{Body, Identity, ServerLimits, body};

use super::tape::{self, Tape};

/// Size and checksum of every file.
pub(crate) const SIZE: u64 = 1_000_000;
pub(crate) const ADLER32: &str = "0a0b0c0d";

const MARKER_INTERVAL: Duration = Duration::from_secs(5);
const MODIFIED: &str = "Sat, 21 Nov 2026 10:00:00 GMT";

#[derive(Default)]
struct Seen {
    /// Destinations that are there.
    there: HashSet<String>,
    /// COPYs under way, and the most there were.
    copying: usize,
    copying_max: usize,
    /// When a source was looked at for the first time: a transfer began. Microseconds of the monotonic clock.
    began: Vec<u64>,
    /// When a destination was found whole: a transfer ended.
    ended: Vec<u64>,
    requests: u64,
}

type Shared = Arc<Mutex<Seen>>;

/// Microseconds of a clock that all processes of the machine share.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1000
}

/// Serves until it is killed.
pub(crate) fn serve(address: SocketAddr, certificate: &Path, key: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let identity = Identity::load(certificate, key)?;
        let tls = weir_http::server_config(&identity)?;
        let limits = ServerLimits {
            connections: 19_900,
            // The service keeps a connection as long as it likes.
            head_timeout: Duration::from_secs(120),
            ..ServerLimits::default()
        };
        let (shared, tape) = (Shared::default(), Arc::new(Tape::default()));
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let (shared, tape) = (shared.clone(), tape.clone());
            async move {
                Ok::<_, Infallible>(match *request.method() {
                    _ if tape::is_about(request.uri().path()) => about_tape(&tape, request).await,
                    Method::GET if request.uri().path() == "/stats" => stats(&shared, &tape),
                    Method::POST => taken(request).await,
                    _ => answer(&shared, &request),
                })
            }
        });
        let listener = weir_http::bind(address).with_context(|| format!("could not listen on {address}"))?;
        let _server = weir_http::serve(listener, Some(tls), limits, service)?;
        std::future::pending::<()>().await;
        Ok(())
    })
}

fn look<T>(shared: &Shared, at: impl FnOnce(&mut Seen) -> T) -> T {
    at(&mut shared.lock())
}

/// A door that reads a submission and answers: the rate of the same clients if nothing were done for them.
async fn taken(request: Request<Incoming>) -> Response<Body> {
    match body::read_limited(request.into_body(), 64 << 20, Duration::from_secs(60)).await {
        Ok(_) => Response::new(body::full(r#"{"job_id":"00000000-0000-0000-0000-000000000000"}"#)),
        Err(_) => status(StatusCode::BAD_REQUEST),
    }
}

async fn about_tape(tape: &Tape, request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = body::read_limited(body, 64 << 20, Duration::from_secs(60)).await else {
        return status(StatusCode::BAD_REQUEST);
    };
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(head.uri.authority().map(http::uri::Authority::as_str));
    let (status, answer) = tape.answer(host.unwrap_or_default(), head.method.as_str(), head.uri.path(), &body);
    let mut response = Response::new(body::full(answer.to_string()));
    *response.status_mut() = status;
    response
}

fn answer(shared: &Shared, request: &Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    look(shared, |seen| seen.requests += 1);
    match request.method().as_str() {
        "HEAD" if path.starts_with("/src/") => {
            look(shared, |seen| seen.began.push(monotonic()));
            whole()
        }
        "HEAD" => {
            let there = look(shared, |seen| {
                let there = seen.there.contains(&path);
                if there {
                    seen.ended.push(monotonic());
                }
                there
            });
            if there { whole() } else { status(StatusCode::NOT_FOUND) }
        }
        "COPY" => copy(shared.clone(), path),
        "MKCOL" => status(StatusCode::CREATED),
        "DELETE" => {
            look(shared, |seen| seen.there.remove(&path));
            status(StatusCode::NO_CONTENT)
        }
        _ => status(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    response
}

/// The answer to HEAD of a file.
fn whole() -> Response<Body> {
    let mut response = Response::new(body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(SIZE));
    headers.insert(header::LAST_MODIFIED, HeaderValue::from_static(MODIFIED));
    if let Ok(digest) = HeaderValue::from_str(&format!("adler32={ADLER32}")) {
        headers.insert("digest", digest);
    }
    response
}

fn stats(shared: &Shared, tape: &Tape) -> Response<Body> {
    let text = look(shared, |seen| {
        json!({
            "copying": seen.copying,
            "copying_max": seen.copying_max,
            "there": seen.there.len(),
            "requests": seen.requests,
            "began": seen.began,
            "ended": seen.ended,
            "tape": tape.stats(),
        })
        .to_string()
    });
    Response::new(body::full(text))
}

/// Milliseconds, from the second part of the path.
fn duration(path: &str) -> Duration {
    let part = path.split('/').nth(2).and_then(|part| part.strip_prefix('t'));
    Duration::from_millis(part.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// A COPY that is under way; counted until its answer is over or its client has left.
struct Copying {
    shared: Shared,
    path: String,
    left: Duration,
}

impl Copying {
    fn new(shared: Shared, path: String) -> Self {
        look(&shared, |seen| {
            seen.copying += 1;
            seen.copying_max = seen.copying_max.max(seen.copying);
        });
        let left = duration(&path);
        Self { shared, path, left }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        look(&self.shared, |seen| seen.copying -= 1);
    }
}

fn copy(shared: Shared, path: String) -> Response<Body> {
    let copying = Copying::new(shared, path);
    let said = stream::unfold(Some(copying), |state| async move {
        let mut copying = state?;
        if copying.left > MARKER_INTERVAL {
            tokio::time::sleep(MARKER_INTERVAL).await;
            copying.left -= MARKER_INTERVAL;
            return Some((Ok(marker()), Some(copying)));
        }
        tokio::time::sleep(copying.left).await;
        look(&copying.shared, |seen| seen.there.insert(copying.path.clone()));
        Some((Ok(Bytes::from_static(b"success: Created\n")), None))
    });
    let mut response = Response::new(body::stream(said));
    *response.status_mut() = StatusCode::CREATED;
    response
}

fn marker() -> Bytes {
    let now = monotonic();
    Bytes::from(format!(
        "Perf Marker\n  Timestamp: {}\n  Stripe Index: 0\n  Stripe Bytes Transferred: {}\n  Total Stripe Count: 1\nEnd\n",
        now / 1_000_000,
        // It grows, and stays below the size.
        (now / 1_000_000) % SIZE
    ))
}
