//! How busy the processors are, read from the kernel.

use std::{num::NonZeroUsize, thread::available_parallelism, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// Processor time of the whole machine since it started (`proc_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTime {
    busy: u64,
    all: u64,
}

impl ProcessorTime {
    /// Reads the kernel's counters; `None` where there are none.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        // user nice system idle iowait irq softirq steal; guest time is already within user.
        let fields: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        let all = fields.iter().sum();
        let idle: u64 = fields.get(3)? + fields.get(4)?;
        Some(Self { busy: all - idle, all })
    }

    /// The share of processor time used since an earlier reading, 0 to 1; `None` where no time has passed.
    pub fn busy_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.saturating_sub(earlier.all);
        (all != 0).then(|| self.busy.saturating_sub(earlier.busy) as f64 / all as f64)
    }
}

/// Processors that this process may use: a quota of its control group counts.
pub fn cores() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Processor time that this process has used, with all its threads.
pub fn own_processor_time() -> Duration {
    time_by(ClockId::ProcessCPUTime)
}

fn time_by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// Waiting for a disk would count as busy, or guest time twice.
    #[test]
    fn processor_time_is_what_is_not_idle() {
        let earlier = ProcessorTime::parse("cpu  10 0 10 100 20 0 0 0 5 0\ncpu0 1 2\n").unwrap();
        let later = ProcessorTime::parse("cpu  40 0 20 130 40 0 0 0 9 0\n").unwrap();
        assert_eq!((earlier.busy, earlier.all), (20, 140));
        assert_eq!(later.busy_since(earlier), Some(40.0 / 90.0));
        assert_eq!(earlier.busy_since(earlier), None);
        assert_eq!(ProcessorTime::parse("intr 1"), None);
    }

    /// The time of one thread alone would leave out the working threads.
    #[test]
    fn the_time_of_all_threads_counts() {
        let before = own_processor_time();
        let work = || {
            (0..20_000_000_u64).map(std::hint::black_box).sum::<u64>();
            time_by(ClockId::ThreadCPUTime)
        };
        let thread = std::thread::spawn(work).join().unwrap();
        assert!(own_processor_time() >= before + thread);
    }
}
