//! PostgreSQL: for services of several nodes, and for sites that run a database anyway.
//!
//! Callers block; the sockets live on a thread of their own. A failed session is dropped, and the next call opens
//! another: the database may come and go.

mod address;
mod ahead;
mod config;
mod connect;
mod election;
mod leases;
mod members;
mod migrate;
mod session;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod wait;
mod watch;

pub use address::Address;
pub use ahead::Owned;
pub use config::{NoRole, PostgresConfig, SessionAttrs};
pub use connect::Connector;
pub use election::{Election, Leadership, Process, TERM};
pub use leases::Leases;
pub use members::{GRACE, LEADER, Members, Node, Peer, Pulse, TERM_ALONE, notify};
pub use migrate::migrate;
pub use session::{PATIENCE, PULSE_PATIENCE, Pool, Purpose, Session, Values, reach};
pub use wait::wait;
