//! Spreads the bytes of a transfer evenly over its own duration, in integers.
//!
//! The bytes up to a moment `t` are `⌊bytes × (t − start) ÷ (end − start)⌋`; what lies between two moments is the
//! difference of two such numbers. So bins, windows and sums agree to the byte, however the time axis is cut.

use std::time::Duration;

/// Returns how many of the bytes of a transfer from `start` to `end` had arrived at `at`.
///
/// A transfer without duration (or one whose end lies before its start) arrives as a whole at its end, and counts as
/// arrived only after that moment: an end exactly on a border belongs to the part that begins there.
pub fn until(bytes: u64, start: Duration, end: Duration, at: Duration) -> u64 {
    if end <= start {
        return if at > end { bytes } else { 0 };
    }
    if at >= end {
        return bytes;
    }
    if at <= start {
        return 0;
    }
    let share = u128::from(bytes) * at.saturating_sub(start).as_nanos() / end.saturating_sub(start).as_nanos();
    u64::try_from(share).expect("a share of a u64 is a u64")
}

/// Returns how many of the bytes arrived between `from` and `to`.
///
/// Summed over parts that cut a time axis without gaps and reach beyond the end of the transfer, this is exactly `bytes`.
pub fn between(bytes: u64, start: Duration, end: Duration, from: Duration, to: Duration) -> u64 {
    until(bytes, start, end, to).saturating_sub(until(bytes, start, end, from))
}

/// Returns the mean rate in bit/s, rounded to the nearest; `None` for an empty window.
pub fn rate(bytes: u64, window: Duration) -> Option<u64> {
    let nanos = window.as_nanos();
    if nanos == 0 {
        return None;
    }
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    Some(u64::try_from((bits + nanos / 2) / nanos).unwrap_or(u64::MAX))
}

/// Byte counters in equal bins from time zero, growing as needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    width: Duration,
    bytes: Vec<u64>,
}

impl Bins {
    /// Makes empty bins of a width above zero.
    pub fn new(width: Duration) -> Self {
        assert!(!width.is_zero(), "bins need a width");
        Self {
            width,
            bytes: Vec::new(),
        }
    }

    /// Spreads the bytes of one transfer over the bins that it touches.
    pub fn add(&mut self, bytes: u64, start: Duration, end: Duration) {
        if bytes == 0 {
            return;
        }
        let first = self.index(start.min(end));
        let last = self.index(end);
        if self.bytes.len() <= last {
            self.bytes.resize(last + 1, 0);
        }
        let mut before = 0;
        for bin in first..=last {
            let border = self.width * u32::try_from(bin + 1).expect("fewer than four billion bins");
            let upto = if bin == last {
                bytes
            } else {
                until(bytes, start, end, border)
            };
            self.bytes[bin] += upto - before;
            before = upto;
        }
    }

    /// Returns the bytes of a bin; zero where nothing arrived.
    pub fn get(&self, bin: usize) -> u64 {
        self.bytes.get(bin).copied().unwrap_or(0)
    }

    /// Returns the sum of all bins.
    pub fn sum(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Returns the mean rate in bit/s of a bin.
    pub fn rate(&self, bin: usize) -> u64 {
        rate(self.get(bin), self.width).expect("bins have a width")
    }

    fn index(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.width.as_nanos()).expect("a bin number fits a usize")
    }
}
