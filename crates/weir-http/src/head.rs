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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    buffers::{Buffers, SealsAhead},
    kept::UntilSent,
    seats::Seat,
    tls::SEALED_AHEAD,
};

/// What may still come before a request is understood. While one is answered, there is no limit.
pub(crate) struct Allowance {
    limit: usize,
    left: AtomicUsize,
    /// An answer is complete and may still wait to be sent.
    answered: AtomicBool,
    seat: Arc<Seat>,
    until_sent: UntilSent,
}

impl Allowance {
    pub(crate) fn new(limit: usize, seat: Arc<Seat>, until_sent: UntilSent) -> Arc<Self> {
        Arc::new(Self {
            limit,
            left: AtomicUsize::new(limit),
            answered: AtomicBool::new(false),
            seat,
            until_sent,
        })
    }

    /// The head is read: what follows is a body.
    pub(crate) fn lift(&self) {
        self.left.store(usize::MAX, Ordering::Relaxed);
        self.answered.store(false, Ordering::Relaxed);
        self.seat.work();
    }

    /// The answer is complete: what follows is another head.
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
            self.seat.rest();
        }
    }
}

/// What is read at once of a head: most have less than 4 KiB. A body that begins in it is copied so far.
const READ: usize = 16 << 10;

/// A connection that ends when a head is too long.
pub(crate) struct Limited<I> {
    io: I,
    allowance: Arc<Allowance>,
    buffers: Buffers,
    /// What it may have sealed ahead, as it was told last.
    sealed: usize,
}

impl<I: SealsAhead> Limited<I> {
    pub(crate) fn new(io: I, allowance: Arc<Allowance>, buffers: Buffers) -> Self {
        Self {
            io,
            allowance,
            buffers,
            sealed: 0,
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
}

impl<I: AsyncRead + Unpin> AsyncRead for Limited<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.allowance.left.load(Ordering::Relaxed);
        if left == usize::MAX {
            return Pin::new(&mut self.io).poll_read(cx, buffer);
        }
        if left == 0 {
            let text = format!("the head of a request has more than {} bytes", self.allowance.limit);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        // hyper's buffer may be large still, from an earlier body.
        let mut space = [MaybeUninit::uninit(); READ];
        let most = READ.min(left).min(buffer.remaining());
        let mut read = ReadBuf::uninit(&mut space[..most]);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        buffer.put_slice(read.filled());
        self.allowance.left.store(left - read.filled().len(), Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + SealsAhead + Unpin> AsyncWrite for Limited<I> {
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
