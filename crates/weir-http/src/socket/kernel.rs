//! Socket calls that no safe library offers: the only unsafe code of the tree.
//!
//! `getsockopt(TCP_INFO)` and `setsockopt(SO_MAX_PACING_RATE)` pass the kernel a buffer of ours and its true length,
//! and nothing else. [`Watch`] borrows a descriptor with another owner, for as long as that one is open. See
//! `docs/decisions/006-one-unsafe-module.md`.
#![expect(unsafe_code, reason = "two system calls with buffers of known length")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Lends the descriptor of a connection while it is open.
#[derive(Clone)]
pub(super) struct Watch(Arc<Mutex<Option<RawFd>>>);

impl Watch {
    /// Calls `look` with the connection's socket; `None` once it is closed.
    pub(super) fn with<T>(&self, look: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let socket = self.0.lock();
        // SAFETY: the number is there only while `Watched` owns the stream. `Watched` takes it away under this lock
        // before it closes the descriptor, and nothing takes the stream out of it.
        let lent = (*socket).map(|number| unsafe { BorrowedFd::borrow_raw(number) });
        lent.map(look)
    }
}

/// A stream that can be watched. The lock is touched at the beginning and at the end only.
pub(crate) struct Watched {
    stream: TcpStream,
    watch: Watch,
}

impl Watched {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let number = stream.as_raw_fd();
        let watch = Watch(Arc::new(Mutex::new(Some(number))));
        Self { stream, watch }
    }

    /// The stream itself, which stays in here.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The stream is dropped after this, and with it the descriptor is closed.
        *self.watch.0.lock() = None;
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}

/// Reads the kernel's `struct tcp_info` into `buffer` and returns its number of bytes: older kernels have less.
pub(super) fn tcp_info(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(buffer.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is borrowed and so open; the kernel writes at most `length` bytes to `buffer`, which has so many,
    // and any bytes are valid `u8`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(buffer.len().min(length as usize))
}

/// Sets the highest rate at which the kernel sends on this socket, in bytes per second, its headers included.
pub(super) fn set_pacing(socket: BorrowedFd<'_>, rate: u64) -> io::Result<()> {
    let value = rate.to_ne_bytes();
    // SAFETY: the descriptor is borrowed and so open; the kernel reads `value.len()` bytes from `value`.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
