//! One file by several streams at once.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::StoragePath;
use weir_units::Algorithm;
use weir_world::{ErrorClass, Party, Phase};

use super::{
    again::{File, Tries},
    plan::{self, SourcePath},
};
use crate::{
    bandwidth::Throttle,
    copy::{CopyFailure, Remote, job::Stripe, remote::Answer},
    data::{Lane, Striped},
    digest,
    exchange::Exchange,
    memory::Lease,
};
use weir_http::chronograph::{Chronograph, SocketUse, StreamState};

/// Longest wait for the end of a stream whose bytes are complete.
const LEAVE: Duration = Duration::from_secs(1);

/// A file whose parts have all begun to arrive.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) streams: Vec<(Range<u64>, Answer)>,
    /// One lease for each of them.
    pub(super) memory: Vec<Arc<Lease>>,
}

/// Opens a stream for each part of a file.
///
/// `None` if the source does not offer it, if it is not worthwhile, or on an error: then a single stream will report
/// it. `proven`: a checksum of the whole file is known. The copy's own `memory` serves one stream; there are as many
/// others as further memory is available for.
pub(super) async fn open(
    source: &Remote,
    streams: u32,
    wanted: &[Algorithm],
    proven: bool,
    memory: &Arc<Lease>,
) -> Option<Opened> {
    let file = source.describe().await.ok()?;
    let wished = plan::parts(file.size, streams.min(source.tpc.streams_max)).len();
    let mut memory: Vec<_> = [memory.clone()]
        .into_iter()
        .chain(memory.further(wished.saturating_sub(1)))
        .collect();
    let parts = plan::parts(file.size, memory.len() as u32);
    if parts.len() < 2 {
        return None;
    }
    memory.truncate(parts.len());
    let ask = |(number, part): (usize, Range<u64>)| {
        let file = &file;
        async move {
            let wanted = if number == 0 { wanted } else { &[] };
            let answer = file.part(source, &part, wanted).await.ok().flatten();
            answer.map(|answer| (part, answer)).ok_or(())
        }
    };
    let streams = try_join_all(parts.into_iter().enumerate().map(ask)).await.ok()?;
    let offers = Offers::of(streams[0].1.response.headers());
    // Parts of two versions would make a file that never was.
    let proven = proven || file.version.is_some() || offers == Offers::Whole;
    if !proven || offers == Offers::Alone {
        return None;
    }
    Some(Opened { file, streams, memory })
}

/// The checksums that a source announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offers {
    /// None.
    Nothing,
    /// A checksum that can be combined from those of the parts.
    Whole,
    /// Only such as one stream alone can take.
    Alone,
}

impl Offers {
    pub(super) fn of(headers: &http::HeaderMap) -> Self {
        let offered = digest::announced(headers).unwrap_or_default();
        if offered.is_empty() {
            Self::Nothing
        } else if offered.iter().any(|checksum| Striped::can_take([checksum.algorithm])) {
            Self::Whole
        } else {
            Self::Alone
        }
    }
}

/// The same for a file of which one stream has just begun: none if it does well with that.
pub(super) async fn worth_more(
    source: &Remote,
    (size, answer): (u64, &Answer),
    wanted: &[Algorithm],
    proven: bool,
    memory: &Arc<Lease>,
) -> Option<Opened> {
    // How late the answer came says nothing: a disk, a tape or a busy processor takes longer than the longest way.
    let way = SourcePath {
        round_trip: answer.connection.as_ref()?.socket.figures()?.least_round_trip,
        window: plan::window(),
        target: source.tpc.stream_target.0,
    };
    let streams = plan::choose(size, way, source.tpc.streams_max);
    if streams < 2 {
        return None;
    }
    tracing::debug!(source = source.shown(), ?way, streams, "a long way: more streams");
    open(source, streams, wanted, proven, memory).await
}

/// Takes all parts to their ends.
pub(super) async fn receive(
    source: &Remote,
    opened: Opened,
    lanes: Vec<(Lane, Arc<Stripe>)>,
    (exchange, throttle): (&Exchange, &Throttle),
    (path, on_disk): (&StoragePath, bool),
) -> Result<Vec<Lane>, CopyFailure> {
    let Opened { file, streams, .. } = opened;
    let each = streams.into_iter().zip(lanes).map(|((part, answer), (lane, stripe))| {
        let stream = Stream {
            source,
            lane,
            stripe,
            exchange,
            path,
            on_disk,
            clock: Chronograph::start(exchange.times()),
            throttle: throttle.another(),
            tries: Tries::new(source, file.clone(), part.end),
        };
        stream.run(answer)
    });
    try_join_all(each).await
}

struct Stream<'a> {
    source: &'a Remote,
    lane: Lane,
    stripe: Arc<Stripe>,
    exchange: &'a Exchange,
    path: &'a StoragePath,
    /// Whether the area can be waited for.
    on_disk: bool,
    clock: Chronograph,
    throttle: Throttle,
    tries: Tries<'a>,
}

impl Stream<'_> {
    async fn run(mut self, mut answer: Answer) -> Result<Lane, CopyFailure> {
        loop {
            self.stripe.comes_by(answer.connection.as_ref());
            self.lane.pieces.comes_by(answer.buffers());
            if let Some(buffers) = answer.buffers() {
                self.clock.carried();
                self.clock.moves_on(buffers.socket_waits().clone(), SocketUse::Reads);
            }
            let Some(broken) = self.take(answer.response.into_body()).await? else {
                let settled = self.lane.pieces.settle().await;
                self.clock.written(self.lane.pieces.write_times(), self.on_disk);
                return settled
                    .map(|()| self.lane)
                    .map_err(|error| CopyFailure::sink(self.path, &error));
            };
            answer = self.tries.again(self.lane.left().start, broken).await?;
            self.exchange.metrics().streams_resumed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Receives the body; returns the error that broke the stream before its end.
    async fn take(&mut self, mut body: Incoming) -> Result<Option<CopyFailure>, CopyFailure> {
        while !self.lane.left().is_empty() {
            self.throttle.ready().await;
            self.clock.spent(StreamState::Limiter);
            let piece = next(self.source, &mut body, self.lane.left()).await;
            self.clock.arrived();
            match piece {
                Ok(piece) => {
                    self.stripe.first_byte.get_or_init(Instant::now);
                    self.throttle.moved(piece.len() as u64);
                    let pushed = self.lane.push(piece).await;
                    self.clock.written(self.lane.pieces.write_times(), self.on_disk);
                    pushed.map_err(|error| CopyFailure::sink(self.path, &error))?;
                }
                Err(broken) => return Ok(Some(broken)),
            }
        }
        // The end that belongs to it frees the connection for others.
        match tokio::time::timeout(LEAVE, body.frame()).await {
            Ok(Some(Ok(frame))) if frame.data_ref().is_some_and(|data| !data.is_empty()) => Err(self.too_much()),
            _ => Ok(None),
        }
    }

    /// Whether it came in one piece with the last byte, or behind it.
    fn too_much(&self) -> CopyFailure {
        let end = self.lane.left().end;
        let text = format!(
            "GET {}: more came than the part that ends before byte {end}",
            self.source.shown()
        );
        CopyFailure::new(ErrorClass::Size, Party::Source, Phase::Transfer, text)
    }
}

/// The next piece of a stream of which so much is still to come.
pub(super) async fn next(source: &Remote, body: &mut Incoming, left: Range<u64>) -> Result<bytes::Bytes, CopyFailure> {
    let broken = |class, why: String| {
        let text = format!(
            "GET {}: broke off {} bytes before byte {}: {why}",
            source.shown(),
            left.end - left.start,
            left.end
        );
        Err(CopyFailure::new(class, Party::Source, Phase::Transfer, text))
    };
    // Before the copy as a whole counts as stalled.
    let patience = source.tpc.stall_timeout / 2;
    loop {
        return match tokio::time::timeout(patience, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) => Ok(piece),
                Err(_) => continue,
            },
            Ok(Some(Err(error))) => broken(ErrorClass::Network, weir_auth::error_chain(&error)),
            Ok(None) => broken(ErrorClass::Network, "the source ended it".into()),
            Err(_) => broken(ErrorClass::Stall, format!("nothing came for {patience:?}")),
        };
    }
}
