//! Several nodes on one database: every node serves the door, one node schedules, every enabled node copies.
//!
//! A node writes a heartbeat every two seconds ([`Membership`]). The leader gives operations to living nodes as leases
//! (`remote_nodes`); they carry them out and report (`remote_executor`). A node that does not schedule writes submissions
//! itself, and forwards every other request that needs the scheduler (`weir-fts`). Notifications of the database make
//! this fast; polling once a second makes it reliable.
//!
//! Rules that prevent two nodes from doing the same work:
//!
//! - A node that could not write its heartbeat for a term stops all its operations by its own clock
//!   ([`Term`](weir_store::Term)). The scheduler reassigns them only after that time and a margin.
//! - A new scheduler decides nothing before every living node has stopped the operations of older schedulers.
//! - A node's claims, progress and reports are written only while it holds the lease.
//! - Operations in the scheduler's own process have no lease: its epoch fences their writes. So a single node writes no
//!   additional row.

mod asking;
mod at_work;
mod figures;
mod ledger;
mod membership;
mod remote_executor;
mod remote_nodes;
mod scheduler_handle;

pub use crate::store::postgres::Asked;
pub use figures::{list, show};
pub use membership::Membership;
pub(crate) use remote_executor::RemoteExecutor;
pub(crate) use remote_nodes::{RemoteNodes, Scheduling};
pub use scheduler_handle::{SchedulerHandle, SubmissionEntry};
