//! A rate that many connections share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Bytes per second for all that take from it, in the order in which they ask.
#[derive(Debug)]
pub struct Bucket {
    /// Bytes per second; above zero.
    rate: AtomicU64,
    free: Mutex<Instant>,
}

impl Bucket {
    /// A bucket of so many bytes per second; zero counts as one.
    pub fn new(rate: u64) -> Self {
        Self {
            rate: AtomicU64::new(rate.max(1)),
            free: Mutex::new(Instant::now()),
        }
    }

    /// Changes the rate, for what is taken from now on.
    pub fn set(&self, rate: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    /// Takes bytes; gives the moment by which they have passed.
    pub fn take(&self, bytes: usize, now: Instant) -> Instant {
        let rate = self.rate.load(Ordering::Relaxed);
        let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
        let mut free = self.free.lock();
        *free = (*free).max(now) + time;
        *free
    }
}
