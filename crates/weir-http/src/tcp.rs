//! A TCP stream that holds as much as it may, sends files, and gives up a write that makes no progress.

use std::{
    future::Future,
    io,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    SocketWaits,
    buffers::{AdjustableAhead, Buffers},
    direct::{Direct, Next},
    slow_reader::{CutShort, Pace, Slow, WriteWatch},
    socket::{Entry, SocketWatch, TcpLedger, Watched, acknowledged},
};

/// A TCP stream of which no write can hang for ever.
pub(crate) struct Tcp {
    /// Dropped before the stream is.
    entry: Option<Entry>,
    stream: Watched,
    /// Parts of files that are to be sent in place of bytes.
    direct: Option<Direct>,
    buffers: Buffers,
    waits: SocketWaits,
    /// The pace required of the other side.
    taking: Option<Box<WriteWatch>>,
    cut_short: CutShort,
    /// Armed for the next look, not for each wait: a sender waits thousands of times a second.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Tcp {
    pub(crate) fn new(stream: TcpStream, write_timeout: Option<Duration>) -> Self {
        let buffers = Buffers::default();
        Self {
            entry: None,
            stream: Watched::new(stream),
            direct: None,
            waits: buffers.socket_waits().clone(),
            buffers,
            taking: WriteWatch::new(write_timeout, None).map(Box::new),
            cut_short: CutShort::default(),
            alarm: None,
        }
    }

    /// Counts the connection in a ledger until it is closed.
    pub(crate) fn enter(&mut self, ledger: &TcpLedger, peer: IpAddr) {
        self.entry = Some(ledger.enter(peer, self.watch()));
    }

    /// Has the other side keep a pace too, beside the limit for writes of which it takes nothing.
    pub(crate) fn keep_pace(&mut self, write_timeout: Duration, pace: Option<Pace>) {
        self.taking = WriteWatch::new(Some(write_timeout), pace).map(Box::new);
    }

    /// Tells whether the connection was cut because the other side took too little.
    pub(crate) fn cut_short(&self) -> CutShort {
        self.cut_short.clone()
    }

    /// Asks the kernel about this connection for as long as it is open.
    pub(crate) fn watch(&self) -> SocketWatch {
        SocketWatch::on(&self.stream)
    }

    /// How much of a body it may hold.
    pub(crate) fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    /// The buffers, for a layer that manages them from now on: bytes read here are no body yet.
    pub(crate) fn hand_over_buffers(&mut self) -> Buffers {
        std::mem::take(&mut self.buffers)
    }

    /// Lets parts of files be sent in place of bytes. Not for TLS, which would encrypt the stand-ins.
    pub(crate) fn direct(&mut self) -> Direct {
        self.direct.get_or_insert_default().clone()
    }

    /// Sends the first recorded part of a file as soon as the socket takes some of it.
    fn poll_send_file(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let socket = self.stream.socket();
        let Some(direct) = &self.direct else {
            return Poll::Ready(Err(io::ErrorKind::Unsupported.into()));
        };
        loop {
            ready!(socket.poll_write_ready(cx))?;
            match socket.try_io(Interest::WRITABLE, || direct.send(socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// Reads less than `bound`. hyper doubles its buffer when a read fills it: by this it stays at the bound.
    fn poll_read_bounded(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        bound: usize,
    ) -> Poll<io::Result<()>> {
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(bound - 1));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }

    /// Passes a write's outcome on, unless it has waited for too long.
    fn within_limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.waits.write_polled(outcome.is_pending());
        let Some(taking) = &mut self.taking else {
            return outcome;
        };
        if outcome.is_ready() {
            taking.wrote(Instant::now);
            return outcome;
        }
        let socket = self.stream.socket();
        let mut look = taking.waits(Instant::now(), || acknowledged(socket));
        loop {
            let at = match look {
                Ok(at) => at,
                Err(slow) => return Poll::Ready(Err(cut(&self.cut_short, slow))),
            };
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
            ready!(alarm.as_mut().poll(cx));
            look = taking.waits(Instant::now(), || acknowledged(socket));
            if let Ok(at) = look {
                alarm.as_mut().reset(at);
            }
        }
    }
}

fn cut(cut_short: &CutShort, slow: Slow) -> io::Error {
    cut_short.because(slow);
    io::Error::new(io::ErrorKind::TimedOut, slow.to_string())
}

impl AsyncRead for Tcp {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let bound = self.buffers.get();
        let outcome = if bound < Buffers::MOST && buffer.remaining() >= bound {
            self.poll_read_bounded(cx, buffer, bound)
        } else {
            Pin::new(&mut self.stream).poll_read(cx, buffer)
        };
        self.waits.read_polled(outcome.is_pending());
        outcome
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.direct.is_some() {
            return self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)]);
        }
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within_limit(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.within_limit(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let next = match &self.direct {
            Some(direct) => direct.next(slices)?,
            None => Next::Bytes(slices.len()),
        };
        let outcome = match next {
            Next::Bytes(count) => Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..count]),
            Next::File => self.poll_send_file(cx),
        };
        self.within_limit(cx, outcome)
    }
}

impl AdjustableAhead for Tcp {
    fn seal_ahead(&mut self, _: usize) {}

    fn read_ahead(&mut self, _: bool) {}

    fn holds_much(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    async fn pair(write_timeout: Option<Duration>) -> (TcpStream, Tcp) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (near.unwrap(), Tcp::new(far.unwrap().0, write_timeout))
    }

    /// A bound that reads ignore is none: hyper doubles its buffer with every read that fills it.
    #[tokio::test]
    async fn a_bound_connection_reads_less_than_its_bound() {
        let (mut near, mut far) = pair(None).await;
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        let copy = sent.clone();
        let sender = tokio::spawn(async move { near.write_all(&copy).await.unwrap() });
        let mut received = Vec::new();
        let mut buffer = vec![0; 300_000];
        for bound in [Buffers::LEAST, 64 << 10, Buffers::MOST, Buffers::LEAST]
            .into_iter()
            .cycle()
        {
            far.buffers().bound(bound);
            // As hyper asks for bodies, and for heads.
            for asked in [300_000, 4096] {
                let read = far.read(&mut buffer[..asked]).await.unwrap();
                assert!(read < bound, "{read} of {bound}");
                received.extend_from_slice(&buffer[..read]);
            }
            if received.len() == sent.len() {
                break;
            }
        }
        sender.await.unwrap();
        assert!(received == sent);
    }

    /// A client that stops reading would hold its place, and its buffers, for good.
    #[tokio::test]
    async fn a_write_that_makes_no_progress_ends() {
        let (near, mut far) = pair(Some(Duration::from_millis(100))).await;
        let flood = vec![0; 64 << 20];
        let error = far.write_all(&flood).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(near);
    }
}
