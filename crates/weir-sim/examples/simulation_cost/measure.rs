//! Clocks, marks, and figures.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_sim::world::{Part, Probe};

/// One measured figure. A limit is the most that it may be; a figure without one says what was measured on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: String,
    limit: Option<f64>,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &str, limit: Option<f64>) -> Self {
        Self {
            name: name.into(),
            value,
            unit: unit.to_owned(),
            limit,
        }
    }

    /// The row in the JSON file.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "measured": self.value,
            "unit": self.unit,
            "to_reach": self.limit,
            "share": self.limit.map(|limit| self.value / limit),
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: f64| match value {
            value if value >= 1000.0 => format!("{value:.0}"),
            value if value >= 10.0 => format!("{value:.1}"),
            value => format!("{value:.2}"),
        };
        let measured = format!("{} {}", number(self.value), self.unit);
        write!(f, "{:<68} {measured:>10}", self.name)?;
        let Some(limit) = self.limit else { return Ok(()) };
        let limit_text = format!("{} {}", number(limit), self.unit);
        write!(f, " {limit_text:>10} {:>6.2}", self.value / limit)
    }
}

/// The figure of the middle round.
pub(crate) fn median<'f>(rounds: impl Iterator<Item = &'f Figure>) -> Figure {
    let mut rounds: Vec<&Figure> = rounds.collect();
    rounds.sort_by(|one, other| one.value.total_cmp(&other.value));
    rounds[rounds.len() / 2].clone()
}

/// Seconds that a thread of this process has been on a processor.
fn cpu_of(thread: &str) -> f64 {
    let times = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    let nanos = times.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok());
    nanos.expect("Linux tells how long a thread ran") as f64 / 1e9
}

fn own_thread() -> String {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_string_lossy().into_owned()
}

/// Seconds on a processor that some work of this thread takes, and what came of it.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let thread = own_thread();
    let begin = cpu_of(&thread);
    let result = work();
    (cpu_of(&thread) - begin, result)
}

/// The most memory that this process had, in MiB.
pub(crate) fn peak_mebibytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kibibytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes / 1024.0
}

/// Seconds on a processor that each part of a simulation took: samples each millisecond, each counted with the time that
/// the simulating thread ran since the last one.
pub(crate) fn parts(probe: &Probe, work: impl FnOnce()) -> Vec<(Part, f64)> {
    let (done, thread, seen) = (Arc::new(AtomicBool::new(false)), own_thread(), probe.clone());
    let stop = Arc::clone(&done);
    let sampler = std::thread::spawn(move || {
        let mut times = Part::ALL.map(|part| (part, 0.0));
        let mut last = cpu_of(&thread);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
            let now = cpu_of(&thread);
            times[seen.part() as usize].1 += now - std::mem::replace(&mut last, now);
        }
        times.to_vec()
    });
    work();
    done.store(true, Ordering::Relaxed);
    sampler.join().unwrap()
}
