//! The limit of buffered body bytes per connection, which the memory budget adjusts while a body moves; and the waits for
//! the socket behind these buffers.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::SocketWaits;

/// The limit of one connection; clones share it.
///
/// A connection limited to `n` bytes holds at most `n` bytes that it has read and not handed on. TLS adds up to `n`
/// bytes and a record (128 KiB at most) before decryption. It also adds `n` bytes (256 KiB at most) that are encrypted and not
/// yet taken by the other side. With TLS 1.2 rustls decrypts all received bytes at once, and copies them: the same
/// twice more.
#[derive(Clone)]
pub struct Buffers {
    bound: Arc<AtomicUsize>,
    waits: SocketWaits,
}

impl Buffers {
    /// The least that a bound can be: a TLS record (RFC 8446 section 5.1).
    pub const LEAST: usize = 16 << 10;

    /// Where every connection begins. Beyond this size nothing is saved.
    pub const MOST: usize = 512 << 10;

    /// Changes the limit. Bytes already held stay until they are handed on.
    pub fn bound(&self, bytes: usize) {
        self.bound
            .store(bytes.clamp(Self::LEAST, Self::MOST), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.bound.load(Ordering::Relaxed)
    }

    /// How long the connection waited for its socket.
    pub fn socket_waits(&self) -> &SocketWaits {
        &self.waits
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            bound: Arc::new(AtomicUsize::new(Self::MOST)),
            waits: SocketWaits::default(),
        }
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Buffers").field(&self.get()).finish()
    }
}

/// A stream with adjustable read-ahead and write-ahead.
pub(crate) trait AdjustableAhead {
    /// At most so many bytes are encrypted ahead from now on.
    fn seal_ahead(&mut self, bytes: usize);

    /// Whether more than a record may be read ahead from now on.
    fn read_ahead(&mut self, may: bool);

    /// Whether more than a record of read-ahead is held.
    fn holds_much(&self) -> bool;
}
