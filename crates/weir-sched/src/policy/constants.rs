//! Constants of gates and lanes.

/// The gate that always has room.
pub(super) const HALL: u32 = 0;

/// Smallest share of a slow lane, as a fraction of its share at the fastest lane's speed.
pub(super) const SLOWEST: f64 = 0.08;

/// Lanes that are slower by less than this are as fast as the fastest.
pub(super) const AS_FAST: f64 = 1.25;

/// Throughput of one transfer, in bytes per second, before its link was measured.
pub(super) const GUESS: f64 = 50e6;
