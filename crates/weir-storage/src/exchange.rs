//! One request from its first byte to its last: its counters and its log line, however it ends.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, Method, StatusCode, Version, header};
use parking_lot::Mutex;
use weir_http::{ConnectionInfo, CutShort};
use weir_network::firefly::{Marked, Tag};
use weir_units::{Checksums, Timestamp};

use weir_http::chronograph::StateTimes;

use crate::{
    access::{Caller, Who},
    access_log::{AccessLog, LogLine, TransferLine},
    area::Area,
    metrics::{Kind, Metrics},
};

/// A request under way. When the last hold on it ends it is counted and its line is written. A client that goes away cannot
/// be overlooked, nor can bytes that are still being written when it does.
#[derive(Clone)]
pub(crate) struct Exchange(Arc<RequestRecord>);

/// The data of a request.
struct RequestRecord {
    log: Arc<AccessLog>,
    metrics: Arc<Metrics>,
    began: (SystemTime, Instant),
    method: Method,
    path: String,
    client: SocketAddr,
    http: &'static str,
    tls: bool,
    /// Why its connection was cut, if it was.
    cut_short: CutShort,
    headers: (Option<String>, Option<String>),
    state: Mutex<ExchangeState>,
}

/// The data that become known on the way.
#[derive(Default)]
struct ExchangeState {
    caller: Option<Caller>,
    status: Option<StatusCode>,
    error: Option<String>,
    transfer: Option<Transfer>,
    /// The request's flows, as networks are told of them.
    marks: Vec<Marked>,
}

impl ExchangeState {
    fn completed(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.completed)
    }
}

/// Data that moves under a request.
struct Transfer {
    kind: Kind,
    area: Arc<Area>,
    peer: Option<IpAddr>,
    remote: Option<String>,
    moved: Arc<AtomicU64>,
    times: Arc<StateTimes>,
    completed: bool,
    checksums: Checksums,
    /// When bytes began to move.
    first_byte: Option<Instant>,
    streams: u32,
    /// The ranges of a vector read.
    n_ranges: Option<usize>,
    markers: Option<u32>,
    /// Whether the other side's checksum is ours, once it was compared.
    compared: Option<bool>,
    tag: Option<Tag>,
}

impl Exchange {
    pub(crate) fn new(
        log: Arc<AccessLog>,
        metrics: Arc<Metrics>,
        method: &Method,
        path: String,
        info: &ConnectionInfo,
        version: Version,
        headers: &HeaderMap,
    ) -> Self {
        let text = |name: &str| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(|text| text.get(..256).unwrap_or(text).to_owned())
        };
        Self(Arc::new(RequestRecord {
            log,
            metrics,
            began: (SystemTime::now(), Instant::now()),
            method: method.clone(),
            path,
            client: info.peer,
            http: if version == Version::HTTP_10 { "1.0" } else { "1.1" },
            tls: info.tls,
            cut_short: info.cut_short.clone(),
            headers: (text(header::USER_AGENT.as_str()), text("clientinfo")),
            state: Mutex::default(),
        }))
    }

    /// Sets the caller.
    pub(crate) fn set_caller(&self, caller: Caller) {
        self.0.state.lock().caller = Some(caller);
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The status that went out.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.0.state.lock().status = Some(status);
    }

    /// Why it was refused, or how it failed.
    pub(crate) fn failed(&self, error: impl Into<String>) {
        self.0.state.lock().error = Some(error.into());
    }

    /// Data begins to move. Gives the counter to be advanced by bytes really written, or really sent.
    pub(crate) fn begin_transfer(&self, kind: Kind, area: &Arc<Area>, remote: Option<String>) -> Arc<AtomicU64> {
        self.0.metrics.transfer_began(kind);
        let moved = Arc::new(AtomicU64::new(0));
        // The peer of a third-party copy is the other server, which is not known yet.
        let peer = if remote.is_none() {
            Some(self.0.client.ip())
        } else {
            None
        };
        self.0.state.lock().transfer = Some(Transfer {
            kind,
            area: area.clone(),
            peer,
            remote,
            moved: moved.clone(),
            times: self.0.metrics.states.begin(&area.name, kind.receives(), peer),
            completed: false,
            checksums: Checksums::default(),
            first_byte: None,
            streams: 1,
            n_ranges: None,
            markers: None,
            compared: None,
            tag: None,
        });
        moved
    }

    /// Keeps the reports on a connection's flow, until the request ends.
    pub(crate) fn keep(&self, marked: Option<Marked>) {
        self.0.state.lock().marks.extend(marked);
    }

    fn with_transfer<T>(&self, change: impl FnOnce(&mut Transfer) -> T) -> Option<T> {
        self.0.state.lock().transfer.as_mut().map(change)
    }

    /// The account of the states of the data's streams.
    pub(crate) fn times(&self) -> Arc<StateTimes> {
        self.with_transfer(|transfer| transfer.times.clone())
            .unwrap_or_default()
    }

    /// Sets the flow's owner and purpose, from the request.
    pub(crate) fn tagged(&self, tag: Option<Tag>) {
        self.with_transfer(|transfer| transfer.tag = tag);
    }

    /// The answer has so many ranges.
    pub(crate) fn sends_ranges(&self, n_ranges: usize) {
        self.0.metrics.ranges_sent.fetch_add(n_ranges as u64, Ordering::Relaxed);
        self.with_transfer(|transfer| transfer.n_ranges = Some(n_ranges));
    }

    /// Sets the peer that data comes from or goes to.
    pub(crate) fn set_peer(&self, peer: IpAddr) {
        self.with_transfer(|transfer| transfer.peer = Some(peer));
    }

    /// When bytes began to move; only the first time counts.
    pub(crate) fn first_byte(&self, at: Instant) {
        self.with_transfer(|transfer| transfer.first_byte = transfer.first_byte.or(Some(at)));
    }

    /// The other side's checksum is ours, or is not.
    pub(crate) fn compared(&self, same: bool) {
        self.with_transfer(|transfer| transfer.compared = Some(same));
    }

    /// How a third-party copy went: by how many streams, and how often the client was told of it.
    pub(crate) fn copied(&self, streams: u32, markers: u32) {
        self.with_transfer(|transfer| (transfer.streams, transfer.markers) = (streams, Some(markers)));
    }

    /// There is more to come, although a file is complete.
    pub(crate) fn goes_on(&self) {
        self.with_transfer(|transfer| transfer.completed = false);
    }

    /// All data moved, and it is good.
    pub(crate) fn complete(&self, checksums: Checksums) {
        self.with_transfer(|transfer| {
            transfer.completed = true;
            transfer.checksums = checksums;
        });
    }
}

impl RequestRecord {
    fn line(&self, state: &ExchangeState) -> LogLine {
        let cut = || self.cut_short.why().map(str::to_owned);
        let caller = state.caller.as_ref();
        let (subject, issuer, token_id) = match caller.map(|caller| &caller.who) {
            None | Some(Who::Anonymous) => (None, None, None),
            Some(Who::Token(token)) => (Some(&token.subject), Some(&token.issuer), Some(&token.id)),
            Some(Who::Certificate(identity, _)) => (Some(&identity.subject), Some(&identity.issuer), None),
        };
        LogLine {
            time: Timestamp::from(self.began.0).rfc3339(),
            duration_ms: self.began.1.elapsed().as_millis() as u64,
            client: self.client.to_string(),
            http: self.http,
            tls: self.tls,
            method: self.method.to_string(),
            path: self.path.clone(),
            status: state
                .status
                .map_or(crate::metrics::CLIENT_GONE, |status| status.as_u16()),
            subject: subject.cloned(),
            issuer: issuer.cloned(),
            token_id: token_id.cloned(),
            vo: caller.and_then(Caller::vo).map(str::to_owned),
            user_agent: self.headers.0.clone(),
            client_info: self.headers.1.clone(),
            transfer: state.transfer.as_ref().map(|transfer| transfer.line(self.began.1)),
            // The asker left at the very end: all was well nevertheless.
            error: state.error.clone().or_else(cut).filter(|_| !state.completed()),
        }
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let mut state = std::mem::take(self.state.get_mut());
        // Each tells the end of its flow.
        state.marks.clear();
        self.metrics.request(&self.method, state.status);
        if let Some(transfer) = &state.transfer {
            let bytes = transfer.moved.load(Ordering::Relaxed);
            self.metrics.states.end(&transfer.times);
            self.metrics.transfer_ended(
                &transfer.area.name,
                transfer.kind,
                transfer.peer,
                bytes,
                transfer.completed,
            );
        }
        if self.log.is_on() {
            self.log.write(self.line(&state));
        }
    }
}

impl Transfer {
    /// `began`: when the request came.
    fn line(&self, began: Instant) -> TransferLine {
        let bytes = self.moved.load(Ordering::Relaxed);
        TransferLine {
            kind: self.kind.as_str(),
            area: self.area.name.clone(),
            peer: self.peer.map(|peer| peer.to_canonical().to_string()),
            remote: self.remote.as_deref().map(weir_auth::redact),
            bytes,
            completed: self.completed,
            first_byte_ms: self.first_byte.map(|at| at.duration_since(began).as_millis() as u64),
            rate: self.first_byte.and_then(|at| rate(bytes, at.elapsed())),
            streams: self.streams,
            ranges: self.n_ranges,
            markers: self.markers,
            compared: match self.compared {
                Some(true) => "same",
                Some(false) => "different",
                None => "none",
            },
            scitag: self.tag.map(Tag::number),
            checksums: self.checksums.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Bytes a second; none where there is nothing to tell it by.
fn rate(bytes: u64, time: Duration) -> Option<u64> {
    let micros = time.as_micros();
    (bytes > 0 && micros > 0).then(|| u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX))
}
