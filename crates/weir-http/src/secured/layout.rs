//! Sizes of the records of TLS 1.3 (RFC 8446 section 5).

/// Type, version and length.
pub(super) const HEADER: usize = 5;

/// The plaintext of one record at most.
pub(super) const PLAIN: usize = 1 << 14;

/// A whole record at most, as others may send it.
pub(super) const WHOLE: usize = HEADER + PLAIN + 256;

pub(super) const TAG: usize = 16;

/// Overhead of a record of ours beyond its plaintext.
pub(super) const BEYOND: usize = HEADER + 1 + TAG;
