//! PUT: a file that appears when its last byte is verified, or not at all.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::{AuthError, Operation, StoragePath};
use weir_http::body_pace::BodyPace;
use weir_http::{Body, SocketWaits};
use weir_units::Bytes as Volume;

use super::status;
use crate::{
    access::Caller,
    admission::Work,
    area::{Area, Claim, Hold},
    backend::{BackendError, Creator, Obstacle},
    bandwidth::Throttle,
    conditional::Conditions,
    config::{Dav, Limits},
    data::{Arrived, Batch, Expectation, Intake, Landing, Sink, SinkError, blocking, store},
    digest,
    exchange::Exchange,
    metrics::Kind,
    refusal::Refusal,
    service::Call,
};
use weir_http::chronograph::{Chronograph, SocketUse, StreamState};

/// A body of at most so many bytes is read before the first disk access, and the whole PUT then takes one. A client
/// that does not wait for `100 Continue` has sent it already.
const SMALL: u64 = 64 << 10;

pub(super) async fn put(call: &mut Call) -> Result<Response<Body>, Refusal> {
    let size = announced_size(call)?;
    let announced = digest::announced(&call.headers).map_err(|error| Refusal::bad_request(error.to_string()))?;
    let expected = Expectation {
        size,
        checksums: announced,
    };
    let caller = call.known_caller().await?;
    let (area, inside) = call.area()?;
    let conditions = Conditions::of(&call.headers)?;
    let aim = Aim {
        area,
        inside,
        path: call.path.clone(),
        caller,
        size: size.unwrap_or(0),
        conditions,
        may_replace: true,
        may_wait: true,
    };
    let arrived = if size.is_some_and(|size| size <= SMALL) && !call.expects_continue() {
        put_small(call, aim, expected).await?
    } else {
        put_large(call, aim, expected).await?
    };
    Ok(created(call, &arrived))
}

async fn put_small(call: &mut Call, mut aim: Aim, expected: Expectation) -> Result<Arrived, Refusal> {
    let _ = aim.check_right()?;
    let place = call.place(Work::Transfer, &aim.area).await?;
    let mut batch = Batch::default();
    let began = Instant::now();
    receive(call, To::Memory(&mut batch), place.throttle()).await?;
    let (exchange, memory) = (call.exchange().clone(), place.memory());
    let at_once = aim.area.never_waits_for(aim.size);
    aim.may_wait = !at_once;
    let visit = move || {
        let (area, inside) = (aim.area.clone(), aim.inside.clone());
        let landing = Target::prepare(aim)?.landing(inside);
        let moved = exchange.begin_transfer(Kind::Put, &area, None);
        exchange.first_byte(began);
        let stored = store(
            &area,
            landing,
            &batch.take(),
            &expected.checksums,
            moved.clone(),
            (exchange, memory),
        );
        Ok::<_, Refusal>((stored, moved))
    };
    // The way to another thread and back takes longer than all of this in memory.
    let outcome = if at_once { visit() } else { blocking(visit).await };
    let (stored, moved) = outcome?;
    call.mark(Kind::Put, &moved);
    stored.map_err(|error| refusal(call, error))
}

async fn put_large(call: &mut Call, aim: Aim, expected: Expectation) -> Result<Arrived, Refusal> {
    let (area, inside) = (aim.area.clone(), aim.inside.clone());
    let target = blocking(move || Target::prepare(aim)).await?;
    let place = call.place(Work::Transfer, &area).await?;
    let moved = call.begin_transfer(Kind::Put, &area);
    let (hold, landing) = target.landing(inside);
    let own = area.algorithms.clone();
    let on_disk = !area.backend.never_waits();
    let mut intake = Intake::new(place.memory(), &area);
    intake.comes_by(Some(call.info.buffers.clone()));
    let exchange = call.exchange().clone();
    let mut sink = Sink::new(area, hold, expected, &own, moved, exchange, intake);
    receive(call, To::Sink(&mut sink, on_disk), place.throttle()).await?;
    sink.finish(landing).await.map_err(|error| refusal(call, error))
}

/// The target of a new file, and its caller.
pub(super) struct Aim {
    pub(super) area: Arc<Area>,
    pub(super) inside: StoragePath,
    pub(super) path: StoragePath,
    pub(super) caller: Caller,
    /// 0 if it is not known.
    pub(super) size: u64,
    pub(super) conditions: Conditions,
    pub(super) may_replace: bool,
    /// Whether the thread that prepares it may sleep.
    pub(super) may_wait: bool,
}

impl Aim {
    /// Checks the right to create or replace. With the right to create alone, the path must be free, and must still be
    /// free when the file appears. Returns the reason why nothing may be replaced, if that is so.
    fn check_right(&self) -> Result<Option<AuthError>, Refusal> {
        let overwrite = self.caller.may(Operation::Overwrite, &self.path);
        if overwrite.is_err() {
            self.caller.may(Operation::Create, &self.path)?;
        }
        Ok(overwrite.err())
    }
}

/// Where a file is to go, after every question that can be asked before its body has been answered.
pub(super) struct Target {
    overwrite: bool,
    conditions: Conditions,
    hold: Hold,
    claim: Claim,
    creator: Option<Creator>,
    /// Of the file that is replaced: a PUT changes none of them (RFC 4918 section 9.7.1).
    properties: Option<String>,
}

impl Target {
    /// Asks all those questions. On the blocking pool.
    pub(super) fn prepare(aim: Aim) -> Result<Self, Refusal> {
        let no_overwrite = aim.check_right()?;
        let Aim {
            area,
            inside,
            path,
            size,
            conditions,
            may_replace,
            may_wait,
            caller,
        } = aim;
        area.check_writable()?;
        if path.is_directory() {
            return Err(Refusal::conflict(format!("{path} names a directory, not a file")));
        }
        // Before the lookup of the current object: another writer could change it after that.
        let claim = area.claim(&inside)?;
        let current = area.current(&inside).map_err(|error| match error.obstacle {
            Obstacle::File => Refusal::conflict(format!("a part of {path} is a file, not a directory")),
            _ => error.into(),
        })?;
        if current.is_some_and(|meta| meta.directory) {
            return Err(Refusal::conflict(format!("{path} is a directory")));
        }
        if let (Some(_), Some(error)) = (current, no_overwrite.clone()) {
            return Err(error.into());
        }
        if current.is_some() && !may_replace {
            return Err(Refusal::precondition(format!("{path} exists, and Overwrite is F")));
        }
        conditions.check(current.as_ref())?;
        let properties = match current {
            Some(_) if area.dav == Dav::Full => area.backend.properties(&inside)?,
            _ => None,
        };
        Ok(Self {
            overwrite: no_overwrite.is_none() && may_replace && !conditions.want_nothing_there(),
            conditions,
            hold: if may_wait {
                area.hold(size)
            } else {
                area.hold_at_once(size)
            }?,
            claim,
            creator: caller.creator(),
            properties,
        })
    }

    /// The room for the file, and its publication. The rename itself checks that the path is free.
    pub(super) fn landing(self, path: StoragePath) -> (Hold, Landing) {
        let landing = Landing {
            path,
            overwrite: self.overwrite,
            conditions: self.conditions,
            claim: self.claim,
            creator: self.creator,
            properties: self.properties,
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
        return Ok(None);
    }
    let size = call.header("content-length").map_or(Ok(0), |text| text.trim().parse());
    size.map(Some)
        .map_err(|_| Refusal::bad_request("Content-Length is no number"))
}

/// The answer where a body did not become a file.
fn refusal(call: &Call, error: SinkError) -> Refusal {
    match error {
        SinkError::Backend(BackendError {
            obstacle: Obstacle::Exists,
            ..
        }) => Refusal::precondition("another file of that name appeared in the meantime, and it may not be replaced"),
        error => {
            if matches!(error, SinkError::Checksum { .. }) {
                let mismatches = &call.exchange().metrics().checksum_mismatches;
                mismatches.fetch_add(1, Ordering::Relaxed);
            }
            error.into()
        }
    }
}

/// Passes on the request's body, piece by piece, as long as it comes fast enough. The rest of a refused one stays with
/// the call.
async fn receive(call: &mut Call, to: To<'_>, throttle: Throttle) -> Result<(), Refusal> {
    let mut incoming = call.body.take().expect("no verb before this one has taken the body");
    call.body_begun = true;
    let limits = &call.endpoint.config.limits;
    let socket = call.info.buffers.socket_waits().clone();
    let outcome = hand_on(&mut incoming, call.exchange(), to, limits, (throttle, socket)).await;
    outcome.map_err(|broken| {
        call.body = Some(incoming);
        match broken {
            BrokenBody::Sink(error) => refusal(call, error),
            BrokenBody::Client(refusal) => refusal,
        }
    })
}

/// Where a body goes.
enum To<'a> {
    Memory(&'a mut Batch),
    /// With the knowledge whether the area can be waited for.
    Sink(&'a mut Sink, bool),
}

impl To<'_> {
    async fn take(&mut self, piece: Bytes) -> Result<(), SinkError> {
        match self {
            Self::Memory(batch) => {
                batch.push(piece);
                Ok(())
            }
            Self::Sink(sink, _) => sink.push(piece).await,
        }
    }

    /// Accounts for the taking of a piece.
    fn mark(&self, clock: &mut Chronograph) {
        match self {
            Self::Memory(_) => clock.spent(StreamState::Processor),
            Self::Sink(sink, on_disk) => clock.written(sink.pieces.write_times(), *on_disk),
        }
    }
}

/// Why a body is not read to its end.
enum BrokenBody {
    Sink(SinkError),
    Client(Refusal),
}

async fn hand_on(
    incoming: &mut Incoming,
    exchange: &Exchange,
    mut to: To<'_>,
    limits: &Limits,
    (mut throttle, socket): (Throttle, SocketWaits),
) -> Result<(), BrokenBody> {
    let idle = limits.idle_timeout;
    let mut pace = BodyPace::new(limits.pace_timeout, limits.pace_bytes.0);
    let (mut received, mut ours, mut all_ours) = (0, Duration::ZERO, Duration::ZERO);
    let mut clock = Chronograph::start(exchange.times());
    clock.moves_on(socket, SocketUse::Reads);
    throttle.ready().await;
    clock.spent(StreamState::Limiter);
    loop {
        let next = tokio::time::timeout(idle, incoming.frame())
            .await
            .map_err(|_| too_slow(format!("the client sent nothing for {idle:?}")))?;
        clock.arrived();
        let now = Instant::now();
        match next {
            None => return Ok(()),
            Some(Ok(frame)) => {
                let Ok(piece) = frame.into_data() else { continue };
                if received == 0 {
                    exchange.first_byte(now);
                }
                received += piece.len() as u64;
                if let Some(few) = pace.stalled(now.checked_sub(all_ours).unwrap_or(now), received, ours) {
                    let window = limits.pace_timeout;
                    let text = format!(
                        "the client sent {} in {window:?}, at least {} are asked",
                        Volume(few),
                        limits.pace_bytes
                    );
                    return Err(too_slow(text));
                }
                throttle.moved(piece.len() as u64);
                let taken = to.take(piece).await;
                to.mark(&mut clock);
                taken.map_err(BrokenBody::Sink)?;
                throttle.ready().await;
                clock.spent(StreamState::Limiter);
                ours = now.elapsed();
                all_ours += ours;
            }
            Some(Err(error)) => {
                return Err(BrokenBody::Client(Refusal::bad_request(format!(
                    "the body broke off: {}",
                    weir_auth::error_chain(&error)
                ))));
            }
        }
    }
}

/// A client that sends so slowly holds a slot that others could use.
fn too_slow(text: String) -> BrokenBody {
    BrokenBody::Client(Refusal::new(StatusCode::REQUEST_TIMEOUT, text))
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
