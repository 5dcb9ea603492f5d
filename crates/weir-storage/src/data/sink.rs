//! From the wire to a file that appears whole or not at all.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::task::JoinHandle;
use weir_auth::StoragePath;
use weir_units::{Algorithm, Checksum, Checksums, Hasher};

use super::{BATCH, blocking};
use crate::{
    area::{Area, Claim, Hold},
    backend::{BackendError, Draft, Meta, Publication, Published},
    conditional::Conditions,
    exchange::Exchange,
    refusal::Refusal,
};

/// What is known beforehand of a file on its way in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expectation {
    /// Its size, if it was announced.
    pub(crate) size: Option<u64>,
    /// Its checksums, as far as they were announced.
    pub(crate) checksums: Vec<Checksum>,
}

/// Where a file becomes visible.
pub(crate) struct Landing {
    /// Inside the area.
    pub(crate) path: StoragePath,
    /// Whether another file may be replaced.
    pub(crate) overwrite: bool,
    /// What must be true of the file that is replaced, at the very moment.
    pub(crate) conditions: Conditions,
    /// Nobody else writes the path. Ends when the file is visible or given up, not when the asker leaves.
    pub(crate) claim: Claim,
}

/// A file that has become visible.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) meta: Meta,
    pub(crate) checksums: Checksums,
    /// Whether another file had its name before.
    pub(crate) replaced: bool,
}

/// Why a file did not become visible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error("{}", .0.reason)]
    NoRoom(Refusal),
    #[error("what is there is no longer what the condition names")]
    Condition,
    #[error("{received} bytes came where {expected} were announced")]
    Size { expected: u64, received: u64 },
    #[error("checksum mismatch: {received} was received where {expected} was announced")]
    Checksum { expected: Checksum, received: Checksum },
}

impl From<SinkError> for Refusal {
    fn from(error: SinkError) -> Self {
        match error {
            SinkError::Backend(error) => error.into(),
            SinkError::NoRoom(refusal) => refusal,
            error @ SinkError::Condition => Self::precondition(error.to_string()),
            error => Self::new(StatusCode::BAD_REQUEST, error.to_string()),
        }
    }
}

/// Takes pieces in order, and makes a file of them at the end.
///
/// Dropped before that, it leaves nothing: a write in progress ends, then its draft is removed.
pub(crate) struct Sink {
    writer: Where,
    hold: Hold,
    waiting: Batch,
    taken: u64,
    expected: Expectation,
}

/// Pieces below this are copied into memory of the batch: a piece holds on to the whole buffer it was read into, which a
/// client can make half a megabyte for a chunk of one byte. To copy 16 KiB takes 1 µs.
const SMALL: usize = 16 << 10;

/// Pieces that wait to be written, in order.
#[derive(Default)]
struct Batch {
    pieces: Vec<Bytes>,
    /// The last of them, as long as they are small.
    small: BytesMut,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() >= SMALL {
            self.seal();
            self.pieces.push(piece);
            return;
        }
        if self.small.capacity() - self.small.len() < piece.len() {
            self.seal();
            // A small file gets little; a batch of small pieces alone is some 20 of these.
            let room = self.bytes.next_power_of_two().clamp(SMALL / 4, 4 * SMALL);
            self.small = BytesMut::with_capacity(room.max(piece.len()));
        }
        self.small.extend_from_slice(&piece);
    }

    fn seal(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(self.small.split().freeze());
        }
    }

    fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }
}

/// Where the writer is: here, or on the blocking pool with a batch.
enum Where {
    Here(Box<Writer>),
    Away(JoinHandle<Result<Box<Writer>, BackendError>>),
    /// It met an error, and is no more.
    Gone,
}

/// The file being written and the checksums of what was.
struct Writer {
    area: Arc<Area>,
    draft: Option<Box<dyn Draft>>,
    hasher: Hasher,
    at: u64,
    moved: Arc<AtomicU64>,
    /// Held until the last byte is written, and the file is visible or gone: the asker may leave before that.
    exchange: Exchange,
}

impl Writer {
    /// Hashes first: that brings the bytes into the cache from which the kernel then copies.
    fn write(&mut self, pieces: &[Bytes]) -> Result<(), BackendError> {
        for piece in pieces {
            self.hasher.update(piece);
        }
        let draft = match &mut self.draft {
            Some(draft) => draft,
            none => none.insert(self.area.backend.draft()?),
        };
        draft.write_at(pieces, self.at)?;
        let written: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.at += written;
        self.moved.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }
}

impl Sink {
    /// Begins a file in an area. `own` checksums are taken, and those that are expected; `moved` is advanced by bytes
    /// really written; the exchange is complete when the file is visible.
    pub(crate) fn new(
        area: Arc<Area>,
        hold: Hold,
        expected: Expectation,
        own: &[Algorithm],
        moved: Arc<AtomicU64>,
        exchange: Exchange,
    ) -> Self {
        let mut algorithms = own.to_vec();
        algorithms.extend(expected.checksums.iter().map(|checksum| checksum.algorithm));
        let writer = Writer {
            area,
            draft: None,
            hasher: Hasher::new(&algorithms),
            at: 0,
            moved,
            exchange,
        };
        Self {
            writer: Where::Here(Box::new(writer)),
            hold,
            waiting: Batch::default(),
            taken: 0,
            expected,
        }
    }

    /// Takes the next piece. Waits while a batch is being written and the next one is full.
    pub(crate) async fn push(&mut self, piece: Bytes) -> Result<(), SinkError> {
        self.taken += piece.len() as u64;
        if let Some(expected) = self.expected.size
            && self.taken > expected
        {
            return Err(SinkError::Size {
                expected,
                received: self.taken,
            });
        }
        self.hold.grow_to(self.taken).map_err(SinkError::NoRoom)?;
        self.waiting.push(piece);
        if self.waiting.bytes < BATCH {
            return Ok(());
        }
        let mut writer = self.writer().await?;
        let pieces = self.waiting.take();
        self.writer = Where::Away(tokio::task::spawn_blocking(move || {
            writer.write(&pieces).map(|()| writer)
        }));
        Ok(())
    }

    /// Adds what came to be known while the bytes came; all checksums must be of algorithms that are taken here.
    pub(crate) fn expect(&mut self, size: Option<u64>, checksums: Vec<Checksum>) {
        self.expected.size = self.expected.size.or(size);
        self.expected.checksums.extend(checksums);
    }

    /// The writer, back from its batch.
    async fn writer(&mut self) -> Result<Box<Writer>, BackendError> {
        match std::mem::replace(&mut self.writer, Where::Gone) {
            Where::Here(writer) => Ok(writer),
            // While it is awaited the handle is out of the sink: a drop then lets the batch end and the draft go.
            Where::Away(batch) => match batch.await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => std::future::pending().await,
                },
            },
            Where::Gone => unreachable!("a sink is not used after an error"),
        }
    }

    /// Writes what waits, compares size and checksums with what was announced, and makes the file visible.
    pub(crate) async fn finish(mut self, landing: Landing) -> Result<Arrived, SinkError> {
        let mut writer = self.writer().await?;
        let Self {
            hold,
            mut waiting,
            taken,
            expected,
            ..
        } = self;
        if let Some(expected) = expected.size
            && taken != expected
        {
            return Err(SinkError::Size {
                expected,
                received: taken,
            });
        }
        blocking(move || {
            // Also for an empty file, which has a draft too.
            writer.write(&waiting.take())?;
            let Writer {
                area,
                draft,
                hasher,
                at,
                exchange,
                ..
            } = *writer;
            let checksums = hasher.finish();
            compare(&checksums, &expected.checksums)?;
            assert_eq!(at, taken, "every byte taken is written once");
            let draft = draft.expect("the last write made a draft");
            let published = publish(&area, draft, &landing, &checksums)?;
            hold.settle(published.meta.size, published.replaced);
            exchange.complete(checksums.clone());
            drop(landing.claim);
            Ok(Arrived {
                meta: published.meta,
                checksums,
                replaced: published.replaced.is_some(),
            })
        })
        .await
    }
}

fn compare(received: &Checksums, announced: &[Checksum]) -> Result<(), SinkError> {
    for expected in announced {
        match received.get(expected.algorithm) {
            Some(received) if received != expected => {
                return Err(SinkError::Checksum {
                    expected: expected.clone(),
                    received: received.clone(),
                });
            }
            Some(_) => {}
            None => unreachable!("a sink takes every checksum that was announced"),
        }
    }
    Ok(())
}

fn publish(
    area: &Area,
    mut draft: Box<dyn Draft>,
    landing: &Landing,
    checksums: &Checksums,
) -> Result<Published, SinkError> {
    draft.seal(checksums, area.durable)?;
    let how = Publication {
        overwrite: landing.overwrite,
        durable: area.durable,
    };
    let _still = area.still(&landing.path);
    if !landing.conditions.is_empty() {
        let current = area.current(&landing.path)?;
        if !landing.conditions.hold(current.as_ref()) {
            return Err(SinkError::Condition);
        }
    }
    Ok(draft.publish(&landing.path, &how)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body in chunks of a byte would take thirty times its size for handles alone, and more for what they hold on to.
    #[test]
    fn small_pieces_share_memory_and_large_ones_are_not_copied() {
        let mut batch = Batch::default();
        let mut sent = Vec::new();
        let large = Bytes::from(vec![7; SMALL]);
        for number in 0..200_000_u32 {
            let piece = Bytes::copy_from_slice(&[number as u8; 3][..(number % 4).min(3) as usize]);
            sent.extend_from_slice(&piece);
            batch.push(piece);
            if number % 50_000 == 49_999 {
                sent.extend_from_slice(&large);
                batch.push(large.clone());
            }
        }
        assert_eq!(batch.bytes, sent.len());
        let pieces = batch.take();
        assert!(pieces.len() < 40, "{}", pieces.len());
        assert_eq!(
            pieces.iter().filter(|piece| piece.as_ptr() == large.as_ptr()).count(),
            4
        );
        assert!(pieces.concat() == sent);
        assert_eq!((batch.bytes, batch.take().len()), (0, 0));
    }
}
