//! Source files of known random content: made from the seed while they are sent, never stored here.
//!
//! File `n` of a run is ChaCha8 keystream number `n` under a key from the seed. No two files share a block, and nothing in
//! them compresses, so a swapped, shifted or cached byte shows in the checksum.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use weir_units::{Algorithm, Checksums, Hasher};

/// Bytes made at once: large enough that a call costs nothing, small enough to stay in the second-level cache.
const CHUNK: usize = 256 * 1024;

/// Checksums computed while content is made. Adler-32 is common to FTS and storages; CRC-32C detects errors that it
/// misses in short files.
pub(crate) const ALGORITHMS: [Algorithm; 2] = [Algorithm::Adler32, Algorithm::Crc32c];

/// The content of one file, as a stream of chunks.
#[derive(Debug)]
pub(crate) struct Content {
    generator: ChaCha8Rng,
    left: u64,
    hasher: Option<Hasher>,
    checksums: ContentChecksums,
}

/// The checksums of a [`Content`], there once its last byte was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct ContentChecksums(Arc<Mutex<Option<Checksums>>>);

impl ContentChecksums {
    /// Returns the checksums; `None` until the last byte was made.
    pub(crate) fn get(&self) -> Option<Checksums> {
        self.0.lock().clone()
    }
}

impl Content {
    /// Makes the content of file `number` with `size` bytes.
    pub(crate) fn new(seed: u64, number: u64, size: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(number);
        let content = Self {
            generator,
            left: size,
            hasher: Some(Hasher::new(&ALGORITHMS)),
            checksums: ContentChecksums::default(),
        };
        if size == 0 { content.finished() } else { content }
    }

    /// Returns where the checksums will be.
    pub(crate) fn checksums(&self) -> ContentChecksums {
        self.checksums.clone()
    }

    fn finished(mut self) -> Self {
        self.finish();
        self
    }

    fn finish(&mut self) {
        if let Some(hasher) = self.hasher.take() {
            *self.checksums.0.lock() = Some(hasher.finish());
        }
    }
}

impl Iterator for Content {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.left == 0 {
            return None;
        }
        let length = usize::try_from(self.left).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = BytesMut::zeroed(length);
        self.generator.fill_bytes(&mut chunk);
        self.left -= length as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&chunk);
        }
        if self.left == 0 {
            self.finish();
        }
        Some(chunk.freeze())
    }
}

impl Stream for Content {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.next().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seed: u64, number: u64, size: u64) -> (Vec<u8>, Option<Checksums>) {
        let mut content = Content::new(seed, number, size);
        let checksums = content.checksums();
        assert_eq!(checksums.get().is_some(), size == 0);
        let bytes: Vec<u8> = content.by_ref().flatten().collect();
        (bytes, checksums.get())
    }

    #[test]
    fn content_has_its_size_and_its_checksums() {
        // Wrong: a source file does not match its checksum, so that every transfer of it fails, or none ever does.
        for size in [0, 1, 262_143, 262_144, 262_145, 700_001] {
            let (bytes, checksums) = all(7, 1, size);
            assert_eq!(bytes.len() as u64, size);
            let mut hasher = Hasher::new(&ALGORITHMS);
            hasher.update(&bytes);
            assert_eq!(checksums, Some(hasher.finish()), "{size}");
        }
    }

    #[test]
    fn content_follows_from_seed_and_number_alone() {
        // Wrong: the same seed gives other bytes, or two files the same.
        assert_eq!(all(7, 1, 1000), all(7, 1, 1000));
        assert_ne!(all(7, 1, 1000).0, all(7, 2, 1000).0);
        assert_ne!(all(7, 1, 1000).0, all(8, 1, 1000).0);
    }
}
