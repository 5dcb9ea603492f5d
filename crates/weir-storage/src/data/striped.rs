//! One file from several streams: each writes its part in its place, and the checksums of the parts become the file's.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::Bytes;
use weir_units::{Algorithm, Checksum, Checksums, Hasher, combine};

use super::{
    BATCH, Intake, blocking,
    sink::{Gathering, Writes, land},
};
use crate::{
    area::{Area, Hold},
    backend::{BackendError, Draft},
    data::{Arrived, Landing, SinkError},
    exchange::Exchange,
    memory::Lease,
};
use weir_http::chronograph::WriteTimes;

/// The least that is gathered before it is written: 128 KiB cost 8,000 hops to the blocking pool per gigabyte, 0.08 s.
const BATCH_LEAST: usize = 128 << 10;

/// A file on its way in by several streams. Dropped before its end, with its lanes, it leaves nothing.
pub(crate) struct Striped {
    area: Arc<Area>,
    draft: Arc<Box<dyn Draft>>,
    hold: Hold,
    size: u64,
    algorithms: Vec<Algorithm>,
    exchange: Exchange,
}

impl Striped {
    /// Whether checksums of these kinds can be combined from those of the parts.
    pub(crate) fn can_take(algorithms: impl IntoIterator<Item = Algorithm>) -> bool {
        algorithms
            .into_iter()
            .all(|algorithm| matches!(algorithm, Algorithm::Adler32 | Algorithm::Crc32c))
    }

    /// Begins a file of known size, for which there is room.
    pub(crate) async fn begin(
        area: Arc<Area>,
        hold: Hold,
        size: u64,
        algorithms: Vec<Algorithm>,
        exchange: Exchange,
    ) -> Result<Self, SinkError> {
        let draft = {
            let area = area.clone();
            blocking(move || {
                let draft = area.backend.draft(area.durable)?;
                draft.reserve(size)?;
                Ok::<_, BackendError>(draft)
            })
            .await?
        };
        Ok(Self {
            area,
            draft: Arc::new(draft),
            hold,
            size,
            algorithms,
            exchange,
        })
    }

    /// Takes one of `of` parts. Bytes that are written count for the lane and for all.
    pub(crate) fn lane(&self, part: Range<u64>, of: usize, counters: [Arc<AtomicU64>; 2], memory: Arc<Lease>) -> Lane {
        // Two of them for each lane, and never more than 4 MiB for all, but for more than 16 lanes.
        let batch = (2 * BATCH / of.max(1)).clamp(BATCH_LEAST, BATCH);
        let writer = LaneWriter {
            draft: self.draft.clone(),
            hasher: Hasher::new(&self.algorithms),
            at: part.start,
            counters,
            times: Arc::default(),
            _exchange: self.exchange.clone(),
            _memory: memory.clone(),
        };
        let times = writer.times.clone();
        Lane {
            pieces: Gathering::new(writer, times, Intake::new(memory, &self.area).within(batch)),
            at: part.start,
            part,
        }
    }

    /// Makes the file visible when all lanes are complete, if it matches the announced checksums.
    pub(crate) async fn finish(
        self,
        lanes: Vec<Lane>,
        announced: Vec<Checksum>,
        landing: Landing,
    ) -> Result<Arrived, SinkError> {
        let mut parts = Vec::new();
        for lane in lanes {
            let (writer, rest) = lane.pieces.end().await?;
            parts.push((lane.part, lane.at, rest, writer));
        }
        let Self {
            area,
            draft,
            hold,
            size,
            exchange,
            ..
        } = self;
        blocking(move || {
            let mut whole: Option<Checksums> = None;
            let mut end = 0;
            for (part, at, rest, mut writer) in parts {
                writer.write(&rest)?;
                assert!(
                    part.start == end && at == part.end && writer.at == part.end,
                    "every byte is written once"
                );
                end = part.end;
                let of_part = writer.hasher.finish();
                whole = Some(match whole {
                    None => of_part,
                    Some(before) => append(&before, &of_part, part.end - part.start),
                });
            }
            assert_eq!(end, size, "the parts are the file");
            let draft = Arc::into_inner(draft).expect("every lane has ended");
            let checksums = whole.unwrap_or_default();
            land(&area, draft, hold, checksums, &announced, landing, exchange)
        })
        .await
    }
}

/// The checksums of one part followed by another.
fn append(before: &Checksums, part: &Checksums, length: u64) -> Checksums {
    before
        .iter()
        .filter_map(|before| combine(before, part.get(before.algorithm)?, length))
        .collect()
}

/// One part on its way in.
pub(crate) struct Lane {
    pub(crate) pieces: Gathering<LaneWriter>,
    part: Range<u64>,
    /// Where the next byte taken belongs.
    at: u64,
}

pub(crate) struct LaneWriter {
    draft: Arc<Box<dyn Draft>>,
    hasher: Hasher,
    at: u64,
    counters: [Arc<AtomicU64>; 2],
    times: Arc<WriteTimes>,
    /// Held until the last byte is written.
    _exchange: Exchange,
    _memory: Arc<Lease>,
}

impl Writes for LaneWriter {
    /// Hashes first: that brings the bytes into the cache from which the kernel then copies.
    fn write(&mut self, pieces: &[Bytes]) -> Result<(), BackendError> {
        let began = Instant::now();
        for piece in pieces {
            self.hasher.update(piece);
        }
        let hashed = Instant::now();
        self.draft.write_at(pieces, self.at)?;
        self.times.add(began, hashed, Instant::now());
        let written: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.at += written;
        for counter in &self.counters {
            counter.fetch_add(written, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Lane {
    /// The bytes that are still missing.
    pub(crate) fn left(&self) -> Range<u64> {
        self.at..self.part.end
    }

    /// Takes the next piece. Waits while a batch is being written and the next one is full.
    pub(crate) async fn push(&mut self, piece: Bytes) -> Result<(), SinkError> {
        let length = piece.len() as u64;
        if length > self.part.end - self.at {
            return Err(SinkError::Size {
                expected: self.part.end - self.part.start,
                received: self.at - self.part.start + length,
            });
        }
        self.at += length;
        Ok(self.pieces.push(piece).await?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A file whose checksum is wrong is removed after a copy of hours.
        #[test]
        fn parts_make_the_whole(content in proptest::collection::vec(any::<u8>(), 0..5000), cuts in proptest::collection::vec(0usize..5000, 0..6)) {
            let kinds = [Algorithm::Adler32, Algorithm::Crc32c];
            let sums = |bytes: &[u8]| {
                let mut hasher = Hasher::new(&kinds);
                hasher.update(bytes);
                hasher.finish()
            };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(content.len())).collect();
            cuts.extend([0, content.len()]);
            cuts.sort_unstable();
            let mut whole = sums(&content[..cuts[0]]);
            for pair in cuts.windows(2) {
                let part = &content[pair[0]..pair[1]];
                whole = append(&whole, &sums(part), part.len() as u64);
            }
            prop_assert_eq!(whole, sums(&content));
        }
    }
}
