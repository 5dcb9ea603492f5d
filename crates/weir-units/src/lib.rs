//! Words: the quantities that every other room speaks in.
//!
//! This is the first room of the house; it knows nothing but itself. Bytes, bit rates, durations, timestamps and
//! checksums are types here, so that no number travels without its unit. Each parses and prints itself, and what it
//! prints parses back to the same value.
//!
//! Invariants:
//! - Arithmetic saturates; it neither wraps nor panics, because sizes come from other people's files and servers.
//! - Prefixes are powers of ten (`kB`, `Gb/s`), binary ones only where written so (`GiB`).
//! - Nothing here reads a clock or draws a random number.
//!
//! ```
//! use weir_units::{BitRate, Bytes};
//! let rate: BitRate = "44 Gb/s".parse()?;
//! let volume = rate.bytes_in(weir_units::duration::parse("10 s")?);
//! assert_eq!(volume, Bytes(55_000_000_000));
//! assert_eq!(volume.to_string(), "55 GB");
//! # Ok::<(), weir_units::ParseError>(())
//! ```

pub mod bps;
mod bytes;
pub mod calendar;
pub mod checksum;
pub mod duration;
mod hasher;
pub mod iso8601;
mod quantity;
mod rate;
mod timestamp;

pub use bytes::Bytes;
pub use checksum::{Algorithm, Checksum, ChecksumError, ChecksumValue, parse_digest_header};
pub use hasher::{Checksums, Hasher, combine};
pub use quantity::ParseError;
pub use rate::BitRate;
pub use timestamp::Timestamp;
