//! A limit on bandwidth, held by concurrency.
//!
//! The limit divided by the measured throughput of one transfer is the number that may run. The number is seldom
//! whole, and the measurement is never exact. So an account of bytes, allowed minus moved, decides between the next
//! whole number above and the one below; its debt is paid back within ten seconds. The mean reaches the limit within
//! seconds, and stays there.

use std::time::Duration;

use weir_units::{BitRate, Timestamp};

/// Depth of the account: bursts are made good within this time.
const DEPTH_SECONDS: f64 = 10.0;
/// Throughput of one transfer, in bytes per second, before any measurement.
const GUESS: f64 = 50e6;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes per second.
    rate: f64,
    /// Bytes allowed and not moved; negative if more were moved.
    account: f64,
    at: Timestamp,
}

impl Pace {
    pub(crate) fn new(rate: BitRate, now: Timestamp) -> Self {
        Self {
            rate: rate.as_f64() / 8.0,
            account: 0.0,
            at: now,
        }
    }

    pub(crate) fn limit(&self) -> BitRate {
        BitRate((self.rate * 8.0) as u64)
    }

    /// Brings the account up to date: until now, `flow` bytes per second moved.
    pub(crate) fn elapse(&mut self, now: Timestamp, flow: f64) {
        let seconds = now.since(self.at).as_secs_f64();
        let depth = self.rate * DEPTH_SECONDS;
        self.account = (self.account + (self.rate - flow) * seconds).clamp(-depth, depth / 4.0);
        self.at = self.at.max(now);
    }

    /// More bytes have moved than was thought, or fewer.
    pub(crate) fn correct(&mut self, more: f64) {
        self.account -= more;
    }

    /// How many may be active now, if each moves `each` bytes per second (zero if that is not known).
    pub(crate) fn allowed(&self, each: f64) -> u32 {
        if self.rate <= 0.0 {
            return 0;
        }
        let rate = self.rate + self.account / DEPTH_SECONDS;
        let share = rate.max(0.0) / if each > 0.0 { each } else { GUESS };
        let allowed = if self.account >= 0.0 {
            share.ceil()
        } else {
            share.floor()
        };
        allowed.min(1e9) as u32
    }

    /// When an account in debt will be even, if all goes on as it does; the next look at it otherwise.
    pub(crate) fn even_at(&self, now: Timestamp, flow: f64) -> Timestamp {
        let surplus = self.rate - flow;
        let seconds = if self.account < 0.0 && surplus > 0.0 {
            (-self.account / surplus).clamp(0.01, DEPTH_SECONDS)
        } else {
            1.0
        };
        now + Duration::from_secs_f64(seconds)
    }
}
