//! A limit for the heads of requests that does not limit bodies: hyper reads both into one buffer, which bodies want large.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    buffers::{AdjustableAhead, Buffers},
    connection_slots::ConnectionSlot,
    heads::{FREE, Heads, Place},
    tls::SEALED_AHEAD,
    until_sent::UntilSent,
};

/// The bytes that may still arrive before a request is complete. While a request is answered, there is no limit.
pub(crate) struct Allowance {
    limit: usize,
    left: AtomicUsize,
    /// An answer is complete and may still wait to be sent.
    answered: AtomicBool,
    slot: Arc<ConnectionSlot>,
    until_sent: UntilSent,
    /// Whether there is, or was, a large head: hyper keeps its buffer.
    large: AtomicBool,
    heads: Arc<Heads>,
    /// Memory for a large head that is awaited.
    place: Mutex<Option<Place>>,
}

/// Marker instead of a limit: a request with a body is in hand.
const BODY: usize = usize::MAX;

/// Marker instead of a limit: a request without a body is in hand.
const NO_BODY: usize = usize::MAX - 1;

impl Allowance {
    pub(crate) fn new(limit: usize, slot: Arc<ConnectionSlot>, until_sent: UntilSent, heads: Arc<Heads>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            left: AtomicUsize::new(limit),
            answered: AtomicBool::new(false),
            slot,
            until_sent,
            large: AtomicBool::new(false),
            heads,
            place: Mutex::default(),
        })
    }

    /// The head is complete: a body follows, or nothing until the answer.
    pub(crate) fn lift(&self, body: bool) {
        self.left.store(if body { BODY } else { NO_BODY }, Ordering::Relaxed);
        self.answered.store(false, Ordering::Relaxed);
        self.slot.work();
        if self.is_large() {
            // Long transfers would keep all others' large heads out.
            drop(self.place.lock().take());
        }
    }

    /// The answer is complete: another head follows.
    fn renew(&self) {
        self.left.store(self.limit, Ordering::Relaxed);
        self.until_sent.answered();
        self.answered.store(true, Ordering::Relaxed);
    }

    /// All that was written is with the kernel.
    fn flushed(&self) {
        self.until_sent.sent();
        if self.answered.load(Ordering::Relaxed) {
            self.answered.store(false, Ordering::Relaxed);
            self.slot.rest();
        }
    }

    /// Whether the connection has memory of a large head.
    pub(crate) fn is_large(&self) -> bool {
        self.large.load(Ordering::Relaxed)
    }

    /// Whether the connection should end with the answer, because it would keep memory that others need soon. The
    /// client is told so, and loses no request sent meanwhile.
    pub(crate) fn is_burden(&self) -> bool {
        self.is_large() && self.heads.are_scarce()
    }

    /// Ends a connection between two requests: by itself, or at once if it would first wait for a client to read an
    /// answer.
    fn leave(&self) -> io::Result<bool> {
        if self.answered.load(Ordering::Relaxed) {
            let text = "others need the memory of its large heads, and its answers are not read";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(false)
    }
}

/// Size of a read of a head: most have less than 4 KiB. A body that begins in it is copied up to this size.
const READ: usize = FREE;

/// A connection that ends when a head is too long, and waits where there is no memory for a large one.
pub(crate) struct Limited<I> {
    io: I,
    allowance: Arc<Allowance>,
    buffers: Buffers,
    /// The current limit of encrypted bytes ahead of the socket.
    sealed: usize,
    /// Whether it may read ahead, as it was told last.
    reads_ahead: bool,
    waits: Option<Pin<Box<dyn Future<Output = Place> + Send>>>,
}

impl<I: AdjustableAhead> Limited<I> {
    pub(crate) fn new(mut io: I, allowance: Arc<Allowance>, buffers: Buffers) -> Self {
        io.read_ahead(false);
        Self {
            io,
            allowance,
            buffers,
            sealed: 0,
            reads_ahead: false,
            waits: None,
        }
    }

    /// Before a write: the bound may have moved.
    fn bound(&mut self) {
        let sealed = SEALED_AHEAD.min(self.buffers.get());
        if sealed != self.sealed {
            self.sealed = sealed;
            self.io.seal_ahead(sealed);
        }
    }

    fn read_ahead(&mut self, may: bool) {
        if may != self.reads_ahead {
            self.reads_ahead = may;
            self.io.read_ahead(may);
        }
    }

    /// How much may be read of a head of which `left` bytes may come; 0: the connection is to end as if the other side had ended it.
    fn poll_room(&mut self, cx: &mut Context<'_>, left: usize) -> Poll<io::Result<usize>> {
        let read = self.allowance.limit - left;
        let is_large = self.allowance.is_large();
        if !is_large && read < FREE && !self.io.holds_much() {
            return Poll::Ready(Ok(left.min(FREE - read)));
        }
        self.poll_place(cx, read, is_large)
            .map_ok(|may| if may { left } else { 0 })
    }

    /// Whether the memory for a large head is available, or will be. A connection that holds memory of an earlier head
    /// must get a slot for it or end.
    #[cold]
    fn poll_place(&mut self, cx: &mut Context<'_>, read: usize, is_large: bool) -> Poll<io::Result<bool>> {
        let limit = self.allowance.limit;
        let holds = is_large || self.io.holds_much();
        let mut place = self.allowance.place.lock();
        if place.is_none() {
            let taken = if holds {
                let Some(taken) = self.allowance.heads.take(limit) else {
                    return Poll::Ready(self.allowance.leave());
                };
                taken
            } else {
                let heads = &self.allowance.heads;
                let waits = self.waits.get_or_insert_with(|| Box::pin(heads.clone().wait(limit)));
                let taken = ready!(waits.as_mut().poll(cx));
                self.waits = None;
                taken
            };
            *place = Some(taken);
            self.allowance.large.store(true, Ordering::Relaxed);
        }
        let is_wanted = place.as_ref().is_some_and(|place| place.is_wanted(cx));
        if is_wanted && read > 0 {
            let text = "others need the memory of its head, which has not ended";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)));
        }
        Poll::Ready(if is_wanted { self.allowance.leave() } else { Ok(true) })
    }
}

impl<I: AsyncRead + Unpin> Limited<I> {
    /// Reads at most so much. hyper's buffer may be large still, from an earlier body.
    fn poll_some(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>, most: usize) -> Poll<io::Result<usize>> {
        let mut space = [MaybeUninit::uninit(); READ];
        let most = READ.min(most).min(buffer.remaining());
        let mut read = ReadBuf::uninit(&mut space[..most]);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }
}

impl<I: AsyncRead + AdjustableAhead + Unpin> AsyncRead for Limited<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.allowance.left.load(Ordering::Relaxed);
        self.read_ahead(left == BODY);
        match left {
            BODY => return Pin::new(&mut self.io).poll_read(cx, buffer),
            // The next head, ahead of its time.
            NO_BODY => return self.poll_some(cx, buffer, FREE).map_ok(drop),
            0 => {
                let text = format!("the head of a request has more than {} bytes", self.allowance.limit);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
            }
            _ => {}
        }
        let room = ready!(self.poll_room(cx, left))?;
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = ready!(self.poll_some(cx, buffer, room))?;
        self.allowance.left.store(left - read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + AdjustableAhead + Unpin> AsyncWrite for Limited<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.bound();
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        self.allowance.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.bound();
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

/// The body of an answer; when it is dropped, the next head is awaited.
pub(crate) struct Answer<B> {
    body: B,
    allowance: Arc<Allowance>,
}

impl<B> Answer<B> {
    pub(crate) fn new(body: B, allowance: Arc<Allowance>) -> Self {
        Self { body, allowance }
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.allowance.renew();
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::connection_slots::ConnectionSlots;

    impl AdjustableAhead for DuplexStream {
        fn seal_ahead(&mut self, _: usize) {}

        fn read_ahead(&mut self, _: bool) {}

        fn holds_much(&self) -> bool {
            false
        }
    }

    /// An end of the connection as any other would wait for the answer to be read, with the memory.
    #[tokio::test]
    async fn an_unread_answer_is_cut_and_a_read_one_ends() {
        for is_sent in [false, true] {
            let slots = ConnectionSlots::new(1, None);
            let slot = slots.take("192.0.2.1".parse().unwrap()).await.unwrap().slot.clone();
            let heads = Heads::new(64 << 10);
            // Another connection has all of it.
            let _others = heads.take(64 << 10).unwrap();
            let allowance = Allowance::new(64 << 10, slot, UntilSent::default(), heads);
            let (near, mut far) = tokio::io::duplex(1 << 20);
            let mut limited = Limited::new(near, allowance.clone(), Buffers::default());
            allowance.large.store(true, Ordering::Relaxed);
            allowance.lift(false);
            drop(Answer::new(crate::body::empty(), allowance.clone()));
            if is_sent {
                limited.flush().await.unwrap();
            }
            far.write_all(b"GET /").await.unwrap();
            let read = limited.read(&mut [0; 100]).await;
            if is_sent {
                assert_eq!(read.unwrap(), 0);
            } else {
                assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
            }
        }
    }
}
