//! Records on their way to the socket.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::AsyncWrite;

use super::{
    buffer_cache::{self, SIZES},
    layout::{BEYOND, PLAIN},
};
use crate::tcp::Tcp;

/// At least so much memory, with undefined content.
fn memory_of(bytes: usize) -> Vec<u8> {
    // Little is sooner made than looked for.
    let size = SIZES
        .into_iter()
        .find(|size| bytes <= *size)
        .filter(|_| bytes > PLAIN + BEYOND);
    buffer_cache::take(size.unwrap_or(bytes))
}

#[derive(Default)]
pub(super) struct Outgoing {
    memory: Vec<u8>,
    /// So much of it is made, and so much of that is sent.
    made: usize,
    sent: usize,
}

impl Outgoing {
    /// Bytes that are made and not sent.
    pub(super) fn waiting(&self) -> usize {
        self.made - self.sent
    }

    /// Prepares for so many bytes more, so that they are not moved as they are made.
    pub(super) fn reserve(&mut self, bytes: usize) {
        // Sent bytes are dropped: otherwise a slow reader would have all of a file kept.
        self.memory.copy_within(self.sent..self.made, 0);
        (self.made, self.sent) = (self.waiting(), 0);
        let size = self.made + bytes;
        if size <= self.memory.len() {
            return;
        }
        let mut memory = memory_of(size);
        memory[..self.made].copy_from_slice(&self.memory[..self.made]);
        buffer_cache::give_back(std::mem::replace(&mut self.memory, memory));
    }

    /// The next so many bytes, to be written over.
    pub(super) fn extend(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.len() - self.made < bytes {
            self.reserve(bytes);
        }
        let start = self.made;
        self.made += bytes;
        &mut self.memory[start..self.made]
    }

    /// Takes the last so many bytes back.
    pub(super) fn shorten(&mut self, bytes: usize) {
        self.made -= bytes;
    }

    /// Sends until no more than `leave` bytes wait.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, tcp: &mut Tcp, leave: usize) -> Poll<io::Result<()>> {
        while self.waiting() > leave {
            let sent = ready!(Pin::new(&mut *tcp).poll_write(cx, &self.memory[self.sent..self.made]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
        }
        if self.waiting() == 0 {
            *self = Self::default();
        }
        Poll::Ready(Ok(()))
    }

    /// All that waits, as if it were sent.
    #[cfg(test)]
    pub(super) fn take(&mut self) -> Vec<u8> {
        let waiting = self.memory[self.sent..self.made].to_vec();
        *self = Self::default();
        waiting
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.memory.capacity()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        buffer_cache::give_back(std::mem::take(&mut self.memory));
    }
}
