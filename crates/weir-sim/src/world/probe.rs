//! What the simulation works at, for somebody outside who samples it.
//!
//! Written and never read by the simulation, so that it changes nothing in a run. An instrument in another thread looks now
//! and then, and so learns what takes how much of the time, at the cost of a store for each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use weir_units::Timestamp;

/// What takes time in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// Everything else: demand, storage, the life of attempts, what watches.
    World,
    /// The core: what starts when.
    Scheduling,
    /// Flows and their rates.
    Network,
    /// The books of transfers that ended, and whoever writes them down.
    Rows,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 4] = [Part::World, Part::Scheduling, Part::Network, Part::Rows];
}

/// Shows what a simulation works at and how far it is; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Probe(Arc<Shown>);

#[derive(Debug, Default)]
struct Shown {
    part: AtomicU8,
    /// Virtual time in nanoseconds.
    reached: AtomicU64,
}

impl Probe {
    /// What the simulation works at now.
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
