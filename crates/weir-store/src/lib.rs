//! Durable state: the layer below the tables of every service.
//!
//! - [`Writer`]: group commit; a single thread writes all pending changes in one transaction, and sets aside those that
//!   the store will never take.
//! - [`Sealer`]: secrets at rest, under a key that lives in a file of its own.
//! - [`sqlite`] and [`postgres`]: opening, migrations, sessions; on PostgreSQL leader election
//!   ([`postgres::Election`]), in which every batch of a leader carries its epoch, so that a deposed one changes
//!   nothing.
//! - [`Membership`]: a node writes heartbeats, learns of the leader, and stops its work when its [`Term`] is over by
//!   its own clock.
//! - [`Lease`]: the right of one worker to one piece of work.
//!
//! Deliberately absent: the tables of any service, and the meaning of its changes ([`Change`] is the service's own).

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
