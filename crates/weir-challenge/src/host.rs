//! What the machine is and how busy it is, read from the kernel.

use std::path::Path;

use weir_measure::report::Host;

/// Describes the machine; `scratch` is where the data areas are.
pub(crate) fn describe(scratch: &Path) -> Host {
    let names = rustix::system::uname();
    Host {
        name: names.nodename().to_string_lossy().into_owned(),
        cores: cores(),
        memory_bytes: memory().unwrap_or(0),
        kernel: format!(
            "{} {}",
            names.sysname().to_string_lossy(),
            names.release().to_string_lossy()
        ),
        scratch_filesystem: filesystem(scratch).unwrap_or_else(|| "unknown".to_owned()),
        cpu_busy_ratio: None,
    }
}

/// Returns the processors that this process may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Returns the bytes that an ordinary user can still write to the file system of a path.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    let status = rustix::fs::statvfs(path).ok()?;
    status.f_bavail.checked_mul(status.f_frsize)
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Finds the file system whose mount point is the longest prefix of the path.
fn filesystem(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            let (_device, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            path.starts_with(point).then(|| (point.len(), kind.to_owned()))
        })
        // The last of equals is mounted over the ones before.
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

/// Processor time of the whole machine since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorTime {
    busy: u64,
    all: u64,
}

impl ProcessorTime {
    /// Reads the kernel's counters.
    pub(crate) fn now() -> Option<Self> {
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

    /// Returns the share of processor time used since an earlier reading, 0 to 1.
    pub(crate) fn busy_since(self, earlier: Self) -> Option<f64> {
        weir_measure::report::ratio(
            self.busy.saturating_sub(earlier.busy),
            self.all.saturating_sub(earlier.all),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_what_is_not_idle() {
        // Wrong: waiting for a disk counts as busy, or guest time counts twice.
        let earlier = ProcessorTime::parse("cpu  10 0 10 100 20 0 0 0 5 0\ncpu0 1 2\n").expect("a line");
        let later = ProcessorTime::parse("cpu  40 0 20 130 40 0 0 0 9 0\n").expect("a line");
        assert_eq!((earlier.busy, earlier.all), (20, 140));
        assert_eq!(later.busy_since(earlier), Some(40.0 / 90.0));
        assert_eq!(ProcessorTime::parse("intr 1"), None);
    }

    #[test]
    fn the_machine_is_described() {
        let host = describe(Path::new("/proc"));
        assert_eq!(host.scratch_filesystem, "proc");
        assert!(host.cores > 0 && host.memory_bytes > 0 && host.kernel.starts_with("Linux "));
    }
}
