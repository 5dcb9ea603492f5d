//! A body that is cut off where it becomes too much.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::Body;
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Bytes of one answer: 1,300 for each of the most entries. XRootD writes some 700.
pub(super) const BYTES_MAX: u64 = 128 << 20;

/// Bytes of one tag or text.
pub(super) const PIECE_MAX: usize = 64 << 10;

/// A body as quick-xml reads it, cut off where it becomes too much.
pub(super) struct Bounded<B> {
    body: B,
    arrived: Bytes,
    left: u64,
    /// Of the tag or text that is being read.
    piece_left: usize,
}

impl<B> Bounded<B> {
    pub(super) fn new(body: B) -> Self {
        Self {
            body,
            arrived: Bytes::new(),
            left: BYTES_MAX,
            piece_left: PIECE_MAX,
        }
    }

    /// Another tag or text follows.
    pub(super) fn begin_piece(&mut self) {
        self.piece_left = PIECE_MAX;
    }
}

impl<B> AsyncBufRead for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.piece_left == 0 {
            let text = format!("a name or text of more than {} KiB", PIECE_MAX >> 10);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        while this.arrived.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                None => break,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error.to_string()))),
                Some(Ok(frame)) => this.arrived = frame.into_data().unwrap_or_default(),
            }
            this.left = match this.left.checked_sub(this.arrived.len() as u64) {
                Some(left) => left,
                None => return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into())),
            };
        }
        // No more than the piece may have, so that its size is found out before it is kept.
        let shown = this.arrived.len().min(this.piece_left);
        Poll::Ready(Ok(&this.arrived[..shown]))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        let this = self.get_mut();
        this.arrived.advance(amount);
        this.piece_left -= amount;
    }
}

impl<B> AsyncRead for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let there = ready!(self.as_mut().poll_fill_buf(context))?;
        let taken = there.len().min(into.remaining());
        into.put_slice(&there[..taken]);
        self.consume(taken);
        Poll::Ready(Ok(()))
    }
}
