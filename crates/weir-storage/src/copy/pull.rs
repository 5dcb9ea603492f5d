//! The destination reads from the source.

use std::sync::{Arc, atomic::Ordering};

use http::{StatusCode, Version, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_auth::StoragePath;
use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Party, Phase};

use super::{
    CopyFailure, Remote,
    job::{Done, Progress},
    remote::{Answer, Told},
};
use crate::{
    area::{Area, Hold},
    config::Verify,
    data::{Expectation, Landing, Sink, blocking},
    exchange::Exchange,
    refusal::chain,
    verbs::only_chunked,
};

/// A permitted pull.
pub(crate) struct Pull {
    pub(crate) source: Remote,
    pub(crate) area: Arc<Area>,
    pub(crate) landing: Landing,
    pub(crate) hold: Hold,
    /// Checksums that the client announced.
    pub(crate) expected: Vec<Checksum>,
    pub(crate) require_checksum: Option<bool>,
}

impl Pull {
    pub(super) async fn run(self: Box<Self>, progress: &Progress, exchange: Exchange) -> Result<Done, CopyFailure> {
        let required = self
            .require_checksum
            .unwrap_or(self.source.tpc.verify == Verify::Required);
        let own = own_algorithms(&self.area, required);
        // A client that compares checksums itself says so: then the source need not read its file for one.
        let wanted: &[Algorithm] = if self.require_checksum == Some(false) {
            &[]
        } else {
            &own
        };
        let answer = ask(&self.source, wanted).await?;
        progress.set_remote(answer.peer);
        let length = check_answer(&self.source, &answer)?;
        let size = length.known();
        let offered = self.source.announced(answer.response.headers(), Phase::Preparation)?;
        let offered = worthwhile(offered, &own);
        let Self {
            source,
            area,
            landing,
            hold,
            expected,
            ..
        } = *self;
        let path = area.prefix.join(&landing.path);
        let hold = make_room(hold, size).await?;
        let must_ask = required && offered.is_empty();
        let checksums: Vec<Checksum> = expected.into_iter().chain(offered).collect();
        let end_unproven = length == Length::UntilClose && checksums.is_empty();
        let mut verified = !checksums.is_empty();
        let mut sink = Sink::new(
            area,
            hold,
            Expectation { size, checksums },
            &own,
            progress.moved.clone(),
            exchange,
        );
        progress.set_moving(true);
        let body = answer.response.into_body();
        receive(&source, body, size, &mut sink, progress, &path).await?;
        progress.set_moving(false);
        if must_ask || end_unproven {
            let told = ask_later(&source, &own, required).await?;
            verified |= !told.checksums.is_empty();
            sink.expect(told.size.filter(|_| end_unproven), told.checksums);
        }
        let arrived = sink
            .finish(landing)
            .await
            .map_err(|error| CopyFailure::sink(&path, &error))?;
        Ok(Done {
            checksums: arrived.checksums,
            verified,
        })
    }
}

/// What is taken of the file on its way in: if something must be compared, at least one checksum.
fn own_algorithms(area: &Area, required: bool) -> Vec<Algorithm> {
    if required && area.algorithms.is_empty() {
        return vec![Algorithm::Adler32];
    }
    area.algorithms.clone()
}

/// Asks for the file, and for its checksums with it.
///
/// XRootD 5 answers 500 to that where it means "missing" or "forbidden", or when it cannot take the checksum: asked once
/// more, without, it says what it means.
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
            "GET {}: the source tells neither length nor checksum, so that a file cut short would pass for a whole one",
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
    if encoded || !only_chunked(headers) {
        return wrong(format!(
            "GET {}: the source sends the file in another encoding",
            source.shown()
        ));
    }
    let chunked = headers.contains_key(header::TRANSFER_ENCODING) && answer.response.version() >= Version::HTTP_11;
    Ok(match answer.response.body().size_hint().exact() {
        Some(size) => Length::Known(size),
        None if chunked => Length::Chunked,
        None => Length::UntilClose,
    })
}

/// Of many checksums, those that are taken anyway; else the first, which then is taken beside them.
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

async fn receive(
    source: &Remote,
    mut body: Incoming,
    size: Option<u64>,
    sink: &mut Sink,
    progress: &Progress,
    path: &StoragePath,
) -> Result<(), CopyFailure> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let of = size.map_or_else(String::new, |size| format!(" of {size}"));
            let moved = progress.moved.load(Ordering::Relaxed);
            let text = format!(
                "GET {}: broke off after about {moved}{of} bytes: {}",
                source.shown(),
                chain(&error)
            );
            CopyFailure::new(ErrorClass::Network, Party::Source, Phase::Transfer, text)
        })?;
        if let Ok(piece) = frame.into_data() {
            sink.push(piece)
                .await
                .map_err(|error| CopyFailure::sink(path, &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Taking md5 although adler32 was offered would double the CPU of a copy.
    #[test]
    fn only_worthwhile_checksums_are_compared() {
        let md5 = Checksum {
            algorithm: Algorithm::Md5,
            value: vec![0; 16],
        };
        let adler = Checksum::adler32(1);
        let own = [Algorithm::Adler32, Algorithm::Crc32c];
        assert_eq!(worthwhile(vec![md5.clone(), adler.clone()], &own), [adler]);
        assert_eq!(worthwhile(vec![md5.clone()], &own), [md5]);
        assert_eq!(worthwhile(vec![], &own), []);
    }
}
