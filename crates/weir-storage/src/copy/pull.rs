//! The destination reads from the source.

use std::sync::{Arc, atomic::Ordering};

use http::{StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use weir_units::{Algorithm, Checksum};
use weir_world::{ErrorClass, Party, Phase};

use super::{
    CopyFailure, Remote,
    job::{Done, Progress},
    remote::Answer,
};
use crate::{
    area::{Area, Hold},
    backend::{BackendError, Obstacle},
    config::Verify,
    data::{Expectation, Landing, Sink, SinkError, blocking},
    digest,
    refusal::chain,
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
    pub(super) async fn run(self: Box<Self>, progress: &Progress) -> Result<Done, CopyFailure> {
        let answer = self.source.get(&self.area.algorithms).await?;
        progress.set_remote(answer.peer);
        let size = check_answer(&self.source, &answer)?;
        let offered = worthwhile(digest::announced(answer.response.headers()), &self.area.algorithms);
        let Self {
            source,
            area,
            landing,
            hold,
            expected,
            require_checksum,
        } = *self;
        let hold = make_room(hold, size).await?;
        let offered_early = !offered.is_empty();
        let checksums = expected.iter().cloned().chain(offered).collect();
        let mut sink = Sink::new(
            area.clone(),
            hold,
            Expectation { size, checksums },
            progress.moved.clone(),
        );
        progress.set_moving(true);
        receive(&source, answer.response.into_body(), &mut sink, progress, size).await?;
        progress.set_moving(false);
        let required = require_checksum.unwrap_or(source.tpc.verify == Verify::Required);
        let mut verified = offered_early || !expected.is_empty();
        if required && !offered_early {
            let later = source.checksums(&area.algorithms).await?;
            let usable: Vec<Checksum> = later
                .into_iter()
                .filter(|checksum| area.algorithms.contains(&checksum.algorithm))
                .collect();
            if usable.is_empty() {
                let text = format!("{} gives no checksum to compare, and one is required", source.shown());
                return Err(CopyFailure::new(
                    ErrorClass::Checksum,
                    Party::Source,
                    Phase::Finalization,
                    text,
                ));
            }
            sink.expect(usable);
            verified = true;
        }
        let arrived = sink.finish(landing).await.map_err(|error| match error {
            SinkError::Backend(BackendError {
                obstacle: Obstacle::Exists,
                ..
            }) => CopyFailure::new(
                ErrorClass::Exists,
                Party::Destination,
                Phase::Finalization,
                "another file of that name appeared in the meantime, and it may not be replaced",
            ),
            error => CopyFailure::sink(&error),
        })?;
        Ok(Done {
            checksums: arrived.checksums,
            verified,
        })
    }
}

/// Only a whole file, as it is, will do. Gives its size, if the source says.
fn check_answer(source: &Remote, answer: &Answer) -> Result<Option<u64>, CopyFailure> {
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
    if headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity")
    {
        return wrong(format!(
            "GET {}: the source sends the file in another encoding",
            source.shown()
        ));
    }
    Ok(answer.response.body().size_hint().exact())
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
    sink: &mut Sink,
    progress: &Progress,
    size: Option<u64>,
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
            sink.push(piece).await.map_err(|error| CopyFailure::sink(&error))?;
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
