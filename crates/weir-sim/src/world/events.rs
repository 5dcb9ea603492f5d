//! Future events in total order: by time, then in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Timestamp;

use crate::slab::Key;

/// A future event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// An attempt is prepared: bytes may move.
    Ready(Key),
    /// An attempt waited too long for a connection.
    Impatient(Key),
    /// An attempt fails, as it was drawn.
    Fail(Key),
    /// An attempt is complete.
    Complete(Key),
    /// A core's store has committed.
    Committed(u32),
    /// A core asked to be woken.
    Wake(u32),
    /// A workload may inject.
    Inject(u32),
    /// The injections on a link of a workload are submitted.
    Submit(u32),
    /// The catalogue has something to do.
    Catalog,
    /// Traffic that is not ours changes.
    Background(u32),
    /// A segment's capacity changes, for the `n`th time.
    Change(u32, u32),
    /// A storage element stops or goes on moving bytes.
    Outage(u32, bool),
    /// Transfers that stalled when an outage began fail now; the number of the outage.
    OutageLasts(u32, u32),
    /// A link's transfer reports how far it is.
    Marker(u32),
    /// A fault changes its level, for the `n`th time.
    Fault(u32, u32),
    /// Transfers of a link on which nothing moves fail now.
    Dark(u32),
    /// The server of a storage element dies.
    Crash(u32),
    /// So many bytes are deleted at a storage element.
    Freed(u32, u64),
    /// The asked rates of links change.
    Targets,
    /// Counts are sampled.
    Sample,
    /// The run withdraws unfinished transfers.
    Withdraw,
}

/// The events to come.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Event)>>,
    sequence: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: Timestamp, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, event)));
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the first, if it is due.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<(Timestamp, Event)> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
