//! The current activity of the simulation, for an observer in another thread.
//!
//! The simulation writes it and never reads it, so it changes nothing in a run. An observer samples it now and then,
//! and so measures the share of time of each part, at the cost of a store for each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use weir_units::Timestamp;

/// A part of the simulation that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// Everything else: demand, storage, attempts, checks.
    World,
    /// The core: decisions about starts.
    Scheduling,
    /// Flows and their rates.
    Network,
    /// The records of ended transfers, and their writers.
    Rows,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 4] = [Part::World, Part::Scheduling, Part::Network, Part::Rows];
}

/// Publishes the activity and the progress of a simulation; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Probe(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    part: AtomicU8,
    /// Virtual time in nanoseconds.
    reached: AtomicU64,
}

impl Probe {
    /// The current activity of the simulation.
    pub fn part(&self) -> Part {
        Part::ALL[usize::from(self.0.part.load(Ordering::Relaxed)) % Part::ALL.len()]
    }

    /// The virtual time that the simulation has reached.
    pub fn reached(&self) -> Timestamp {
        Timestamp(self.0.reached.load(Ordering::Relaxed))
    }

    /// Shows that the simulation has reached a moment.
    pub(crate) fn reach(&self, moment: Timestamp) {
        self.0.reached.store(moment.0, Ordering::Relaxed);
    }

    /// Works at a part, then goes on with the one before.
    pub(crate) fn within<T>(&self, part: Part, work: impl FnOnce() -> T) -> T {
        let before = self.0.part.load(Ordering::Relaxed);
        self.0.part.store(part as u8, Ordering::Relaxed);
        let result = work();
        self.0.part.store(before, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time would be counted for a part that is over, or the part around it would be lost.
    #[test]
    fn parts_end() {
        let probe = Probe::default();
        let seen = probe.clone();
        let inner = probe.within(Part::Rows, || probe.within(Part::Network, || seen.part()));
        assert_eq!((inner, seen.part()), (Part::Network, Part::World));
    }
}
