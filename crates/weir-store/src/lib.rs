//! Durable state: what every service that keeps promises needs below its own tables.
//!
//! - [`Writer`]: a single thread makes whatever has gathered durable in one transaction, and sets aside what the store will never take.
//! - [`Sealer`]: secrets at rest, under a key that lives in a file of its own.
//! - [`sqlite`] and [`postgres`]: opening, migrations, sessions; on PostgreSQL leader election ([`postgres::Election`]), in which every
//!   batch of a leader carries its epoch, so that a deposed one changes nothing.
//! - [`Membership`]: a node says that it lives, hears of the leader, and lets go when its [`Term`] is over by its own clock.
//! - [`Lease`]: the right of one worker to one piece of work.
//!
//! Deliberately absent: the tables of any service, and what its changes mean ([`Change`] is the service's own).

mod blocking;
mod error;
mod lease;
mod membership;
pub mod postgres;
mod seal;
pub mod sqlite;
mod standing;
mod term;
mod writer;

pub use blocking::blocking;
pub use error::{Refusal, StoreError, remedy};
pub use lease::Lease;
pub use membership::{Delegated, Member, Membership};
pub use seal::{FreshKey, Sealer};
pub use standing::Standing;
pub use term::Term;
pub use writer::{Change, Durable, Writer};
