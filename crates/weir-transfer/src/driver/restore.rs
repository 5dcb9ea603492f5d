//! Restoring the contents of the store: retried until it works, with each failure logged.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::store::{LiveJob, Restored, Store, StoreError, Unreadable};

/// Between two tries, at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Most rows that are named in the log one by one.
const NAMED_MAX: usize = 100;

/// How it stands.
#[derive(Debug, Default)]
pub(super) struct Restoration {
    trouble: Mutex<Option<String>>,
    unreadable: Mutex<Vec<String>>,
}

impl Restoration {
    /// The problem that keeps the service from starting anything, if there is one.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Rows that were passed over, for people.
    pub(super) fn unreadable(&self) -> Vec<String> {
        self.unreadable.lock().clone()
    }

    fn pass_over(&self, row: &Unreadable) {
        tracing::error!(
            row = row.what,
            reason = row.reason,
            "a row of the store cannot be read; it is passed over"
        );
        let mut named = self.unreadable.lock();
        if named.len() < NAMED_MAX {
            named.push(format!("{}: {}", row.what, row.reason));
        }
    }

    /// Hands over the contents of the store, and returns when all of it was handed over, or the service stops. Blocks.
    /// A retry hands over the rows of a failed try again; the core ignores repetitions.
    pub(super) fn run(
        &self,
        store: &dyn Store,
        below: u64,
        stop: &CancellationToken,
        mut each: impl FnMut(Box<LiveJob>),
    ) -> bool {
        let mut pause = Duration::from_millis(100);
        loop {
            self.unreadable.lock().clear();
            let mut take = |restored| match restored {
                Restored::Job(job) => each(job),
                Restored::Unreadable(row) => self.pass_over(&row),
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| store.restore(below, &mut take)));
            let error = match outcome {
                Ok(Ok(())) => {
                    *self.trouble.lock() = None;
                    return true;
                }
                Ok(Err(error)) => error,
                Err(_) => StoreError::Broken("the store panicked, see the log".into()),
            };
            let text = format!(
                "could not restore the queue, trying again: {}",
                weir_auth::error_chain(&error)
            );
            tracing::error!("{text}");
            *self.trouble.lock() = Some(text);
            if !wait(pause, stop) {
                return false;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// False: the service stops.
fn wait(pause: Duration, stop: &CancellationToken) -> bool {
    let end = std::time::Instant::now() + pause;
    while std::time::Instant::now() < end {
        if stop.is_cancelled() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    !stop.is_cancelled()
}
