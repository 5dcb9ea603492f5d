//! When the daemons of a catalogue have something to do, in total order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_units::Timestamp;

use super::books::FileKey;
use crate::slab::Key;

/// A task of a daemon, or of one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Rules have ended, or are to be evaluated.
    Evaluate,
    /// The requests of a rule are there.
    Made(Key),
    /// A file's request may be submitted again.
    Again(FileKey),
    Submit(u32),
    Throttle,
    Poll(u32),
    Finish(u32),
    Clean(u32),
    Repair,
    Reap(u32),
}

/// The tasks to come.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Timestamp, u64, Task)>>,
    sequence: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Timestamp, task: Task) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, task)));
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the first, if it is due, with its own time.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<(Timestamp, Task)> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((at, _, task))| (at, task))
    }
}
