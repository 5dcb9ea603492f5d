//! Several nodes on one database: each serves the door; one schedules; all that may, copy.
//!
//! A node says every two seconds that it lives ([`Membership`]). The leader gives operations
//! to living nodes as leases (`fleet`); they carry them out and report (`remote_executor`). A node that does not schedule writes submissions
//! itself and hands every other request that needs the scheduler over to it (`weir-fts`). Notifications of the database make all of
//! this quick; looks once a second make it sure.
//!
//! Why nothing is done by two at a time:
//!
//! - A node lets go of everything by its own clock when it could not say for a term that it lives ([`Term`](weir_store::Term)), and the scheduler gives
//!   its operations to others only after that time, and some more.
//! - A new scheduler decides nothing before every living node has let go of what an older one ordered.
//! - What a node claims, moves and reports is written only as long as the lease is its own.
//! - Operations that run in the scheduler's own process have no lease: its epoch guards what they write. So a single node writes no
//!   row more than before.

mod asking;
mod at_work;
mod figures;
mod fleet;
mod ledger;
mod membership;
mod remote_executor;
mod seat;

pub use crate::store::postgres::Asked;
pub use figures::{list, show};
pub(crate) use fleet::{Fleet, Scheduling};
pub use membership::Membership;
pub(crate) use remote_executor::RemoteExecutor;
pub use seat::{Entry, Seat};
