//! The data path: bytes from the wire to a file, and back.
//!
//! Costs per gigabyte, both directions, one core of a current x86 server with AES instructions:
//!
//! | step | receiving | sending |
//! |---|---|---|
//! | kernel: socket ↔ user space, TCP on loopback | 0.20 s | 0.20 s |
//! | AES-128-GCM (some 5 GB/s) and framing of 65,000 records | 0.25 s | 0.25 s |
//! | copy of plaintext out of records | 0.05 s | - |
//! | adler32 + crc32c, cache-warm, 16 KiB at a time | 0.10 s | - |
//! | kernel: user space ↔ page cache (`pwritev`, `pread`) | 0.15 s | 0.10 s |
//! | hops to the blocking pool (1000 to 4000 × 10 µs) | 0.01 s | 0.04 s from disk, none from memory |
//!
//! For a small file the hops dominate: one for a PUT, none for a GET from memory. In an area that has no disk behind it
//! there is none for a PUT either, nor for a batch where each core has a stream of its own (`Intake::is_at_once`).
//!
//! Without TLS, and without a checksum to compute, the kernel sends cached pages by itself (sendfile): of the rows for
//! sending only the first is left, without its copy.
//!
//! Three costs are avoided: no read-back for checksums, no copy into a buffer of our own, no thread that waits for a
//! peer. `pwritev` takes the pieces as they came off the wire; only small ones are merged. A file that must be on the
//! disk before the answer is copied once, for direct writes, which costs less than the page cache does. The memory
//! budget limits memory, whatever the file's size: its sums are in [`crate::memory`].

use weir_service::tasks::joined;

mod intake;
mod outflow;
mod sink;
mod source;
mod striped;

pub(crate) use intake::Intake;
pub(crate) use outflow::{Flow, Outflow, OutgoingConnection};
pub(crate) use sink::{Arrived, Batch, Expectation, Landing, Sink, SinkError, store};
pub(crate) use source::{BlockPool, FileBody, Watch, read_block, read_cached_block};
pub(crate) use striped::{Lane, Striped};

/// Bytes gathered before they are written, where there is memory for it: one is being written while the next fills.
/// 1 MiB: 1000 hops to the blocking pool per gigabyte cost 10 ms of CPU, and a spinning disk has its seek paid.
pub(crate) const BATCH: usize = 1 << 20;

/// Bytes read at once, where there is memory for it. 256 KiB: a block and the TLS records that are made of it stay in a
/// core's own cache, 1 MiB or more today. A connection takes so much at once.
pub(crate) const BLOCK: usize = 256 << 10;

/// Runs blocking work on the blocking pool.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}
