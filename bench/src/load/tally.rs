//! Operations and bytes of a load.

use std::{sync::Arc, time::Instant};

use anyhow::Result;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;

/// The work of all clients so far.
#[derive(Clone)]
pub(super) struct Tally {
    start: Instant,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    bytes: u64,
    failed: u64,
    first_failure: Option<String>,
    took: Vec<f64>,
}

impl Tally {
    pub(super) fn start() -> Self {
        Self {
            start: Instant::now(),
            inner: Arc::default(),
        }
    }

    /// One request ended: after so long, with so many bytes, or with an error.
    pub(super) fn count(&self, since: Instant, outcome: Result<u64>) {
        let took = since.elapsed().as_secs_f64();
        let mut inner = self.inner.lock();
        match outcome {
            Ok(bytes) => {
                inner.bytes += bytes;
                inner.took.push(took);
            }
            Err(error) => {
                inner.failed += 1;
                inner.first_failure.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }

    /// The end of a request whose latency was counted before.
    pub(super) fn end(&self, outcome: Result<u64>) {
        let mut inner = self.inner.lock();
        match outcome {
            Ok(bytes) => inner.bytes += bytes,
            Err(error) => {
                inner.failed += 1;
                inner.first_failure.get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }

    pub(super) fn report(&self) -> Report {
        let seconds = self.start.elapsed().as_secs_f64();
        let mut inner = self.inner.lock();
        inner.took.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let last = inner.took.len().saturating_sub(1);
            inner
                .took
                .get((last as f64 * part).round() as usize)
                .copied()
                .unwrap_or(0.0)
        };
        Report {
            seconds,
            bytes: inner.bytes,
            done: inner.took.len() as u64,
            failed: inner.failed,
            first_failure: inner.first_failure.clone(),
            p50: quantile(0.5),
            p99: quantile(0.99),
            max: quantile(1.0),
        }
    }
}

/// The outcome.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) first_failure: Option<String>,
    /// Of each request, in seconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}
