//! Files that the kernel sends by itself on connections without TLS: their bytes never come to user space.
//!
//! hyper needs bytes, so it gets placeholders: slices of a memory region that is never read or written. hyper writes
//! bodies as it got them (`writev`), so a placeholder reaches the socket layer at the same address. There the kernel is
//! asked for the part of the file that was recorded with the placeholder (sendfile(2)).
//!
//! A placeholder must never be sent itself, or replaced by another part. So each write must match the recorded, unsent
//! parts to the byte; otherwise the connection is closed.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    os::fd::AsFd,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::{fs::sendfile, io::Errno};

/// The most that one stand-in stands for.
///
/// 1 MiB: a thousand system calls a gigabyte cost nothing, and the other tasks of a thread wait for some 50 µs.
pub const WINDOW: usize = 1 << 20;

/// Address space without memory behind it: it is never touched.
static STAND_IN: LazyLock<&'static [u8]> = LazyLock::new(|| vec![0; WINDOW].leak());

/// A file that the kernel sends; its owner lives until the last byte has gone.
pub type SentFile = Arc<dyn AsFd + Send + Sync>;

/// Found in the extensions of requests on connections without TLS: lets parts of files be sent in place of bytes.
#[derive(Clone, Default)]
pub struct Direct(Arc<Mutex<Owed>>);

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct").finish_non_exhaustive()
    }
}

/// The parts that were handed out and are not sent. Its lock is never contended: one task polls both body and connection.
#[derive(Default)]
struct Owed {
    segments: VecDeque<Segment>,
    /// Of all segments.
    bytes: usize,
}

struct Segment {
    file: SentFile,
    offset: u64,
    left: usize,
}

/// The beginning of a write.
pub(crate) enum Next {
    /// So many slices of bytes.
    Bytes(usize),
    /// A part of a file.
    File,
}

impl Direct {
    /// Returns a placeholder for `length` bytes of a file, at most [`WINDOW`]. It must be the next part of the answer's
    /// body, and go nowhere else: only on this connection is it replaced by the file's bytes.
    ///
    /// Reading the file must not block: the sending thread serves other connections too.
    ///
    /// # Panics
    /// If `length` is above [`WINDOW`].
    pub fn stand_in(&self, file: SentFile, offset: u64, length: usize) -> Bytes {
        let stand_in = Bytes::from_static(&STAND_IN[..length]);
        let mut owed = self.0.lock();
        owed.bytes += length;
        owed.segments.push_back(Segment {
            file,
            offset,
            left: length,
        });
        stand_in
    }

    /// Classifies the beginning of `slices`.
    ///
    /// # Errors
    /// If they do not match the recorded parts exactly.
    pub(crate) fn next(&self, slices: &[IoSlice<'_>]) -> io::Result<Next> {
        let shown: usize = slices
            .iter()
            .filter(|slice| is_stand_in(slice))
            .map(|slice| slice.len())
            .sum();
        let owed = self.0.lock().bytes;
        if shown != owed {
            let text = format!("{shown} bytes stand for parts of files where {owed} should");
            return Err(io::Error::other(text));
        }
        if owed == 0 {
            return Ok(Next::Bytes(slices.len()));
        }
        let before = slices.iter().take_while(|slice| !is_stand_in(slice));
        let (count, length) = before.fold((0, 0), |(count, length), slice| (count + 1, length + slice.len()));
        Ok(if length == 0 { Next::File } else { Next::Bytes(count) })
    }

    /// Has the kernel send the first recorded part; returns the number of bytes that it took.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is full; `UnexpectedEof` if the file has become shorter.
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<usize> {
        let mut owed = self.0.lock();
        let Some(first) = owed.segments.front_mut() else {
            return Err(io::Error::other("nothing is owed"));
        };
        let sent = loop {
            match sendfile(socket.as_fd(), first.file.as_fd(), Some(&mut first.offset), first.left) {
                Err(Errno::INTR) => {}
                outcome => break outcome?,
            }
        };
        if sent == 0 {
            let text = "the file became shorter while it was sent";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        first.left -= sent;
        if first.left == 0 {
            owed.segments.pop_front();
        }
        owed.bytes -= sent;
        Ok(sent)
    }
}

fn is_stand_in(slice: &[u8]) -> bool {
    let (all, address) = (STAND_IN.as_ptr_range(), slice.as_ptr());
    !slice.is_empty() && all.contains(&address)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn file() -> SentFile {
        Arc::new(tempfile::tempfile().unwrap())
    }

    fn next(direct: &Direct, pieces: &[&[u8]]) -> io::Result<Next> {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        direct.next(&slices)
    }

    /// Zeros would be sent as a file, or one file as another.
    #[test]
    fn a_write_that_does_not_show_what_is_owed_is_an_error() {
        let direct = Direct::default();
        assert!(matches!(next(&direct, &[b"head", b"body"]), Ok(Next::Bytes(2))));
        let stand_in = direct.stand_in(file(), 0, 10);
        assert!(matches!(next(&direct, &[b"head", &stand_in]), Ok(Next::Bytes(1))));
        assert!(matches!(next(&direct, &[&stand_in]), Ok(Next::File)));
        assert!(matches!(next(&direct, &[b"", &stand_in, b"tail"]), Ok(Next::File)));
        let copied = stand_in.to_vec();
        // Cut, copied, doubled, or left out.
        for wrong in [
            &[&stand_in[..9]][..],
            &[&copied],
            &[&stand_in, &stand_in],
            &[b"head"],
            &[],
        ] {
            assert!(next(&direct, wrong).is_err());
        }
        // Without anything owed, there is nothing that it could stand for.
        assert!(next(&Direct::default(), &[&stand_in]).is_err());
    }

    /// A file that was cut short would hang its reader, or go on with another.
    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let direct = Direct::default();
        let _stand_in = direct.stand_in(file(), 0, 10);
        let error = direct.send(&near).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(Direct::default().send(&near).is_err());
    }
}
