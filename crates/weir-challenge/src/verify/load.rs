//! How much of the machine's own means was in use while the run was measured.

use std::time::{Duration, Instant};

use weir_http::ProcessorTime;
use weir_measure::report::Host;

use crate::execute::host_reading::pressure;

/// The kernel's counters at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadReading {
    at: Instant,
    processors: Option<ProcessorTime>,
    disk: Option<Duration>,
    memory: Option<Duration>,
}

/// Shares of the time between two readings; `None` where the kernel does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Load {
    processors: Option<f64>,
    disk: Option<f64>,
    memory: Option<f64>,
}

impl LoadReading {
    pub(crate) fn now() -> Self {
        let stalled = |what: &str| pressure(&std::fs::read_to_string(format!("/proc/pressure/{what}")).ok()?, "full");
        Self {
            at: Instant::now(),
            processors: ProcessorTime::now(),
            disk: stalled("io"),
            memory: stalled("memory"),
        }
    }

    /// The load since an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Load {
        let time = self.at.duration_since(earlier.at);
        let share = |now: Option<Duration>, before: Option<Duration>| {
            let stalled = now?.saturating_sub(before?);
            (!time.is_zero()).then(|| (stalled.as_secs_f64() / time.as_secs_f64()).min(1.0))
        };
        let processors = self.processors.zip(earlier.processors);
        Load {
            processors: processors.and_then(|(now, before)| now.busy_since(before)),
            disk: share(self.disk, earlier.disk),
            memory: share(self.memory, earlier.memory),
        }
    }
}

impl Load {
    /// Writes it into the description of a machine.
    pub(crate) fn of(self, host: Host) -> Host {
        Host {
            cpu_busy_ratio: self.processors,
            disk_stalled_ratio: self.disk,
            memory_stalled_ratio: self.memory,
            ..host
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_shares_of_the_time_between() {
        // Wrong: a disk that held everything back for half of the hold is not seen, or counted from the start of the machine.
        let earlier = LoadReading {
            at: Instant::now(),
            processors: None,
            disk: Some(Duration::from_secs(100)),
            memory: None,
        };
        let later = LoadReading {
            at: earlier.at + Duration::from_secs(10),
            disk: Some(Duration::from_secs(105)),
            ..earlier
        };
        let load = later.since(earlier);
        assert_eq!((load.processors, load.disk, load.memory), (None, Some(0.5), None));
        assert_eq!(earlier.since(earlier).disk, None);
    }
}
