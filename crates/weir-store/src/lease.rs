//! Leases on pieces of work, for services whose workers find due pieces, carry them out, and record the result.
//!
//! A worker takes the lease of a piece, renews it while it works, and confirms it in the transaction that applies the
//! outcome. Each lease has a new term, so that a paused worker whose piece another one has taken applies nothing. The
//! lease of a dead worker expires.
//!
//! Their table is [`crate::postgres::Leases`] or [`crate::sqlite::Leases`].

/// The right to work on a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The piece, as the service calls it.
    pub name: String,
    /// Greater than the term of every lease before.
    pub term: i64,
}
