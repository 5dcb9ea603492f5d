//! Counters of a relay.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a relay.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) connections: AtomicU64,
    pub(super) passed: AtomicU64,
    pub(super) held_nanos: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) stalls: AtomicU64,
    pub(super) changes: AtomicU64,
    pub(super) unreachable: AtomicU64,
}

impl Figures {
    pub(super) fn passed(&self) -> Passed {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Passed {
            connections: of(&self.connections),
            bytes: of(&self.passed),
            held_nanos: of(&self.held_nanos),
            resets: of(&self.resets),
            stalls: of(&self.stalls),
            changes: of(&self.changes),
            unreachable: of(&self.unreachable),
        }
    }
}

/// The activity of a relay so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Connections that it took.
    pub connections: u64,
    /// Bytes that it passed on, in both directions.
    pub bytes: u64,
    /// Time for which it held bytes back, summed over connections and directions, in nanoseconds.
    pub held_nanos: u64,
    /// Connections that it reset.
    pub resets: u64,
    /// Times that a connection stalled.
    pub stalls: u64,
    /// Bits that it changed.
    pub changes: u64,
    /// Connections that it could not pass on, because nothing answered behind it.
    pub unreachable: u64,
}

impl Passed {
    /// The activity of two relays.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The activity after an earlier moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            connections: join(self.connections, other.connections),
            bytes: join(self.bytes, other.bytes),
            held_nanos: join(self.held_nanos, other.held_nanos),
            resets: join(self.resets, other.resets),
            stalls: join(self.stalls, other.stalls),
            changes: join(self.changes, other.changes),
            unreachable: join(self.unreachable, other.unreachable),
        }
    }
}
