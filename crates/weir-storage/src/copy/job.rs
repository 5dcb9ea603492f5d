//! Drives a copy: waits for a place, keeps the client alive with markers, notices stalls, and stops when the client leaves.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval},
};
use weir_http::body_pace::Pace;
use weir_http::{Body, ConnectedTo, body};
use weir_units::{Bytes as Volume, Checksums};
use weir_world::{ErrorClass, Party, Phase, Wait, Waits};

use super::{CopyFailure, Pull, Push, pull::Means};
use crate::{
    admission::Turn,
    bandwidth::{HeldBack, Throttle},
    exchange::Exchange,
    flow::{FlowMarker, StreamConnection},
    marker::{LastWord, Marker},
    metrics::waits_of_each,
    service::Endpoint,
};
use weir_http::chronograph::StateTimes;

/// A copy that has been permitted.
pub(crate) enum Job {
    Pull(Box<Pull>),
    Push(Box<Push>),
}

/// The progress of a running copy.
pub(crate) struct Progress {
    /// Bytes written here (pull), or handed to the network (push).
    pub(crate) moved: Arc<AtomicU64>,
    /// Whether bytes should be moving now: only then is silence a stall.
    moving: AtomicBool,
    /// The connection of the only stream, or of the first.
    line: StreamConnection,
    marker: FlowMarker,
    /// Where there are several streams.
    stripes: Mutex<Vec<Arc<Stripe>>>,
    /// When the copy was ordered.
    ordered: Instant,
    /// When data first came from the source, or went to the destination.
    pub(super) first_byte: Arc<OnceLock<Instant>>,
    /// Time of its streams by state.
    pub(super) times: Arc<StateTimes>,
    /// When it got its place, and when its last byte had moved.
    placed: OnceLock<Instant>,
    over: Mutex<Option<Instant>>,
    /// Markers sent.
    markers: AtomicU32,
    /// Whether our own limit of bandwidth held it back since the last look: then silence is no stall either.
    held_back: OnceLock<HeldBack>,
}

/// How far one of several streams has come.
pub(super) struct Stripe {
    pub(super) moved: Arc<AtomicU64>,
    pub(super) first_byte: Arc<OnceLock<Instant>>,
    line: StreamConnection,
    marker: FlowMarker,
}

impl Stripe {
    /// Its bytes come by this connection from now on.
    pub(super) fn comes_by(&self, connection: Option<&ConnectedTo>) {
        self.line.set(connection);
        self.line.mark(&self.marker, &self.moved);
    }
}

impl Progress {
    /// From now on, so many streams are shown.
    pub(super) fn set_stripes(&self, count: usize) -> Vec<Arc<Stripe>> {
        let stripe = |_| Stripe {
            moved: Arc::default(),
            first_byte: self.first_byte.clone(),
            line: StreamConnection::default(),
            marker: self.marker.clone(),
        };
        let stripes: Vec<Arc<Stripe>> = (0..count).map(stripe).map(Arc::new).collect();
        let mut shown = self.stripes.lock();
        shown.clone_from(&stripes);
        stripes
    }

    pub(super) fn set_moving(&self, moving: bool) {
        self.moving.store(moving, Ordering::Relaxed);
        *self.over.lock() = (!moving).then(Instant::now);
    }

    /// The other side was reached by this connection.
    pub(super) fn reached_by(&self, connection: Option<&ConnectedTo>) {
        self.line.set(connection);
    }

    /// The only stream's bytes move on it from now on.
    pub(super) fn moves_there(&self) {
        self.line.mark(&self.marker, &self.moved);
    }

    /// From now on this holds it back.
    pub(super) fn set_throttle(&self, throttle: &Throttle) {
        let _ = self.held_back.set(throttle.held_back());
    }

    fn was_held_back(&self) -> bool {
        self.held_back.get().is_some_and(HeldBack::take)
    }

    /// The time that the copy spent in each state until now.
    fn waits(&self, streams: usize) -> Waits {
        let now = Instant::now();
        let since = |from: Instant, to: Option<Instant>| to.unwrap_or(now).saturating_duration_since(from);
        let (placed, first_byte) = (self.placed.get().copied(), self.first_byte.get().copied());
        let mut waits = waits_of_each(&self.times, streams as u64);
        waits.add(Wait::Place, since(self.ordered, placed));
        if let Some(placed) = placed {
            waits.add(Wait::FirstByte, since(placed, first_byte));
        }
        if let (Some(_), Some(over)) = (first_byte, *self.over.lock()) {
            waits.add(Wait::Close, since(over, None));
        }
        waits
    }

    /// Appends a marker for each stream.
    fn write_markers(&self, text: &mut String) {
        let timestamp = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let stripes = self.stripes.lock().clone();
        let first_byte = self.first_byte.get().map(|at| at.duration_since(self.ordered));
        let waits = self.waits(stripes.len());
        let marker = |stripe, bytes: &AtomicU64, line: &StreamConnection| Marker {
            timestamp,
            stripe,
            bytes: bytes.load(Ordering::Relaxed),
            stripes: stripes.len().max(1) as u32,
            remote: line.remote().into_iter().collect(),
            first_byte,
            waits: (stripe == 0).then(|| Box::new(waits)),
            connection: line.shown(),
        };
        if stripes.is_empty() {
            marker(0, &self.moved, &self.line).write(text);
        }
        for (number, stripe) in stripes.iter().enumerate() {
            marker(number as u32, &stripe.moved, &stripe.line).write(text);
        }
    }
}

/// A copy that ended well.
pub(super) struct Done {
    pub(super) checksums: Checksums,
    /// The result of the comparison with the other side's checksum, for people.
    pub(super) verified: bool,
}

/// Answers 202 and runs the copy beside the answer's body: when the client disconnects, the body is dropped, and the
/// copy stops and removes its partial file.
pub(crate) fn start(
    endpoint: &Arc<Endpoint>,
    job: Job,
    turn: Turn,
    exchange: &mut Option<Exchange>,
    moved: Arc<AtomicU64>,
    marker: FlowMarker,
) -> Response<Body> {
    endpoint.metrics.copies_queued.fetch_add(1, Ordering::Relaxed);
    let queued = Queued {
        endpoint: endpoint.clone(),
    };
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/perf-marker-stream"),
    );
    let exchange = exchange.take().expect("COPY hands it over here, once");
    exchange.answered(StatusCode::ACCEPTED);
    // Small: a client that does not read its markers must not make us keep them.
    let (lines, receiver) = mpsc::channel(4);
    let progress = Progress {
        times: exchange.times(),
        placed: OnceLock::new(),
        over: Mutex::default(),
        moved,
        moving: AtomicBool::new(false),
        line: StreamConnection::default(),
        marker,
        stripes: Mutex::default(),
        ordered: Instant::now(),
        first_byte: Arc::default(),
        markers: AtomicU32::new(0),
        held_back: OnceLock::new(),
    };
    let driver = Driver {
        endpoint: endpoint.clone(),
        exchange,
        progress: Arc::new(progress),
        lines,
    };
    tokio::spawn(driver.run(job, turn, queued));
    *response.body_mut() = body::stream(futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|line: Bytes| (Ok(line), receiver))
    }));
    response
}

/// A copy that waits for its turn is counted.
struct Queued {
    endpoint: Arc<Endpoint>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.endpoint.metrics.copies_queued.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Driver {
    endpoint: Arc<Endpoint>,
    exchange: Exchange,
    progress: Arc<Progress>,
    lines: mpsc::Sender<Bytes>,
}

impl Driver {
    async fn run(self, job: Job, turn: Turn, queued: Queued) {
        let outcome = self.watch(job, turn, queued).await;
        if let Some(remote) = self.progress.line.remote() {
            self.exchange.set_peer(remote.ip());
        }
        self.put_down();
        let Some(outcome) = outcome else {
            self.exchange.failed("the client went away; the copy was stopped");
            return;
        };
        let moved = self.progress.moved.load(Ordering::Relaxed);
        let word = match outcome {
            Ok(done) => {
                let word = LastWord::Success(success(moved, &done));
                if done.verified {
                    self.exchange.compared(true);
                }
                self.exchange.complete(done.checksums);
                word
            }
            Err(failure) => {
                if failure.class == ErrorClass::Checksum {
                    self.exchange.compared(false);
                    self.endpoint
                        .metrics
                        .checksum_mismatches
                        .fetch_add(1, Ordering::Relaxed);
                }
                self.exchange.failed(failure.to_string());
                LastWord::Failure(failure.to_string())
            }
        };
        // Counted first: a client that has read the last line may read the counters next.
        drop(self.exchange);
        let mut text = String::new();
        self.progress.write_markers(&mut text);
        word.write(&mut text);
        let _ = self.lines.send(text.into()).await;
    }

    /// Records the path that the bytes took.
    fn put_down(&self) {
        let progress = &self.progress;
        if let Some(at) = progress.first_byte.get() {
            self.exchange.first_byte(*at);
        }
        let stripes = progress.stripes.lock().len();
        let last = 1;
        let markers = progress.markers.load(Ordering::Relaxed) + last;
        self.exchange.copied(stripes.max(1) as u32, markers);
    }

    /// Runs the copy to its end; none if the client left.
    async fn watch(&self, job: Job, turn: Turn, queued: Queued) -> Option<Result<Done, CopyFailure>> {
        let mut pace = Pace::new(
            self.endpoint.config.tpc.stall_timeout,
            self.endpoint.config.tpc.stall_bytes.0,
        );
        let mut ticks = self.ticks();
        let mut next_marker = Instant::now();
        let party = job.other_party();
        let copy = carry_out(self, job, turn, queued);
        let mut copy = std::pin::pin!(copy);
        loop {
            tokio::select! {
                outcome = &mut copy => return Some(outcome),
                () = self.lines.closed() => return None,
                _ = ticks.tick() => {}
            }
            let now = Instant::now();
            if now >= next_marker {
                next_marker = now + self.endpoint.config.tpc.marker_interval;
                let mut text = String::new();
                self.progress.write_markers(&mut text);
                self.progress.markers.fetch_add(1, Ordering::Relaxed);
                // A client that does not read loses markers, not the copy.
                let _ = self.lines.try_send(text.into());
            }
            if let Some(failure) = self.stalled(&mut pace, now, party) {
                return Some(Err(failure));
            }
        }
    }

    fn ticks(&self) -> Interval {
        let tpc = &self.endpoint.config.tpc;
        let mut ticks = interval(
            tpc.marker_interval
                .min(tpc.stall_timeout / 4)
                .max(std::time::Duration::from_millis(10)),
        );
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    fn stalled(&self, pace: &mut Pace, now: Instant, party: Party) -> Option<CopyFailure> {
        if self.progress.was_held_back() || !self.progress.moving.load(Ordering::Relaxed) {
            pace.reset();
            return None;
        }
        let moved = pace.stalled(now, self.progress.moved.load(Ordering::Relaxed))?;
        let window = self.endpoint.config.tpc.stall_timeout;
        let text = format!(
            "stalled: {} moved in {window:?}, at least {} are asked",
            Volume(moved),
            self.endpoint.config.tpc.stall_bytes
        );
        Some(CopyFailure::new(ErrorClass::Stall, party, Phase::Transfer, text))
    }
}

fn success(moved: u64, done: &Done) -> String {
    let checksums: Vec<String> = done.checksums.iter().map(ToString::to_string).collect();
    let verified = if done.verified {
        "verified"
    } else {
        "not compared: the other side gave no checksum"
    };
    format!("Created {moved} bytes {} ({verified})", checksums.join(" "))
}

impl Job {
    fn other_party(&self) -> Party {
        match self {
            Self::Pull(_) => Party::Source,
            Self::Push(_) => Party::Destination,
        }
    }
}

async fn carry_out(driver: &Driver, job: Job, turn: Turn, queued: Queued) -> Result<Done, CopyFailure> {
    let place = turn.come().await;
    let _ = driver.progress.placed.set(Instant::now());
    drop(queued);
    match job {
        Job::Pull(pull) => {
            let throttle = place.throttle();
            driver.progress.set_throttle(&throttle);
            let means = Means {
                memory: place.memory(),
                throttle,
            };
            pull.run(&driver.progress, driver.exchange.clone(), means).await
        }
        Job::Push(push) => push.run(&driver.endpoint, &driver.progress, place).await,
    }
}
