//! The time that transfers spent waiting in the queue, by reason.

use std::time::Duration;

use serde::Serialize;
use weir_world::Wait;

use crate::{Link, Resource};

/// The waiting of one link's transfers since the scheduler began, and the slots that they held.
///
/// All times are sums over transfers: two that wait for a minute each have waited for two. They only grow, so a reader
/// takes the difference of two readings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkWaits {
    /// The link.
    pub link: Link,
    /// Waits by state and resource, in no particular order.
    pub waits: Vec<QueueWait>,
    /// Time in which its transfers held slots, each on every resource of its way.
    pub slots: Duration,
    /// Resources on the way of its transfers: a slot is held at each of them.
    pub way: Vec<Resource>,
}

/// One reason to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueWait {
    /// The state.
    pub wait: Wait,
    /// The full resource; `None` where no resource is concerned.
    pub resource: Option<Resource>,
    /// How long transfers waited for it.
    pub time: Duration,
}
