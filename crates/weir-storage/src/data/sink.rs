//! From the wire to a file that appears whole or not at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use tokio::task::JoinHandle;
use weir_auth::StoragePath;
use weir_http::Buffers;
use weir_service::tasks::joined;
use weir_units::{Algorithm, Checksum, Checksums, Hasher};

use super::{Intake, blocking};
use crate::{
    area::{Area, Claim, Hold},
    backend::{BackendError, Creator, Draft, Meta, Obstacle, Published, WRITE_ALIGNMENT},
    conditional::{Broken, Conditions},
    exchange::Exchange,
    memory::Lease,
    refusal::Refusal,
};
use weir_http::chronograph::WriteTimes;

/// Properties of an incoming file that are known beforehand.
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
    /// Conditions on the replaced file, checked at the very moment of the rename.
    pub(crate) conditions: Conditions,
    /// The exclusive right to write the path. Ends when the file is visible or given up, even if the client leaves
    /// before.
    pub(crate) claim: Claim,
    /// The creator.
    pub(crate) creator: Option<Creator>,
    /// The properties that it is to have, as text.
    pub(crate) properties: Option<String>,
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
    #[error(transparent)]
    Condition(#[from] Broken),
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
            SinkError::Condition(broken) => broken.into(),
            error => Self::new(StatusCode::BAD_REQUEST, error.to_string()),
        }
    }
}

/// Takes pieces in order, and makes a file of them at the end.
///
/// Dropped before that, it leaves nothing: a write in progress ends, then its draft is removed.
pub(crate) struct Sink {
    pub(crate) pieces: Gathering<Writer>,
    hold: Hold,
    taken: u64,
    expected: Expectation,
}

/// Pieces below this are copied into memory of the batch. A piece holds on to the whole buffer it was read into, which a
/// client can make half a megabyte for a chunk of one byte. To copy 16 KiB takes 1 µs.
const SMALL: usize = 16 << 10;

/// Pieces that wait to be written, in order.
#[derive(Default)]
pub(crate) struct Batch {
    pieces: Vec<Bytes>,
    /// The last of them, as long as they are small.
    small: BytesMut,
    pub(super) bytes: usize,
}

impl Batch {
    pub(crate) fn push(&mut self, piece: Bytes) {
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

    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }

    /// Takes all but an odd rest: the write then ends at a page boundary, if it began at one.
    pub(super) fn take_pages(&mut self) -> Vec<Bytes> {
        let mut odd = self.bytes % WRITE_ALIGNMENT as usize;
        let mut pieces = self.take();
        let mut rest = Vec::new();
        while odd > 0 {
            let mut last = pieces.pop().expect("a batch has as many bytes as it says");
            let tail = last.split_off(last.len().saturating_sub(odd));
            odd -= tail.len();
            rest.push(tail);
            if !last.is_empty() {
                pieces.push(last);
            }
        }
        // Small, so that they are copied and hold on to nothing.
        rest.into_iter().rev().for_each(|piece| self.push(piece));
        pieces
    }
}

/// Where a writer is: here, or on the blocking pool with a batch.
pub(super) enum Where<W> {
    Here(Box<W>),
    Away(JoinHandle<Result<Box<W>, BackendError>>),
    /// It met an error, and is no more.
    Gone,
}

impl<W> Where<W> {
    /// The writer, back from its batch.
    pub(super) async fn take(&mut self) -> Result<Box<W>, BackendError> {
        match std::mem::replace(self, Self::Gone) {
            Self::Here(writer) => Ok(writer),
            // While it is awaited the handle is not here: a drop then lets the batch end and the draft go.
            Self::Away(batch) => joined(batch).await,
            Self::Gone => unreachable!("a sink is not used after an error"),
        }
    }
}

/// A writer of batches, in order.
pub(crate) trait Writes: Send + 'static {
    fn write(&mut self, pieces: &[Bytes]) -> Result<(), BackendError>;
}

/// A writer, and the pieces that are gathered for it.
pub(crate) struct Gathering<W> {
    writer: Where<W>,
    times: Arc<WriteTimes>,
    waiting: Batch,
    intake: Intake,
    has_written: bool,
}

impl<W: Writes> Gathering<W> {
    pub(super) fn new(writer: W, times: Arc<WriteTimes>, intake: Intake) -> Self {
        Self {
            writer: Where::Here(Box::new(writer)),
            times,
            waiting: Batch::default(),
            intake,
            has_written: false,
        }
    }

    /// Takes the next piece. Waits while a batch is being written and the next one is full.
    pub(super) async fn push(&mut self, piece: Bytes) -> Result<(), BackendError> {
        self.waiting.push(piece);
        if !self.intake.is_full(self.waiting.bytes) {
            return Ok(());
        }
        let pieces = self.waiting.take_pages();
        self.has_written = true;
        self.write(pieces, true).await
    }

    /// Waits until all pieces are written, but for a file of less than a batch: its one write is with its end.
    pub(crate) async fn settle(&mut self) -> Result<(), SinkError> {
        if self.has_written {
            let rest = self.waiting.take();
            self.write(rest, false).await?;
        }
        Ok(())
    }

    /// Has a batch written, here or by another thread. Returns at once if there is memory for the next one meanwhile, or else
    /// when it is written.
    async fn write(&mut self, pieces: Vec<Bytes>, has_next: bool) -> Result<(), BackendError> {
        let mut writer = self.writer.take().await?;
        let write = move || writer.write(&pieces).map(|()| writer);
        if self.intake.is_at_once() {
            self.writer = Where::Here(write()?);
        } else {
            self.writer = Where::Away(tokio::task::spawn_blocking(write));
            if has_next && self.intake.goes_on() {
                self.intake.grow();
                return Ok(());
            }
            self.writer = Where::Here(self.writer.take().await?);
        }
        self.intake.fit();
        Ok(())
    }

    /// From now on the pieces come by this connection.
    pub(crate) fn comes_by(&mut self, connection: Option<Buffers>) {
        self.intake.comes_by(connection);
    }

    /// How long the writer has worked.
    pub(crate) fn write_times(&self) -> &WriteTimes {
        &self.times
    }

    /// Bytes that are gathered before they are written.
    pub(crate) fn batch(&self) -> usize {
        self.intake.batch()
    }

    /// The writer, and the pieces that it has not written.
    pub(super) async fn end(mut self) -> Result<(Box<W>, Vec<Bytes>), BackendError> {
        Ok((self.writer.take().await?, self.waiting.take()))
    }
}

/// The file being written and the checksums of its bytes.
pub(crate) struct Writer {
    area: Arc<Area>,
    draft: Option<Box<dyn Draft>>,
    hasher: Hasher,
    at: u64,
    moved: Arc<AtomicU64>,
    times: Arc<WriteTimes>,
    /// Held until the last byte is written, and the file is visible or gone: the asker may leave before that.
    exchange: Exchange,
    _memory: Arc<Lease>,
}

impl Writer {
    fn new(
        area: Arc<Area>,
        own: &[Algorithm],
        announced: &[Checksum],
        moved: Arc<AtomicU64>,
        (exchange, memory): (Exchange, Arc<Lease>),
    ) -> Self {
        let mut algorithms = own.to_vec();
        algorithms.extend(announced.iter().map(|checksum| checksum.algorithm));
        Self {
            area,
            draft: None,
            hasher: Hasher::new(&algorithms),
            at: 0,
            moved,
            times: Arc::default(),
            exchange,
            _memory: memory,
        }
    }

    /// Publishes the written bytes as a file.
    fn land(self, hold: Hold, announced: &[Checksum], landing: Landing) -> Result<Arrived, SinkError> {
        let checksums = self.hasher.finish();
        let draft = self.draft.expect("every write makes a draft");
        land(&self.area, draft, hold, checksums, announced, landing, self.exchange)
    }
}

impl Writes for Writer {
    /// Hashes first: that brings the bytes into the cache from which the kernel then copies.
    fn write(&mut self, pieces: &[Bytes]) -> Result<(), BackendError> {
        let began = Instant::now();
        for piece in pieces {
            self.hasher.update(piece);
        }
        let hashed = Instant::now();
        let draft = match &mut self.draft {
            Some(draft) => draft,
            none => none.insert(self.area.backend.draft(self.area.durable)?),
        };
        draft.write_at(pieces, self.at)?;
        self.times.add(began, hashed, Instant::now());
        let written: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.at += written;
        self.moved.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }
}

impl Sink {
    /// Begins a file in an area. Computes the `own` checksums and the expected ones; `moved` counts bytes actually
    /// written; the exchange is complete when the file is visible.
    pub(crate) fn new(
        area: Arc<Area>,
        hold: Hold,
        expected: Expectation,
        own: &[Algorithm],
        moved: Arc<AtomicU64>,
        exchange: Exchange,
        intake: Intake,
    ) -> Self {
        let writer = Writer::new(area, own, &expected.checksums, moved, (exchange, intake.lease()));
        let times = writer.times.clone();
        Self {
            pieces: Gathering::new(writer, times, intake),
            hold,
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
        Ok(self.pieces.push(piece).await?)
    }

    /// Adds expectations that became known during the transfer; all checksums must be of algorithms that are computed
    /// here.
    pub(crate) fn expect(&mut self, size: Option<u64>, checksums: Vec<Checksum>) {
        self.expected.size = self.expected.size.or(size);
        self.expected.checksums.extend(checksums);
    }

    /// Bytes taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Writes the pending bytes, compares size and checksums with the announced ones, and makes the file visible.
    pub(crate) async fn finish(self, landing: Landing) -> Result<Arrived, SinkError> {
        let Self {
            pieces,
            hold,
            taken,
            expected,
        } = self;
        let (mut writer, rest) = pieces.end().await?;
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
            writer.write(&rest)?;
            assert_eq!(writer.at, taken, "every byte taken is written once");
            writer.land(hold, &expected.checksums, landing)
        })
        .await
    }
}

/// Makes a file of pieces that are all there, as a sink does with more. On the blocking pool.
pub(crate) fn store(
    area: &Arc<Area>,
    (hold, landing): (Hold, Landing),
    pieces: &[Bytes],
    announced: &[Checksum],
    moved: Arc<AtomicU64>,
    held: (Exchange, Arc<Lease>),
) -> Result<Arrived, SinkError> {
    let mut writer = Writer::new(area.clone(), &area.algorithms, announced, moved, held);
    writer.write(pieces)?;
    writer.land(hold, announced, landing)
}

/// Publishes a written draft, if it matches the announced size and checksums. On the blocking pool.
pub(super) fn land(
    area: &Area,
    draft: Box<dyn Draft>,
    hold: Hold,
    checksums: Checksums,
    announced: &[Checksum],
    landing: Landing,
    exchange: Exchange,
) -> Result<Arrived, SinkError> {
    let compared = compare(&checksums, announced);
    if !announced.is_empty() {
        exchange.compared(compared.is_ok());
    }
    compared?;
    let Published {
        meta,
        replaced,
        changed,
    } = publish(area, draft, &landing, &checksums)?;
    // An object that is still to be removed keeps its room.
    hold.settle(meta.size, replaced.filter(|_| changed.removal.is_none()));
    area.settle(changed)?;
    exchange.complete(checksums.clone());
    drop(exchange);
    drop(landing.claim);
    Ok(Arrived {
        meta,
        checksums,
        replaced: replaced.is_some(),
    })
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
    if let Some(text) = &landing.properties {
        keep_properties(&*draft, text)?;
    }
    draft.seal(checksums, landing.creator, area.durable)?;
    // The disk is waited for before this and after it, never meanwhile: strangers' names share the lock.
    let _still = area.still(&landing.path);
    if !landing.conditions.is_empty() {
        let current = area.current(&landing.path)?;
        landing.conditions.check(current.as_ref())?;
    }
    Ok(draft.publish(&landing.path, landing.overwrite)?)
}

/// Where there is no place for any, a file comes without.
fn keep_properties(draft: &dyn Draft, text: &str) -> Result<(), BackendError> {
    match draft.keep_properties(text) {
        Err(error) if error.obstacle == Obstacle::NoAttributes => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A body in chunks of a byte would take thirty times its size for handles alone, and more for the buffers that
    /// they pin.
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

    proptest! {
        /// A byte lost or turned round between two batches spoils the file.
        #[test]
        fn pages_leave_nothing_out(lengths in proptest::collection::vec(0usize..40_000, 0..60), every in 1usize..9) {
            let (mut batch, mut sent, mut written) = (Batch::default(), Vec::new(), Vec::new());
            for (number, length) in lengths.into_iter().enumerate() {
                let piece: Vec<u8> = (0..length).map(|at| (at * 31 + number) as u8).collect();
                sent.extend_from_slice(&piece);
                batch.push(piece.into());
                if number % every == 0 {
                    let pages = batch.take_pages().concat();
                    prop_assert_eq!(pages.len() % WRITE_ALIGNMENT as usize, 0);
                    prop_assert!(batch.bytes < WRITE_ALIGNMENT as usize);
                    written.extend(pages);
                }
            }
            written.extend(batch.take().concat());
            prop_assert_eq!(batch.bytes, 0);
            prop_assert!(written == sent);
        }
    }
}
