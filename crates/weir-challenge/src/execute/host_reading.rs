//! The kernel's counters of this machine, and what they say of the time between two readings. A counter that the kernel does not have
//! is unknown, never zero.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_http::ProcessorTime;
use weir_world::Gauge;

/// Width of the unit of `/proc/diskstats`' times.
const MILLI: f64 = 1e-3;

/// The counters at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostReading {
    pub(crate) processors: Option<ProcessorTime>,
    /// Time that something, or everything, was stalled, by the gauge that shows it.
    pub(crate) stalled: BTreeMap<Gauge, Duration>,
    /// Milliseconds in which each disk had requests.
    pub(crate) disks: BTreeMap<String, u64>,
    /// Bytes received and sent by each interface.
    pub(crate) interfaces: BTreeMap<String, [u64; 2]>,
}

/// A value, and the part of the host that it is of; empty for the host itself.
pub(crate) type HostGauge = (Gauge, String, f64);

impl HostReading {
    pub(crate) fn now() -> Self {
        Self::of(|path| std::fs::read_to_string(path).ok())
    }

    /// A reading of the files that there are.
    fn of(read: impl Fn(&str) -> Option<String>) -> Self {
        let mut stalled = BTreeMap::new();
        for (file, some, full) in [
            ("cpu", Gauge::CpuStalled, None),
            ("io", Gauge::IoStalled, Some(Gauge::IoBlocked)),
            ("memory", Gauge::MemoryStalled, Some(Gauge::MemoryBlocked)),
        ] {
            let text = read(&format!("/proc/pressure/{file}")).unwrap_or_default();
            stalled.extend(pressure(&text, "some").map(|time| (some, time)));
            stalled.extend(full.zip(pressure(&text, "full")));
        }
        let is_disk = |name: &str| std::path::Path::new("/sys/block").join(name).exists();
        Self {
            processors: ProcessorTime::now(),
            stalled,
            disks: disks(&read("/proc/diskstats").unwrap_or_default(), is_disk),
            interfaces: interfaces(&read("/proc/self/net/dev").unwrap_or_default()),
        }
    }

    /// The gauges since an earlier reading, this time ago. A counter that fell began anew: nothing is known of that time.
    pub(crate) fn since(&self, before: &Self, passed: Duration) -> Vec<HostGauge> {
        let seconds = passed.as_secs_f64();
        if seconds <= 0.0 {
            return Vec::new();
        }
        let mut gauges = Vec::new();
        let busy = self.processors.zip(before.processors);
        if let Some(share) = busy.and_then(|(now, before)| now.busy_since(before)) {
            gauges.push((Gauge::CpuBusy, String::new(), share));
        }
        for (gauge, stalled) in &self.stalled {
            let more = before
                .stalled
                .get(gauge)
                .and_then(|before| stalled.checked_sub(*before));
            gauges.extend(more.map(|more| (*gauge, String::new(), share(more.as_secs_f64(), seconds))));
        }
        for (disk, busy) in &self.disks {
            let more = before.disks.get(disk).and_then(|before| busy.checked_sub(*before));
            gauges.extend(more.map(|more| (Gauge::DiskBusy, disk.clone(), share(more as f64 * MILLI, seconds))));
        }
        for (interface, bytes) in &self.interfaces {
            let Some(earlier) = before.interfaces.get(interface) else {
                continue;
            };
            for (gauge, (now, earlier)) in [Gauge::Received, Gauge::Sent]
                .into_iter()
                .zip(bytes.iter().zip(earlier))
            {
                let more = now.checked_sub(*earlier);
                gauges.extend(more.map(|more| (gauge, interface.clone(), more as f64 * 8.0 / seconds)));
            }
        }
        gauges
    }
}

/// Clocks of counters and ours differ by little.
fn share(part: f64, whole: f64) -> f64 {
    (part / whole).min(1.0)
}

/// The time in which something (`some`) or everything (`full`) was stalled, from a file of pressure stall information
/// (Documentation/accounting/psi.rst of Linux).
pub(crate) fn pressure(text: &str, kind: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
    let total = line.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// Milliseconds with requests (field 13, Documentation/admin-guide/iostats.rst) of the disks that had any; partitions are left out.
fn disks(text: &str, is_disk: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let disk = |line: &str| {
        let mut fields = line.split_whitespace().skip(2);
        let name = fields.next()?;
        let busy: u64 = fields.nth(9)?.parse().ok()?;
        let is_made_up = ["loop", "ram", "zram"].iter().any(|kind| name.starts_with(kind));
        (busy > 0 && !is_made_up && is_disk(name)).then(|| (name.to_owned(), busy))
    };
    text.lines().filter_map(disk).collect()
}

/// Bytes received and sent by each interface that carried any.
fn interfaces(text: &str) -> BTreeMap<String, [u64; 2]> {
    let interface = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace();
        let received: u64 = numbers.next()?.parse().ok()?;
        let sent: u64 = numbers.nth(7)?.parse().ok()?;
        (received + sent > 0).then(|| (name.trim().to_owned(), [received, sent]))
    };
    text.lines().filter_map(interface).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "quotients of round numbers")]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_kernel_without_pressure_files_tells_no_stalls() {
        // Wrong: a host that does not measure its stalls is shown as one without any.
        let reading = |received: u64| {
            HostReading::of(|path| match path {
                "/proc/self/net/dev" => Some(format!("x\ny\n  lo: {received} 0 0 0 0 0 0 0 0 0\n")),
                _ => None,
            })
        };
        let gauges = reading(9).since(&reading(1), Duration::from_secs(1));
        let is_stall = |gauge: &Gauge| gauge.as_str().ends_with("stalled") || gauge.as_str().ends_with("blocked");
        assert!(gauges.iter().any(|(gauge, ..)| *gauge == Gauge::Received), "{gauges:?}");
        assert!(!gauges.iter().any(|(gauge, ..)| is_stall(gauge)), "{gauges:?}");
    }

    #[test]
    fn pressure_is_read_by_kind() {
        let text = "some avg10=0.21 avg60=0.33 avg300=0.68 total=368081285\nfull avg10=0.01 avg60=0.15 avg300=0.43 total=201717069\n";
        assert_eq!(pressure(text, "some"), Some(Duration::from_micros(368_081_285)));
        assert_eq!(pressure(text, "full"), Some(Duration::from_micros(201_717_069)));
        for wrong in ["", "some avg10=0.21", "some total=x", "\0\0"] {
            assert_eq!(pressure(wrong, "some"), None, "{wrong:?}");
        }
    }

    #[test]
    fn partitions_and_made_up_disks_are_left_out() {
        // Wrong: the time of one disk is shown twice, once for its partition.
        let text = "   7       0 loop0 11 0 28 0 0 0 0 0 0 8 0 0 0 0 0 0 0\n 254       0 vda 4711 1 2 3 4 5 6 7 0 1234 99\n\
            254       1 vda1 4711 1 2 3 4 5 6 7 0 1230 99\n 254      16 vdb 0 0 0 0 0 0 0 0 0 0 0\nhalf a line\n";
        let found = disks(text, |name| name != "vda1");
        assert_eq!(found, BTreeMap::from([("vda".to_owned(), 1234)]));
    }

    #[test]
    fn interfaces_are_read_by_their_columns() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo: 1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0\n  \
            eth0:7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth1: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let found = interfaces(text);
        assert_eq!(
            found,
            BTreeMap::from([("lo".to_owned(), [1000, 1000]), ("eth0".to_owned(), [7, 9])])
        );
    }

    #[test]
    fn a_counter_that_fell_or_is_new_tells_nothing() {
        // Wrong: an interface that was taken down and up shows more than the machine can carry.
        let reading = |disk: u64, bytes: u64, stalled: u64| HostReading {
            stalled: BTreeMap::from([(Gauge::IoStalled, Duration::from_secs(stalled))]),
            disks: BTreeMap::from([("vda".to_owned(), disk)]),
            interfaces: BTreeMap::from([("eth0".to_owned(), [bytes, bytes / 2])]),
            ..HostReading::default()
        };
        let before = reading(1_000, 1_000, 7);
        let text = |gauges: Vec<HostGauge>| {
            let text = |(gauge, part, value): HostGauge| format!("{gauge} {part} {value}");
            gauges.into_iter().map(text).collect::<Vec<_>>()
        };
        let after = reading(6_000, 11_000, 12).since(&before, 10 * SECOND);
        assert_eq!(
            text(after),
            [
                "io-stalled  0.5",
                "disk-busy vda 0.5",
                "received eth0 8000",
                "sent eth0 4000"
            ]
        );
        assert_eq!(text(reading(0, 0, 0).since(&before, SECOND)), [""; 0]);
        assert_eq!(text(before.since(&HostReading::default(), SECOND)), [""; 0]);
        assert_eq!(text(before.since(&before, Duration::ZERO)), [""; 0]);
        // A machine without any of these files tells nothing.
        assert_eq!(
            text(HostReading::default().since(&HostReading::default(), SECOND)),
            [""; 0]
        );
    }
}
