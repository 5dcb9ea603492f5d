//! The destination reads from the source: by one stream, or by several that each read a part.

mod again;
mod plan;
mod stripes;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use http::{StatusCode, Version as HttpVersion, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::StoragePath;
use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Party, Phase};

use again::Tries;
pub(super) use again::{File, Version};
use stripes::{Offers, Opened};

use super::{
    CopyFailure, Remote,
    job::{Done, Progress},
    remote::{Answer, Told},
    request::Streams,
};
use crate::{
    area::{Area, Hold},
    bandwidth::Throttle,
    config::Verify,
    data::{Expectation, Intake, Landing, Sink, SinkError, Striped, blocking},
    exchange::Exchange,
    memory::Lease,
};
use weir_http::chronograph::{Chronograph, SocketUse, StreamState};

/// The resources of a pull's streams.
pub(super) struct Means {
    pub(super) memory: Arc<Lease>,
    pub(super) throttle: Throttle,
}

/// A permitted pull.
pub(crate) struct Pull {
    pub(crate) source: Remote,
    pub(crate) area: Arc<Area>,
    pub(crate) landing: Landing,
    pub(crate) hold: Hold,
    /// Checksums that the client announced.
    pub(crate) expected: Vec<Checksum>,
    pub(crate) require_checksum: Option<bool>,
    pub(crate) streams: Streams,
}

impl Pull {
    pub(super) async fn run(
        self: Box<Self>,
        progress: &Progress,
        exchange: Exchange,
        Means { memory, throttle }: Means,
    ) -> Result<Done, CopyFailure> {
        let terms = self.terms();
        let by_parts = Striped::can_take(
            terms
                .own
                .iter()
                .copied()
                .chain(self.expected.iter().map(|sum| sum.algorithm)),
        );
        let proven = !self.expected.is_empty();
        if let Streams::Asked(streams @ 2..) = self.streams
            && by_parts
            && let Some(opened) = stripes::open(&self.source, streams, terms.wanted(), proven, &memory).await
        {
            return self.by_several(&terms, opened, progress, (exchange, throttle)).await;
        }
        let answer = ask(&self.source, terms.wanted()).await?;
        progress.reached_by(answer.connection.as_ref());
        let length = check_answer(&self.source, &answer)?;
        // A checksum that cannot be combined from those of the parts would not be compared.
        let by_parts = by_parts && Offers::of(answer.response.headers()) != Offers::Alone;
        if let (Streams::Ours, true, Some(size)) = (self.streams, by_parts, length.known())
            && let Some(opened) =
                stripes::worth_more(&self.source, (size, &answer), terms.wanted(), proven, &memory).await
        {
            drop(answer);
            return self.by_several(&terms, opened, progress, (exchange, throttle)).await;
        }
        let intake = Intake::new(memory, &self.area);
        self.by_one(&terms, answer, length, progress, (exchange, intake, throttle))
            .await
    }

    fn terms(&self) -> Terms {
        let required = self
            .require_checksum
            .unwrap_or(self.source.tpc.verify == Verify::Required);
        Terms {
            required,
            own: own_algorithms(&self.area, required),
            unasked: self.require_checksum == Some(false),
        }
    }

    async fn by_one(
        self: Box<Self>,
        terms: &Terms,
        answer: Answer,
        length: Length,
        progress: &Progress,
        (exchange, mut intake, throttle): (Exchange, Intake, Throttle),
    ) -> Result<Done, CopyFailure> {
        let Self {
            source,
            area,
            landing,
            hold,
            expected,
            ..
        } = *self;
        intake.comes_by(answer.buffers());
        let size = length.known();
        let offered = source.announced(answer.response.headers(), Phase::Preparation)?;
        let offered = worthwhile(offered, &terms.own);
        agree(&source, &expected, &offered)?;
        let path = area.prefix.join(&landing.path);
        let on_disk = !area.backend.never_waits();
        let hold = make_room(hold, size).await?;
        let must_ask = terms.required && offered.is_empty();
        let checksums: Vec<Checksum> = expected.into_iter().chain(offered).collect();
        let end_unproven = length == Length::UntilClose && checksums.is_empty();
        let mut verified = !checksums.is_empty();
        let mut sink = Sink::new(
            area,
            hold,
            Expectation { size, checksums },
            &terms.own,
            progress.moved.clone(),
            exchange.clone(),
            intake,
        );
        progress.moves_there();
        progress.set_moving(true);
        let mut clock = Chronograph::start(exchange.times());
        if let Some(buffers) = answer.buffers() {
            clock.moves_on(buffers.socket_waits().clone(), SocketUse::Reads);
        }
        let single = Single {
            clock,
            on_disk,
            source: &source,
            size,
            tries: resumable(&source, &answer, size),
            progress,
            exchange: &exchange,
            path: &path,
            throttle,
        };
        single.receive(answer.response.into_body(), &mut sink).await?;
        progress.set_moving(false);
        if must_ask || end_unproven {
            let told = ask_later(&source, &terms.own, terms.required).await?;
            verified |= !told.checksums.is_empty();
            sink.expect(told.size.filter(|_| end_unproven), told.checksums);
        }
        drop(exchange);
        let arrived = sink
            .finish(landing)
            .await
            .map_err(|error| CopyFailure::sink(&path, &error))?;
        Ok(Done {
            checksums: arrived.checksums,
            verified,
        })
    }

    async fn by_several(
        self: Box<Self>,
        terms: &Terms,
        opened: Opened,
        progress: &Progress,
        (exchange, throttle): (Exchange, Throttle),
    ) -> Result<Done, CopyFailure> {
        let Self {
            source,
            area,
            landing,
            hold,
            expected,
            ..
        } = *self;
        let first = &opened.streams[0].1;
        progress.reached_by(first.connection.as_ref());
        let mut offered = source.announced(first.response.headers(), Phase::Preparation)?;
        // Others cannot be combined from those of the parts.
        offered.retain(|checksum| Striped::can_take([checksum.algorithm]));
        let offered = worthwhile(offered, &terms.own);
        agree(&source, &expected, &offered)?;
        let path = area.prefix.join(&landing.path);
        let hold = make_room(hold, Some(opened.file.size)).await?;
        let must_ask = terms.required && offered.is_empty();
        let mut checksums: Vec<Checksum> = expected.into_iter().chain(offered).collect();
        let mut algorithms = terms.own.clone();
        algorithms.extend(checksums.iter().map(|checksum| checksum.algorithm));
        let failed = |error: SinkError| CopyFailure::sink(&path, &error);
        let size = opened.file.size;
        let on_disk = !area.backend.never_waits();
        let sink = Striped::begin(area, hold, size, algorithms, exchange.clone())
            .await
            .map_err(failed)?;
        let count = opened.streams.len();
        let stripes = progress.set_stripes(count).into_iter();
        let parts = opened.streams.iter().map(|(part, _)| part.clone());
        let parts = parts.zip(opened.memory.iter().cloned());
        let lanes = parts.zip(stripes).map(|((part, memory), stripe)| {
            let counters = [progress.moved.clone(), stripe.moved.clone()];
            (sink.lane(part, count, counters, memory), stripe)
        });
        let lanes = lanes.collect();
        progress.set_moving(true);
        let lanes = stripes::receive(&source, opened, lanes, (&exchange, &throttle), (&path, on_disk)).await?;
        progress.set_moving(false);
        if must_ask {
            let told = ask_later(&source, &terms.own, true).await?;
            checksums.extend(told.checksums);
        }
        drop(exchange);
        let verified = !checksums.is_empty();
        let arrived = sink.finish(lanes, checksums, landing).await.map_err(failed)?;
        Ok(Done {
            checksums: arrived.checksums,
            verified,
        })
    }
}

/// The checksums that a copy computes and compares.
struct Terms {
    required: bool,
    own: Vec<Algorithm>,
    /// A client that compares checksums itself says so: then the source need not read its file for one.
    unasked: bool,
}

impl Terms {
    fn wanted(&self) -> &[Algorithm] {
        if self.unasked { &[] } else { &self.own }
    }
}

/// A client and a source that do not mean the same file are told apart before it is read.
fn agree(source: &Remote, expected: &[Checksum], offered: &[Checksum]) -> Result<(), CopyFailure> {
    for own in expected {
        if let Some(theirs) = offered
            .iter()
            .find(|theirs| theirs.algorithm == own.algorithm && *theirs != own)
        {
            let text = format!(
                "{}: checksum mismatch: the source has {theirs}, {own} was announced",
                source.shown()
            );
            return Err(CopyFailure::new(
                ErrorClass::Checksum,
                Party::Source,
                Phase::Preparation,
                text,
            ));
        }
    }
    Ok(())
}

/// How to go on with a stream of a whole file that breaks; none if the source does not say enough for that.
fn resumable<'a>(source: &'a Remote, answer: &Answer, size: Option<u64>) -> Option<Tries<'a>> {
    let headers = answer.response.headers();
    let offered = headers.get(header::ACCEPT_RANGES).is_some_and(|value| value == "bytes");
    let (size, version) = (size?, Version::of(headers)?);
    let file = File {
        size,
        version: Some(version),
    };
    offered.then(|| Tries::new(source, file, size))
}

/// The checksums computed on the way in: at least one if a comparison is required.
fn own_algorithms(area: &Area, required: bool) -> Vec<Algorithm> {
    if required && area.algorithms.is_empty() {
        return vec![Algorithm::Adler32];
    }
    area.algorithms.clone()
}

/// Requests the file, with its checksums.
///
/// XRootD 5 answers 500 to that where it means "missing" or "forbidden", or when it cannot compute the checksum: a
/// second request, without checksums, gets the actual error.
async fn ask(source: &Remote, wanted: &[Algorithm]) -> Result<Answer, CopyFailure> {
    match source.get(wanted).await {
        Err(failure) if failure.class == ErrorClass::Protocol && !wanted.is_empty() => source.get(&[]).await,
        outcome => outcome,
    }
}

/// Asks about the file on its own, when it has come without a checksum, or without a sign of its end.
async fn ask_later(source: &Remote, own: &[Algorithm], required: bool) -> Result<Told, CopyFailure> {
    let mut told = source.look(own).await?;
    told.checksums.retain(|checksum| own.contains(&checksum.algorithm));
    if told.checksums.is_empty() && required {
        let text = format!("{} gives no checksum to compare, and one is required", source.shown());
        return Err(CopyFailure::new(
            ErrorClass::Checksum,
            Party::Source,
            Phase::Finalization,
            text,
        ));
    }
    if told.checksums.is_empty() && told.size.is_none() {
        let text = format!(
            "GET {}: the source sends neither length nor checksum, so that a truncated file would pass for a whole one",
            source.shown()
        );
        return Err(CopyFailure::new(
            ErrorClass::Protocol,
            Party::Source,
            Phase::Finalization,
            text,
        ));
    }
    Ok(told)
}

/// How the end of a body shows (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Known(u64),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection, as it would if that broke.
    UntilClose,
}

impl Length {
    fn known(self) -> Option<u64> {
        match self {
            Self::Known(size) => Some(size),
            _ => None,
        }
    }
}

/// Only a whole file, as it is, will do.
fn check_answer(source: &Remote, answer: &Answer) -> Result<Length, CopyFailure> {
    let wrong = |text: String| {
        Err(CopyFailure::new(
            ErrorClass::Protocol,
            Party::Source,
            Phase::Preparation,
            text,
        ))
    };
    let (status, headers) = (answer.response.status(), answer.response.headers());
    if status != StatusCode::OK {
        return wrong(format!("GET {}: {status} where 200 was due", source.shown()));
    }
    let encoded = headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity");
    if encoded || !weir_http::only_chunked(headers) {
        return wrong(format!(
            "GET {}: the source sends the file in another encoding",
            source.shown()
        ));
    }
    let chunked = headers.contains_key(header::TRANSFER_ENCODING) && answer.response.version() >= HttpVersion::HTTP_11;
    Ok(match answer.response.body().size_hint().exact() {
        Some(size) => Length::Known(size),
        None if chunked => Length::Chunked,
        None => Length::UntilClose,
    })
}

/// Of many checksums, those that are computed anyway; else the first, which is then computed as well.
fn worthwhile(offered: Vec<Checksum>, own: &[Algorithm]) -> Vec<Checksum> {
    let (taken, others): (Vec<_>, Vec<_>) = offered
        .into_iter()
        .partition(|checksum| own.contains(&checksum.algorithm));
    if taken.is_empty() {
        others.into_iter().take(1).collect()
    } else {
        taken
    }
}

async fn make_room(mut hold: Hold, size: Option<u64>) -> Result<Hold, CopyFailure> {
    let Some(size) = size else { return Ok(hold) };
    blocking(move || hold.grow_to_on_disk(size).map(|()| hold))
        .await
        .map_err(|refusal| CopyFailure::refused(Party::Destination, Phase::Preparation, &refusal))
}

/// A whole file by one stream.
struct Single<'a> {
    source: &'a Remote,
    size: Option<u64>,
    tries: Option<Tries<'a>>,
    progress: &'a Progress,
    exchange: &'a Exchange,
    path: &'a StoragePath,
    throttle: Throttle,
    clock: Chronograph,
    /// Whether the area can be waited for.
    on_disk: bool,
}

impl Single<'_> {
    async fn receive(mut self, mut body: Incoming, sink: &mut Sink) -> Result<(), CopyFailure> {
        loop {
            let Some(broken) = self.take(body, sink).await? else {
                let settled = sink.pieces.settle().await;
                self.clock.written(sink.pieces.write_times(), self.on_disk);
                return settled.map_err(|error| CopyFailure::sink(self.path, &error));
            };
            let Some(tries) = &mut self.tries else {
                return Err(broken);
            };
            let answer = tries.again(sink.taken(), broken).await?;
            self.exchange.metrics().streams_resumed.fetch_add(1, Ordering::Relaxed);
            self.progress.reached_by(answer.connection.as_ref());
            self.progress.moves_there();
            if let Some(buffers) = answer.buffers() {
                self.clock.carried();
                self.clock.moves_on(buffers.socket_waits().clone(), SocketUse::Reads);
            }
            sink.pieces.comes_by(answer.buffers());
            body = answer.response.into_body();
        }
    }

    /// Receives the body; returns the error that broke the stream before its end.
    async fn take(&mut self, mut body: Incoming, sink: &mut Sink) -> Result<Option<CopyFailure>, CopyFailure> {
        let patience = self.source.tpc.stall_timeout / 2;
        loop {
            self.throttle.ready().await;
            self.clock.spent(StreamState::Limiter);
            // A source that cannot be asked again may be silent for as long as the copy as a whole may stall.
            let frame = if self.tries.is_some() {
                match tokio::time::timeout(patience, body.frame()).await {
                    Ok(frame) => frame,
                    Err(_) => {
                        return Ok(Some(
                            self.broken(ErrorClass::Stall, &format!("nothing came for {patience:?}")),
                        ));
                    }
                }
            } else {
                body.frame().await
            };
            self.clock.arrived();
            let piece = match frame {
                None => return Ok(None),
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => {
                    let is_of_tls = weir_http::is_of_tls(&error);
                    let class = if is_of_tls {
                        ErrorClass::Tls
                    } else {
                        ErrorClass::Network
                    };
                    return Ok(Some(self.broken(class, &weir_auth::error_chain(&error))));
                }
            };
            if let Ok(piece) = piece {
                self.progress.first_byte.get_or_init(Instant::now);
                self.throttle.moved(piece.len() as u64);
                let pushed = sink.push(piece).await;
                self.clock.written(sink.pieces.write_times(), self.on_disk);
                pushed.map_err(|error| CopyFailure::sink(self.path, &error))?;
            }
        }
    }

    fn broken(&self, class: ErrorClass, why: &str) -> CopyFailure {
        let of = self.size.map_or_else(String::new, |size| format!(" of {size}"));
        let moved = self.progress.moved.load(Ordering::Relaxed);
        let source = self.source.shown();
        let text = format!("GET {source}: broke off after about {moved}{of} bytes: {why}");
        CopyFailure::new(class, Party::Source, Phase::Transfer, text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use weir_units::Hasher;

    use super::*;

    /// Taking md5 although adler32 was offered would double the CPU of a copy.
    #[test]
    fn only_worthwhile_checksums_are_compared() {
        let md5 = Hasher::new(&[Algorithm::Md5]).finish();
        let md5 = md5.get(Algorithm::Md5).cloned().unwrap();
        let adler = Checksum::adler32(1);
        let own = [Algorithm::Adler32, Algorithm::Crc32c];
        assert_eq!(worthwhile(vec![md5.clone(), adler.clone()], &own), [adler]);
        assert_eq!(worthwhile(vec![md5.clone()], &own), [md5]);
        assert_eq!(worthwhile(vec![], &own), []);
    }
}
