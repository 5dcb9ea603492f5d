//! What is counted of an issuer, for `docs/metrics.md`.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 8] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    Exchange,
    Refresh,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    /// A token.
    Token,
    /// A refusal of this token.
    Refusal,
    /// No answer, or one that says nothing about the token.
    Failure,
}

#[derive(Debug, Default)]
pub(super) struct Figures {
    requests: [[AtomicU64; 3]; 2],
    buckets: [AtomicU64; BUCKETS.len()],
    micros: AtomicU64,
    /// Attempts that were sent back to wait.
    pub(super) waits: AtomicU64,
}

impl Figures {
    pub(super) fn count(&self, grant: Grant, came: Came, took: Duration) {
        self.requests[grant as usize][came as usize].fetch_add(1, Relaxed);
        let seconds = took.as_secs_f64();
        let within = BUCKETS.iter().zip(&self.buckets).filter(|(end, _)| seconds <= **end);
        within.for_each(|(_, bucket)| {
            bucket.fetch_add(1, Relaxed);
        });
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
    }

    pub(super) fn requests(&self, text: &mut String, name: &str, issuer: &str) {
        for (grant, counts) in ["exchange", "refresh"].iter().zip(&self.requests) {
            for (result, count) in ["granted", "refused", "failed"].iter().zip(counts) {
                let count = count.load(Relaxed);
                let labels = format!("issuer=\"{issuer}\",grant=\"{grant}\",result=\"{result}\"");
                let _ = writeln!(text, "{name}{{{labels}}} {count}");
            }
        }
    }

    pub(super) fn seconds(&self, text: &mut String, name: &str, issuer: &str) {
        for (end, bucket) in BUCKETS.iter().zip(&self.buckets) {
            let count = bucket.load(Relaxed);
            let _ = writeln!(text, "{name}_bucket{{issuer=\"{issuer}\",le=\"{end}\"}} {count}");
        }
        let all = self
            .requests
            .iter()
            .flatten()
            .map(|count| count.load(Relaxed))
            .sum::<u64>();
        let _ = writeln!(text, "{name}_bucket{{issuer=\"{issuer}\",le=\"+Inf\"}} {all}");
        let sum = Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64();
        let _ = writeln!(text, "{name}_sum{{issuer=\"{issuer}\"}} {sum}");
        let _ = writeln!(text, "{name}_count{{issuer=\"{issuer}\"}} {all}");
    }
}
