//! When bytes may go on, so that a rate is kept. No clocks: the time is an argument, in nanoseconds since any fixed moment.

use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: u128 = 1_000_000_000;

/// A timer comes late by a millisecond or two; for so long a rate that was not used up is kept for its sake.
const LATE: u64 = 20_000_000;

/// A rate shared by many, without a lock: bytes are sent first and paid afterwards.
///
/// Each payment is queued behind the ones before it, and its sender waits until it is through. With pieces of equal
/// size each sender gets the same rate, in order of arrival (the generic cell rate algorithm, ITU-T I.371, with a
/// queue).
#[derive(Debug)]
pub(super) struct Bucket {
    /// Bytes a second, at least 1.
    rate: u64,
    /// When all payments are through.
    free_at: AtomicU64,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            free_at: AtomicU64::new(0),
        }
    }

    pub(super) fn rate(&self) -> u64 {
        self.rate
    }

    /// Pays for bytes; gives when that is through.
    pub(super) fn pay(&self, now: u64, bytes: u64) -> u64 {
        let lasts = u128::from(bytes) * SECOND / u128::from(self.rate);
        let lasts = u64::try_from(lasts).unwrap_or(u64::MAX);
        let through = |free_at: u64| free_at.max(now.saturating_sub(LATE)).saturating_add(lasts);
        let pay = |free_at| Some(through(free_at));
        let before = self.free_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
        through(before.unwrap_or_default())
    }

    /// When all that was paid for is through.
    pub(super) fn free_at(&self) -> u64 {
        self.free_at.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sharers_have_equal_rates() {
        let bucket = Bucket::new(1_000_000);
        let start = SECOND as u64;
        // Two senders with pieces of 10 kB: when each may go on, and the bytes that they have sent.
        let (mut next, mut sent) = ([start; 2], [0_u64; 2]);
        loop {
            let who = usize::from(next[1] < next[0]);
            if next[who] > 2 * start {
                break;
            }
            sent[who] += 10_000;
            next[who] = bucket.pay(next[who], 10_000);
        }
        let [a, b] = sent;
        // Except for the lateness allowance of the first one, and a piece.
        assert!(a.abs_diff(b) <= 30_000, "{a} and {b}");
        assert!((1_000_000..=1_060_000).contains(&(a + b)), "{a} and {b}");
    }

    proptest! {
        /// A limit that is exceeded is no limit; one that is not reached under full load loses bandwidth.
        #[test]
        fn the_rate_is_kept(rate in 1_u64..10_000_000_000, pieces in prop::collection::vec((1_u64..2_000_000, 0_u64..50_000_000), 1..200)) {
            let bucket = Bucket::new(rate);
            let (mut now, mut sent, start) = (SECOND as u64, 0_u128, SECOND as u64);
            for (bytes, idle) in pieces {
                let through = bucket.pay(now, bytes);
                sent += u128::from(bytes);
                prop_assert_eq!(through, bucket.free_at());
                now = now.max(through).saturating_add(idle);
                // Of all payments so far, no more than the rate since the start, and the lateness allowance.
                let may = u128::from(rate) * u128::from(now - start + LATE) / SECOND;
                // Each payment is rounded down by less than a nanosecond.
                prop_assert!(sent <= may + 200 * (u128::from(rate) / SECOND + 1), "{sent} of {may}");
            }
        }

        /// Without pauses nothing of the rate is lost.
        #[test]
        fn nothing_is_lost(rate in 1_000_u64..10_000_000_000, pieces in prop::collection::vec(1_u64..2_000_000, 1..200)) {
            let bucket = Bucket::new(rate);
            let (mut now, start) = (SECOND as u64, SECOND as u64);
            let sent: u128 = pieces.iter().map(|bytes| u128::from(*bytes)).sum();
            for bytes in pieces {
                let through = bucket.pay(now, bytes);
                // As late as timers are.
                now = if through > now { through + LATE / 4 } else { now };
            }
            let took = u128::from(now - start);
            prop_assert!(took <= sent * SECOND / u128::from(rate) + u128::from(LATE), "{took}");
        }
    }
}
