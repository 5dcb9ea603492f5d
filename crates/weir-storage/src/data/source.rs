//! From a file to the wire.

use std::{
    ops::Range,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use weir_http::{Direct, WINDOW, body::Cause, multipart::Multipart};
use weir_units::{Algorithm, Checksums, Hasher};

use super::{
    BLOCK, Outflow,
    outflow::{Flow, UnderWay},
};
use crate::{
    backend::{BackendError, Reader},
    memory::Budget,
};
use weir_http::chronograph::StreamState;

/// Bytes kept for the next readers: memory that is neither zeroed nor mapped again. Never more than is free of the budget.
const KEPT: usize = 32 << 20;

/// Sizes of blocks that are kept. Streams that have little memory read little at once.
const SIZES: [usize; 4] = [BLOCK, BLOCK / 2, BLOCK / 4, BLOCK / 8];

/// A pool of read buffers, in free memory of the budget.
pub(crate) struct BlockPool {
    memory: Budget,
    free: Mutex<[Vec<Vec<u8>>; SIZES.len()]>,
    /// How many bytes are free: asked about more often than they are few.
    kept: AtomicUsize,
}

impl BlockPool {
    /// A pool in the free part of this budget.
    pub(crate) fn new(memory: &Budget) -> Arc<Self> {
        let pool = Arc::new(Self {
            memory: memory.clone(),
            free: Mutex::default(),
            kept: AtomicUsize::new(0),
        });
        let weak = Arc::downgrade(&pool);
        memory.on_less(move |free| {
            if let Some(pool) = weak.upgrade() {
                pool.keep_within(free);
            }
        });
        pool
    }

    /// A buffer of at least so many bytes, at most [`BLOCK`].
    fn take(&self, bytes: usize) -> Vec<u8> {
        // Little is sooner made than looked for.
        let Some(size) = SIZES
            .iter()
            .rposition(|size| bytes <= *size && bytes > SIZES[SIZES.len() - 1] / 2)
        else {
            return vec![0; bytes];
        };
        let block = self.free.lock()[size].pop();
        if block.is_some() {
            self.kept.fetch_sub(SIZES[size], Ordering::Relaxed);
        }
        block.unwrap_or_else(|| vec![0; SIZES[size]])
    }

    fn give_back(&self, block: Vec<u8>) {
        let Some(size) = SIZES.iter().position(|size| block.len() == *size) else {
            return;
        };
        let mut free = self.free.lock();
        if self.kept.load(Ordering::Relaxed) + block.len() <= KEPT.min(self.memory.free()) {
            self.kept.fetch_add(block.len(), Ordering::Relaxed);
            free[size].push(block);
        }
        drop(free);
        // Some may have been taken meanwhile.
        self.keep_within(self.memory.free());
    }

    /// Frees buffers beyond so many bytes.
    fn keep_within(&self, bytes: usize) {
        if self.kept.load(Ordering::Relaxed) <= bytes {
            return;
        }
        let mut gone = Vec::new();
        let mut free = self.free.lock();
        for (size, blocks) in SIZES.iter().zip(free.iter_mut()) {
            while self.kept.load(Ordering::Relaxed) > bytes
                && let Some(block) = blocks.pop()
            {
                self.kept.fetch_sub(*size, Ordering::Relaxed);
                gone.push(block);
            }
        }
        drop(free);
        // Outside of the lock: to unmap takes a while.
        drop(gone);
    }
}

/// A part of a file in memory that goes back to the pool, if it came from there, when the last byte has left.
struct Block {
    memory: Vec<u8>,
    length: usize,
    pool: Arc<BlockPool>,
    _under_way: Option<UnderWay>,
}

impl Block {
    /// Memory for so many bytes, at most [`BLOCK`]. Few bytes get memory of their own size.
    fn new(length: usize, pool: &Arc<BlockPool>, under_way: Option<UnderWay>) -> Self {
        Self {
            memory: pool.take(length),
            length,
            pool: pool.clone(),
            _under_way: under_way,
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[..self.length]
    }

    fn seal(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.memory));
    }
}

/// Reads `length` bytes at `offset`, at most [`BLOCK`], which must all be there. On the blocking pool.
pub(crate) fn read_block(
    reader: &dyn Reader,
    offset: u64,
    length: usize,
    pool: &Arc<BlockPool>,
    flow: Option<&Arc<Flow>>,
) -> Result<Bytes, BackendError> {
    let mut block = Block::new(length, pool, flow.map(|flow| flow.enter(length)));
    fill(reader, block.bytes(), 0, offset)?;
    Ok(block.seal())
}

/// As [`read_block`] where nothing has to be waited for; else none.
pub(crate) fn read_cached_block(
    reader: &dyn Reader,
    offset: u64,
    length: usize,
    pool: &Arc<BlockPool>,
    flow: &Arc<Flow>,
) -> Option<Bytes> {
    let mut block = Block::new(length, pool, Some(flow.enter(length)));
    let whole = reader.read_cached(block.bytes(), offset) == length;
    whole.then(|| block.seal())
}

/// Reads the rest of a block behind its first `there` bytes.
fn fill(reader: &dyn Reader, block: &mut [u8], there: usize, offset: u64) -> Result<(), BackendError> {
    let read = there + reader.read_at(&mut block[there..], offset + there as u64)?;
    if read < block.len() {
        let source = std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was read",
        );
        return Err(BackendError {
            operation: "read it",
            obstacle: crate::backend::Obstacle::Io,
            source: Some(source),
        });
    }
    Ok(())
}

/// An observer of a body on its way out.
pub(crate) trait Watch: Send + 'static {
    /// The first bytes are about to be handed over.
    fn begins(&mut self) {}
    /// All bytes have been handed over.
    fn completed(&mut self, checksums: Option<Checksums>);
    /// Reading failed.
    fn failed(&mut self, error: &BackendError);
}

/// A range of a file as a body.
///
/// Cached bytes are read as the network takes them, by the sending thread: no switch to another one, and they are still
/// warm when they are encrypted. Without TLS, and without a checksum to compute, the kernel sends them itself. Uncached
/// bytes are read on the blocking pool, one block ahead of the network, never more. Nothing is read without memory in
/// the budget: earlier blocks leave first.
pub(crate) struct FileBody<W> {
    reader: Arc<dyn Reader>,
    pool: Arc<BlockPool>,
    outflow: Outflow,
    /// The next byte to be read.
    next: u64,
    end: u64,
    /// Bytes not handed over yet.
    left: u64,
    ahead: Option<JoinHandle<Read>>,
    /// Whether the last block had to be waited for, and the next one will be.
    cold: bool,
    direct: Option<Direct>,
    first: Option<Bytes>,
    /// Ranges that follow.
    more: Option<More>,
    hasher: Option<Hasher>,
    moved: Arc<AtomicU64>,
    begun: bool,
    watch: W,
}

/// The ranges of a multipart answer that are still to come.
struct More {
    multipart: Multipart,
    /// The range that comes next.
    at: usize,
}

/// A block, the hasher that has seen it, and whether the disk was waited for.
type Read = (Result<Bytes, BackendError>, Option<Hasher>, bool);

impl<W: Watch> FileBody<W> {
    /// The bytes of `part`, of which `first` has been read already. With algorithms, checksums are taken on the way.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is of another kind, and none can be left out"
    )]
    pub(crate) fn new(
        reader: Arc<dyn Reader>,
        pool: Arc<BlockPool>,
        outflow: Outflow,
        part: Range<u64>,
        first: Option<Bytes>,
        algorithms: &[Algorithm],
        moved: Arc<AtomicU64>,
        watch: W,
    ) -> Self {
        let mut hasher = (!algorithms.is_empty()).then(|| Hasher::new(algorithms));
        if let (Some(hasher), Some(first)) = (&mut hasher, &first) {
            hasher.update(first);
        }
        let next = part.start + first.as_ref().map_or(0, |first| first.len() as u64);
        Self {
            reader,
            pool,
            outflow,
            next,
            end: part.end,
            left: part.end - part.start,
            ahead: None,
            cold: false,
            direct: None,
            first,
            more: None,
            hasher,
            moved,
            begun: false,
            watch,
        }
    }

    /// Several ranges, each behind its lines. `part` of [`FileBody::new`] was empty.
    pub(crate) fn with_parts(mut self, multipart: Multipart) -> Self {
        self.left = multipart.length();
        self.more = Some(More { multipart, at: 0 });
        self
    }

    /// The lines that come next, if the range before them has been sent; then that range is begun.
    fn lines(&mut self) -> Option<Bytes> {
        if self.next < self.end || self.ahead.is_some() || self.first.is_some() {
            return None;
        }
        let more = self.more.as_mut()?;
        let Some(part) = more.multipart.parts().get(more.at).copied() else {
            return Some(more.multipart.end());
        };
        more.at += 1;
        (self.next, self.end) = (part.first, part.last + 1);
        Some(more.multipart.before(part))
    }

    /// Lets the kernel send cached bytes by itself, on the connection of `direct`.
    pub(crate) fn sent_by(mut self, direct: Option<Direct>) -> Self {
        self.direct = direct;
        self
    }

    fn next_length(&self) -> usize {
        (self.end - self.next).min(self.outflow.block() as u64) as usize
    }

    fn read_ahead(&mut self) {
        let length = self.next_length();
        if length == 0 {
            return;
        }
        let (reader, pool, offset, mut hasher) =
            (self.reader.clone(), self.pool.clone(), self.next, self.hasher.take());
        self.next += length as u64;
        let under_way = self.outflow.flow().enter(length);
        self.ahead = Some(tokio::task::spawn_blocking(move || {
            let mut block = Block::new(length, &pool, Some(under_way));
            let there = reader.read_cached(block.bytes(), offset);
            let outcome = fill(&*reader, block.bytes(), there, offset);
            let block = block.seal();
            if let (Ok(()), Some(hasher)) = (&outcome, &mut hasher) {
                hasher.update(&block);
            }
            (outcome.map(|()| block), hasher, there < length)
        }));
    }

    /// The next bytes, if they are cached and need no wait.
    fn cached(&mut self) -> Option<Bytes> {
        let (length, flow) = (self.next_length(), self.outflow.flow());
        let block = read_cached_block(&*self.reader, self.next, length, &self.pool, flow)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&block);
        }
        self.next += block.len() as u64;
        Some(block)
    }

    fn sent_by_the_kernel(&mut self) -> Option<Bytes> {
        let direct = self.direct.as_ref().filter(|_| self.hasher.is_none())?;
        let length = (self.end - self.next).min(WINDOW as u64).min(self.outflow.window());
        let file = self.reader.sendable(self.next..self.next + length)?;
        let stand_in = direct.stand_in(file, self.next, length as usize);
        self.next += length;
        Some(stand_in)
    }

    fn hand_over(&mut self, block: Bytes) -> Frame<Bytes> {
        let of_file = block.len() as u64;
        self.hand_over_counted(block, of_file)
    }

    /// Hands over a block, so many bytes of which are the file's: lines between ranges are not.
    fn hand_over_counted(&mut self, block: Bytes, of_file: u64) -> Frame<Bytes> {
        if !std::mem::replace(&mut self.begun, true) {
            self.watch.begins();
            self.outflow.begins();
        }
        self.left -= block.len() as u64;
        self.outflow.moved(of_file);
        self.moved.fetch_add(of_file, Ordering::Relaxed);
        if self.left == 0 {
            let checksums = self.hasher.take().map(Hasher::finish);
            self.watch.completed(checksums);
        } else if self.cold && self.outflow.has_room(self.next_length()) {
            self.read_ahead();
        }
        Frame::data(block)
    }
}

impl<W: Watch + Unpin> http_body::Body for FileBody<W> {
    type Data = Bytes;
    type Error = Cause;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cause>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.outflow.mark();
        let (frame, waits_for) = self.next_frame(cx);
        self.outflow.waits_for(waits_for);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A frame, or that there is none yet.
type PolledFrame = Poll<Option<Result<Frame<Bytes>, Cause>>>;

impl<W: Watch + Unpin> FileBody<W> {
    /// The next frame; without one, the state in which the stream waits for it. None: the connection has to take bytes first.
    fn next_frame(&mut self, cx: &mut Context<'_>) -> (PolledFrame, Option<StreamState>) {
        if self.outflow.poll_bandwidth(cx).is_pending() {
            return (Poll::Pending, Some(StreamState::Limiter));
        }
        if let Some(block) = self.first.take() {
            return (Poll::Ready(Some(Ok(self.hand_over(block)))), None);
        }
        if let Some(lines) = self.lines() {
            return (Poll::Ready(Some(Ok(self.hand_over_counted(lines, 0)))), None);
        }
        if self.ahead.is_none() {
            if let Some(stand_in) = self.sent_by_the_kernel() {
                return (Poll::Ready(Some(Ok(self.hand_over(stand_in)))), None);
            }
            if self.outflow.poll_room(cx).is_pending() {
                return (Poll::Pending, self.outflow.why_no_room());
            }
            if let Some(block) = self.cached() {
                return (Poll::Ready(Some(Ok(self.hand_over(block)))), None);
            }
            self.read_ahead();
        }
        let ahead = self.ahead.as_mut().expect("there are bytes left, so a read was begun");
        let Poll::Ready(outcome) = Pin::new(ahead).poll(cx) else {
            return (Poll::Pending, Some(StreamState::Disk));
        };
        self.ahead = None;
        let (block, hasher, waited) = match outcome {
            Ok(read) => read,
            Err(error) => return (Poll::Ready(Some(Err(error.into()))), None),
        };
        (self.hasher, self.cold) = (hasher, waited);
        let frame = match block {
            Ok(block) => Ok(self.hand_over(block)),
            Err(error) => {
                self.watch.failed(&error);
                Err(error.into())
            }
        };
        (Poll::Ready(Some(frame)), None)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use crate::memory::FLOOR;

    /// Blocks kept for a reader who never comes would be memory beyond the promised budget.
    #[test]
    fn blocks_are_kept_in_what_nobody_has_taken() {
        let memory = Budget::new(8 * BLOCK);
        let pool = BlockPool::new(&memory);
        let kept = || {
            let kept: usize = pool.free.lock().iter().flatten().map(Vec::len).sum();
            assert_eq!(kept, pool.kept.load(Ordering::Relaxed));
            kept
        };
        let blocks: Vec<_> = (0..20).map(|_| pool.take(BLOCK)).collect();
        blocks.into_iter().for_each(|block| pool.give_back(block));
        assert_eq!(kept(), 8 * BLOCK);
        let lease = memory.floor(None).unwrap();
        assert_eq!(kept(), 7 * BLOCK);
        assert_eq!(lease.fit(&[FLOOR + BLOCK / 2, FLOOR].into_iter()), 0);
        assert_eq!(kept(), 6 * BLOCK);
        let floors: Vec<_> = std::iter::from_fn(|| memory.floor(None).ok()).collect();
        assert_eq!(kept(), 0);
        pool.give_back(vec![0; BLOCK]);
        assert_eq!(kept(), 0, "all is taken");
        drop(floors);
        pool.give_back(vec![0; BLOCK]);
        pool.give_back(vec![0; BLOCK / 8]);
        assert_eq!(kept(), BLOCK + BLOCK / 8);
        let again = [pool.take(BLOCK / 8 - 1), pool.take(BLOCK - 1), pool.take(BLOCK / 8 + 1)];
        assert_eq!(again.map(|block| block.len()), [BLOCK / 8, BLOCK, BLOCK / 4]);
        assert_eq!(kept(), 0);
        // A small file has the memory that it needs, and its blocks are not kept.
        let small = pool.take(10_000);
        assert_eq!(small.len(), 10_000);
        pool.give_back(small);
        assert_eq!(kept(), 0);
    }
}
