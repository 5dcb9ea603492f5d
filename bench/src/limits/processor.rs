//! Processor time of this process.

use std::time::Duration;

pub(super) const WINDOW: Duration = Duration::from_millis(700);

/// Processor time of this process so far, in seconds.
pub(super) fn process_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
