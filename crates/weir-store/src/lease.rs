//! Leases on pieces of work, for services whose workers find what is due, do it, and write it down.
//!
//! A worker takes the lease of a piece, renews it while it works, and confirms it in the transaction that applies the outcome. Each lease has
//! a term that was never given before, so that a worker that was frozen, and whose piece another one has by now, applies nothing. A worker
//! that died leaves a lease that ends by itself.
//!
//! Their table is [`crate::postgres::Leases`] or [`crate::sqlite::Leases`].

/// The right to work on a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The piece, as the service calls it.
    pub name: String,
    /// Greater than that of every lease before.
    pub term: i64,
}
