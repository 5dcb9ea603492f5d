//! Bytes that came and are not opened yet.

use std::{
    io,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use super::{
    buffer_cache::{self, AHEAD},
    layout::WHOLE,
    records::length,
};
use crate::tcp::Tcp;

/// Size of other reads. A read that fills this much shows that more waits in the socket; less is answered as it comes,
/// so that a connection with little traffic has no buffer.
const FEW: usize = 4 << 10;

/// Largest read while the head of a request is expected.
const HEAD: usize = 8 << 10;

/// Most bytes before decryption. rustls keeps a message until it is complete, up to 64 KiB; records of a few bytes each
/// around it would take any amount.
const MOST: usize = (64 << 10) + AHEAD + WHOLE;

pub(super) struct Incoming {
    memory: Vec<u8>,
    /// Not opened.
    unopened: Range<usize>,
    /// Opened, and not read.
    plain: Range<usize>,
    bulk: bool,
    /// Whether more than a record may be read at once: not of heads, or strangers would have the memory of bodies.
    reads_ahead: bool,
}

impl Default for Incoming {
    fn default() -> Self {
        Self {
            memory: Vec::new(),
            unopened: 0..0,
            plain: 0..0,
            bulk: false,
            reads_ahead: true,
        }
    }
}

impl Incoming {
    /// The received bytes that are not decrypted.
    pub(super) fn unopened(&mut self) -> &mut [u8] {
        &mut self.memory[self.unopened.clone()]
    }

    /// Bytes that came another way than over a socket.
    #[cfg(test)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.memory.truncate(self.unopened.end);
        self.memory.extend_from_slice(bytes);
        self.unopened.end += bytes.len();
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.memory.capacity()
    }

    /// So many bytes of it are of no use any more.
    pub(super) fn discard(&mut self, bytes: usize) {
        self.unopened.start += bytes;
    }

    /// The memory, its undecrypted part, and the place of the found plaintext.
    pub(super) fn parts(&mut self) -> (&mut [u8], &mut Range<usize>) {
        (&mut self.memory, &mut self.unopened)
    }

    /// Plaintext was found here.
    pub(super) fn opened(&mut self, plain: Range<usize>) {
        self.plain = plain;
    }

    /// Allows reads of more than a record from now on, or not. Received bytes stay.
    pub(super) fn read_ahead(&mut self, may: bool) {
        self.reads_ahead = may;
        if !may && self.memory.len() > WHOLE {
            let plain = self.plain.len();
            let from = if plain == 0 {
                self.unopened.start
            } else {
                self.plain.start
            };
            let rest = self.memory[from..self.unopened.end].to_vec();
            buffer_cache::give_back(std::mem::replace(&mut self.memory, rest));
            self.unopened = self.unopened.start - from..self.unopened.end - from;
            self.plain = 0..plain;
        }
    }

    fn clear(&mut self) {
        buffer_cache::give_back(std::mem::take(&mut self.memory));
        (self.unopened, self.plain, self.bulk) = (0..0, 0..0, false);
    }

    /// Whether more than a record is held.
    pub(super) fn holds_much(&self) -> bool {
        self.memory.len() > WHOLE
    }

    /// Hands out at most so many bytes of plaintext; whether there were any.
    pub(super) fn take(&mut self, buffer: &mut ReadBuf<'_>, most: usize) -> bool {
        let length = self.plain.len().min(most);
        buffer.put_slice(&self.memory[self.plain.start..self.plain.start + length]);
        self.plain.start += length;
        if self.plain.is_empty() && self.unopened.is_empty() && !(self.bulk && self.reads_ahead) {
            self.clear();
        }
        length > 0
    }

    /// Waits for more, of which about `bound` and a record may be held, or next to nothing where hardly anything is asked for. Nothing opened may
    /// be left. False if nothing more comes.
    pub(super) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        tcp: &mut Tcp,
        (bound, asked): (usize, usize),
    ) -> Poll<io::Result<bool>> {
        let filled = self.poll_more(cx, tcp, bound);
        // Between two requests heads are asked for, which are small.
        if filled.is_pending() && self.unopened.is_empty() && asked <= HEAD {
            self.clear();
        }
        filled
    }

    fn poll_more(&mut self, cx: &mut Context<'_>, tcp: &mut Tcp, bound: usize) -> Poll<io::Result<bool>> {
        if self.unopened.len() >= MOST {
            let text = "a message that is too long, or cut into too many records";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        if self.unopened.is_empty() && !self.bulk {
            self.clear();
            let mut few = [0; FEW];
            let read = ready!(poll_read(cx, tcp, &mut few))?;
            self.bulk = read == FEW;
            self.memory.extend_from_slice(&few[..read]);
            self.unopened = 0..read;
            return Poll::Ready(Ok(read > 0));
        }
        self.make_room(bound);
        let end = self.unopened.end;
        let read = ready!(poll_read(cx, tcp, &mut self.memory[end..]))?;
        self.bulk = read >= FEW;
        self.unopened.end += read;
        Poll::Ready(Ok(read > 0))
    }

    /// Makes room behind the undecrypted bytes: for the rest of a record at least, where its length is known.
    fn make_room(&mut self, bound: usize) {
        let here = self.unopened.len();
        let first = length(&self.memory[self.unopened.clone()]).ok().flatten();
        let least = first.filter(|whole| *whole > here).unwrap_or(here + FEW.max(here / 2));
        let ahead = if self.reads_ahead { bound } else { 0 };
        // A record more than the bound: reads that end just before a record does would double their number.
        let most = AHEAD.min(ahead + WHOLE).max(least);
        let size = if self.bulk { most } else { least.max(FEW) };
        if (size..=most.max(size)).contains(&self.memory.len()) {
            self.memory.copy_within(self.unopened.clone(), 0);
        } else {
            let mut memory = buffer_cache::take(size);
            memory[..here].copy_from_slice(&self.memory[self.unopened.clone()]);
            buffer_cache::give_back(std::mem::replace(&mut self.memory, memory));
        }
        (self.unopened, self.plain) = (0..here, 0..0);
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        buffer_cache::give_back(std::mem::take(&mut self.memory));
    }
}

fn poll_read(cx: &mut Context<'_>, tcp: &mut Tcp, memory: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(memory);
    ready!(Pin::new(tcp).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}
