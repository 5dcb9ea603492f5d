//! The core's time: the wall clock at the start, and what has passed since.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_units::Timestamp;

/// Never goes back and never jumps, whatever is done to the wall clock while the process runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Timestamp,
    at: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Timestamp(since.as_nanos() as u64),
            at: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.began + self.at.elapsed()
    }

    /// The runtime's instant of a core's time.
    pub(crate) fn instant(&self, at: Timestamp) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.at + at.since(self.began))
    }
}
