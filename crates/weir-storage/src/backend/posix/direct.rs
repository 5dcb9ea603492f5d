//! Direct writes past the page cache, for files that must be on the disk before the answer.
//!
//! 400 MiB in pieces of one and a flush, on an ext4 of a shared machine, four rounds in turn. Direct writes reached 760
//! to 1,050 MiB/s and 0.05 s of CPU. The page cache reached 560 to 860 MiB/s and 0.13 s, and 110 to 220 MiB/s while
//! other processes dirtied memory and the kernel throttled all writers. With early write-back it was 160 to 740 MiB/s.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::{
    fd::OwnedFd,
    fs::{self, Mode, OFlags},
    io::Errno,
};

use crate::backend::WRITE_ALIGNMENT;

/// Smaller writes go through the page cache, whose flush then finds little; and a transfer at its memory floor has no
/// memory for the copy.
const LEAST: usize = 128 << 10;

/// Largest single write, and the memory for it: a transfer's batch, and its last piece.
const CHUNK: usize = 2 << 20;

const ALIGNMENT: usize = WRITE_ALIGNMENT as usize;

/// A draft, opened once more for writing past the cache.
pub(super) struct Direct {
    file: OwnedFd,
    /// Whether the file system has taken it so far.
    works: AtomicBool,
    /// Memory to align bytes in; as many as write at one time.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Direct {
    /// None where the file system has no such thing.
    pub(super) fn open(directory: &OwnedFd, name: &str) -> Option<Self> {
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(directory, name, flags, Mode::empty()).ok()?;
        Some(Self {
            file,
            works: AtomicBool::new(true),
            buffers: Mutex::default(),
        })
    }

    /// Writes as much of the pieces as can go this way; gives the number of bytes.
    pub(super) fn write(&self, pieces: &[Bytes], offset: u64) -> Result<usize, Errno> {
        let total: usize = pieces.iter().map(Bytes::len).sum();
        let whole = total - total % ALIGNMENT;
        if whole < LEAST || !offset.is_multiple_of(WRITE_ALIGNMENT) || !self.works.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        let outcome = self.write_through(&mut buffer, pieces, offset, whole);
        self.buffers.lock().push(buffer);
        match outcome {
            // Another alignment than ours, or none that will do.
            Err(Errno::INVAL) => {
                self.works.store(false, Ordering::Relaxed);
                Ok(0)
            }
            outcome => outcome.map(|()| whole),
        }
    }

    fn write_through(&self, buffer: &mut Vec<u8>, pieces: &[Bytes], offset: u64, whole: usize) -> Result<(), Errno> {
        let needed = whole.min(CHUNK) + ALIGNMENT;
        // A transfer that has shrunk its memory shrinks this buffer too.
        if buffer.capacity() > 2 * needed {
            *buffer = Vec::new();
        }
        buffer.resize(needed, 0);
        let skipped = buffer.as_ptr().align_offset(ALIGNMENT);
        let aligned = &mut buffer[skipped..][..whole.min(CHUNK)];
        let mut pieces = pieces.iter().map(Bytes::as_ref);
        let mut piece: &[u8] = &[];
        let mut done = 0;
        while done < whole {
            let chunk = &mut aligned[..(whole - done).min(CHUNK)];
            let mut filled = 0;
            while filled < chunk.len() {
                if piece.is_empty() {
                    piece = pieces.next().expect("the pieces hold that much");
                    continue;
                }
                let (now, later) = piece.split_at(piece.len().min(chunk.len() - filled));
                chunk[filled..filled + now.len()].copy_from_slice(now);
                filled += now.len();
                piece = later;
            }
            self.write_all(chunk, offset + done as u64)?;
            done += filled;
        }
        Ok(())
    }

    fn write_all(&self, chunk: &[u8], offset: u64) -> Result<(), Errno> {
        let mut written = 0;
        while written < chunk.len() {
            match rustix::io::pwrite(&self.file, &chunk[written..], offset + written as u64) {
                Ok(0) => return Err(Errno::IO),
                // A disk that fills up may take a part that ends anywhere; the rest then says why.
                Ok(some) => written += some,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
