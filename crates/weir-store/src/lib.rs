//! Durable state: what every service that keeps promises needs below its own tables.
//!
//! - [`Writer`]: a single thread makes whatever has gathered durable in one transaction, and sets aside what the store will never take.
//! - [`Sealer`]: secrets at rest, under a key that lives in a file of its own.
//! - [`sqlite`] and [`postgres`]: opening, migrations, sessions; on PostgreSQL leader election ([`postgres::Election`]), in which every
//!   batch of a leader carries its epoch, so that a deposed one changes nothing.
//! - [`Term`]: how long a process may act by its own clock.
//!
//! Deliberately absent: the tables of any service, and what its changes mean ([`Change`] is the service's own).

mod error;
pub mod postgres;
mod seal;
pub mod sqlite;
mod term;
mod writer;

pub use error::{Refusal, StoreError, remedy};
pub use seal::{FreshKey, Sealer};
pub use term::Term;
pub use writer::{Change, Durable, Writer};

/// The outcome of standing for election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing<T> {
    /// This process leads now.
    Elected(T),
    /// Another one is alive, or was until a few seconds ago: host, process, and where it lives.
    HeldBy(String),
}
