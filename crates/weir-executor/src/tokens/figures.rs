//! Counters of an issuer, for `docs/metrics-transfer.md`.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use weir_service::metrics::Histogram;

/// Upper ends of the histogram's buckets, in seconds.
const ENDS: [f64; 9] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, f64::INFINITY];

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    Exchange,
    Refresh,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// A token.
    Token,
    /// A refusal of this token.
    Refusal,
    /// No answer, or one that is no statement about the token.
    Failure,
}

/// Upper ends of the buckets of lives, in seconds: a minute, the margin of renewal, usual lives.
const LIFE_ENDS: [f64; 7] = [60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0, f64::INFINITY];

/// The lives that tokens had left when they were used.
#[derive(Debug, Default)]
pub(super) struct Lives {
    buckets: [AtomicU64; LIFE_ENDS.len()],
    seconds: AtomicU64,
}

impl Lives {
    pub(super) fn count(&self, seconds: u64) {
        let own = LIFE_ENDS.partition_point(|end| *end < seconds as f64);
        self.buckets[own].fetch_add(1, Relaxed);
        self.seconds.fetch_add(seconds, Relaxed);
    }

    pub(super) fn histogram(&self) -> Histogram {
        Histogram {
            sum: self.seconds.load(Relaxed) as f64,
            buckets: LIFE_ENDS
                .into_iter()
                .zip(self.buckets.iter().map(|bucket| bucket.load(Relaxed)))
                .collect(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Figures {
    requests: [[AtomicU64; 3]; 2],
    buckets: [AtomicU64; ENDS.len()],
    micros: AtomicU64,
    /// Attempts that were sent back to wait.
    pub(super) waits: AtomicU64,
}

impl Figures {
    pub(super) fn count(&self, grant: Grant, came: Came, took: Duration) {
        self.requests[grant as usize][came as usize].fetch_add(1, Relaxed);
        let seconds = took.as_secs_f64();
        let own = ENDS.partition_point(|end| *end < seconds);
        self.buckets[own].fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
    }

    /// Requests, by grant and result.
    pub(super) fn requests(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let grants = ["exchange", "refresh"].into_iter().zip(&self.requests);
        grants.flat_map(|(grant, counts)| {
            let results = ["granted", "refused", "failed"].into_iter().zip(counts);
            results.map(move |(result, count)| (grant, result, count.load(Relaxed)))
        })
    }

    pub(super) fn seconds(&self) -> Histogram {
        Histogram {
            sum: Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64(),
            buckets: ENDS
                .into_iter()
                .zip(self.buckets.iter().map(|bucket| bucket.load(Relaxed)))
                .collect(),
        }
    }
}
