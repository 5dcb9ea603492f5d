//! The other nodes of a service, as the driver of the scheduler uses them.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use weir_sched::Op;
use weir_world::OpId;

use weir_store::Term;

use crate::store::LiveJob;

/// Runs before decisions begin. Returns false if the service stopped, or another node schedules.
pub(crate) type Gate = Box<dyn FnOnce(&CancellationToken, &mut dyn FnMut(Box<LiveJob>)) -> bool + Send>;

/// Nodes that carry out operations for the scheduler of this one.
pub(crate) trait OtherNodes: Send + Sync {
    /// How long this process may carry out operations of its own.
    fn term(&self) -> Arc<Term>;

    /// Gives an operation to the node that has most room. False: this one has; `here` operations run in this process.
    fn takes(&self, id: OpId, op: Op, here: usize) -> bool;

    /// How many operations run elsewhere.
    fn running(&self) -> usize;

    /// Ends an operation early, if it runs elsewhere.
    fn recall(&self, id: OpId);

    /// An operation has ended. Returns the host of the node that carried it out.
    fn over(&self, id: OpId) -> Arc<str>;

    /// Returns the work to be done before decisions begin. After it, no node carries out orders of an older scheduler,
    /// and every job that was submitted without a scheduler is known.
    fn gate(&self) -> Gate;
}
