//! The time of a run: how long it has been going, and where a moment of another clock falls in it.

use std::time::{Duration, Instant, SystemTime};

/// Counts from the start of a run. Own moments come from the monotonic clock; moments that services report come from the
/// system clock and are placed relative to the start's reading of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the time of a moment of the system clock since the start; zero for earlier ones.
    pub(crate) fn at(&self, moment: SystemTime) -> Duration {
        moment.duration_since(self.wall).unwrap_or_default()
    }

    /// Returns the start as the system clock had it.
    pub(crate) fn started_at(&self) -> jiff::Timestamp {
        jiff::Timestamp::try_from(self.wall).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}
