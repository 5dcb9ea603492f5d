//! PUT: a file that appears when its last byte is verified, or not at all.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::{Operation, StoragePath};
use weir_http::Body;
use weir_units::Bytes;

use super::{only_chunked, status};
use crate::{
    access::Caller,
    admission::Work,
    area::{Area, Claim, Hold},
    backend::{BackendError, Obstacle},
    conditional::Conditions,
    config::Limits,
    data::{Arrived, Expectation, Landing, Sink, SinkError, blocking},
    digest,
    metrics::Kind,
    pace::BodyPace,
    refusal::{Refusal, chain},
    service::Call,
};

pub(super) async fn put(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let size = announced_size(call)?;
    let announced = digest::announced(&call.headers).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let caller = call.known_caller().await?;
    let (area, inside) = call.area()?;
    let conditions = Conditions::of(&call.headers)?;
    let target = {
        let (area, inside, path) = (area.clone(), inside.clone(), call.path.clone());
        let size = size.unwrap_or(0);
        blocking(move || Target::prepare(&area, &inside, &path, &caller, size, conditions, true)).await?
    };
    let _place = call.place(Work::Transfer, &area).await?;
    let expected = Expectation {
        size,
        checksums: announced,
    };
    let moved = call.begin_transfer(Kind::Put, &area);
    let (hold, landing) = target.landing(inside);
    let sink = Sink::new(
        area.clone(),
        hold,
        expected,
        &area.algorithms,
        moved,
        call.exchange().clone(),
    );
    let mut incoming = call.body.take().expect("no verb before this one has taken the body");
    call.body_begun = true;
    let outcome = receive(&mut incoming, sink, landing, &call.endpoint.config.limits).await;
    let arrived = match outcome {
        Ok(arrived) => arrived,
        Err(broken) => {
            call.body = Some(incoming);
            return Err(broken.refusal(call));
        }
    };
    Ok(created(call, &arrived))
}

/// Where a file is to go, after every question that can be asked before its body has been answered.
pub(super) struct Target {
    overwrite: bool,
    conditions: Conditions,
    hold: Hold,
    claim: Claim,
}

impl Target {
    /// Asks all those questions. On the blocking pool.
    pub(super) fn prepare(
        area: &Arc<Area>,
        inside: &StoragePath,
        path: &StoragePath,
        caller: &Caller,
        size: u64,
        conditions: Conditions,
        may_replace: bool,
    ) -> Result<Self, Refusal> {
        // With the right to replace, it does not matter what is there; with the right to create alone, it must be nothing,
        // and must still be nothing when the file appears.
        let may_overwrite = caller.may(Operation::Overwrite, path);
        if may_overwrite.is_err() {
            caller.may(Operation::Create, path)?;
        }
        area.check_writable()?;
        if path.is_directory() {
            return Err(Refusal::conflict(format!("{path} names a directory, not a file")));
        }
        // Before the look at what is there: another writer could change it after that.
        let claim = area.claim(inside)?;
        let current = area.current(inside).map_err(|error| match error.obstacle {
            Obstacle::File => Refusal::conflict(format!("a part of {path} is a file, not a directory")),
            _ => error.into(),
        })?;
        if current.is_some_and(|meta| meta.directory) {
            return Err(Refusal::conflict(format!("{path} is a directory")));
        }
        if current.is_some() {
            may_overwrite.clone()?;
        }
        if current.is_some() && !may_replace {
            return Err(Refusal::precondition(format!("{path} exists, and Overwrite is F")));
        }
        if !conditions.hold(current.as_ref()) {
            return Err(Refusal::condition(path));
        }
        Ok(Self {
            overwrite: may_overwrite.is_ok() && may_replace && !conditions.want_nothing_there(),
            conditions,
            hold: area.hold(size)?,
            claim,
        })
    }

    /// The room for the file, and how it becomes visible. That nothing is there is kept by the rename itself.
    pub(super) fn landing(self, path: StoragePath) -> (Hold, Landing) {
        let landing = Landing {
            path,
            overwrite: self.overwrite,
            conditions: self.conditions,
            claim: self.claim,
        };
        (self.hold, landing)
    }
}

/// The size that the client announces; none if the body comes chunked. Without either there is no body (RFC 9112 section 6.3).
fn announced_size(call: &Call) -> Result<Option<u64>, Refusal> {
    if call.headers.contains_key(header::CONTENT_RANGE) {
        // RFC 9110 section 14.5: taking it for a whole file would destroy the file.
        let text = "a part of a file cannot be written: send the whole file, without Content-Range";
        return Err(Refusal::bad_request(text));
    }
    if call.headers.contains_key(header::TRANSFER_ENCODING) {
        if !only_chunked(&call.headers) {
            // RFC 9112 section 6.1.
            return Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                "of transfer codings only chunked is understood",
            ));
        }
        return Ok(None);
    }
    let size = call.header("content-length").map_or(Ok(0), |text| text.trim().parse());
    size.map(Some)
        .map_err(|_| Refusal::bad_request("Content-Length is no number"))
}

/// Why a body did not become a file.
enum Broken {
    Sink(SinkError),
    Client(Refusal),
}

impl From<SinkError> for Broken {
    fn from(error: SinkError) -> Self {
        Self::Sink(error)
    }
}

impl Broken {
    fn refusal(self, call: &mut Call) -> Refusal {
        match self {
            Self::Client(refusal) => refusal,
            Self::Sink(SinkError::Backend(BackendError {
                obstacle: Obstacle::Exists,
                ..
            })) => {
                Refusal::precondition("another file of that name appeared in the meantime, and it may not be replaced")
            }
            Self::Sink(error) => {
                if matches!(error, SinkError::Checksum { .. }) {
                    call.exchange()
                        .metrics()
                        .checksum_mismatches
                        .fetch_add(1, Ordering::Relaxed);
                }
                error.into()
            }
        }
    }
}

async fn receive(
    incoming: &mut Incoming,
    mut sink: Sink,
    landing: Landing,
    limits: &Limits,
) -> Result<Arrived, Broken> {
    let idle = limits.idle_timeout;
    let mut pace = BodyPace::new(limits.pace_timeout, limits.pace_bytes.0);
    let (mut received, mut ours) = (0, Duration::ZERO);
    loop {
        let next = tokio::time::timeout(idle, incoming.frame())
            .await
            .map_err(|_| too_slow(format!("the client sent nothing for {idle:?}")))?;
        let now = Instant::now();
        match next {
            None => return Ok(sink.finish(landing).await?),
            Some(Ok(frame)) => {
                let Ok(piece) = frame.into_data() else { continue };
                received += piece.len() as u64;
                if let Some(few) = pace.stalled(now, received, ours) {
                    let window = limits.pace_timeout;
                    let text = format!(
                        "the client sent {} in {window:?}, at least {} are asked",
                        Bytes(few),
                        limits.pace_bytes
                    );
                    return Err(too_slow(text));
                }
                sink.push(piece).await?;
                ours = now.elapsed();
            }
            Some(Err(error)) => {
                return Err(Broken::Client(Refusal::bad_request(format!(
                    "the body broke off: {}",
                    chain(&error)
                ))));
            }
        }
    }
}

/// Who sends so slowly holds a place that others could use.
fn too_slow(text: String) -> Broken {
    Broken::Client(Refusal::new(StatusCode::REQUEST_TIMEOUT, text))
}

/// 201 or 204, with the new file's validator and, if wanted, its checksums (which spares the client a HEAD).
pub(super) fn created(call: &Call, arrived: &Arrived) -> Response<Body> {
    let mut response = status(if arrived.replaced {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::CREATED
    });
    let headers = response.headers_mut();
    headers.insert(
        header::ETAG,
        HeaderValue::from_str(&arrived.meta.etag()).expect("tags are valid in headers"),
    );
    if let Some(wanted) = digest::wanted(&call.headers)
        && let Some(known) = wanted.known(&arrived.checksums)
    {
        wanted.answer(&known, headers);
    }
    response
}
