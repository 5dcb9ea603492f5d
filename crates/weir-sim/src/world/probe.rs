//! What the simulation works at, for somebody outside who samples it.
//!
//! Written and never read by the simulation, so that it changes nothing in a run. An instrument in another thread looks now
//! and then, and so learns what takes how much of the time, at the cost of a store for each change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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

/// Shows what a simulation works at; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Probe(Arc<AtomicU8>);

impl Probe {
    /// What the simulation works at now.
    pub fn part(&self) -> Part {
        Part::ALL[usize::from(self.0.load(Ordering::Relaxed)) % Part::ALL.len()]
    }

    /// Works at a part, then goes on with the one before.
    pub(crate) fn within<T>(&self, part: Part, work: impl FnOnce() -> T) -> T {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(part as u8, Ordering::Relaxed);
        let result = work();
        self.0.store(before, Ordering::Relaxed);
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
