//! Advice for the owner of a machine that is too weak for a run.

use crate::report::Host;
use weir_units::BitRate;

/// Ratio below which a run fell short.
const SHORT: f64 = 0.95;

/// Share of failures above which falling short has another cause than a weak machine.
const FAILED_MAX: f64 = 0.02;

/// Shares of the hold from which on a machine's own processors, disks or memory may have held the run back. They are processors in use, and
/// everything waiting for a disk or for memory.
const STRAINED: [f64; 3] = [0.85, 0.2, 0.1];

/// Returns the advice for a run that asked for `asked` bit/s at `scale` and achieved `achieved`.
///
/// `None` when the run did not fall short, when failures explain it, or when no figure shows the machine at its limits:
/// then the bottleneck is elsewhere.
pub fn weak_machine(scale: f64, asked: BitRate, achieved: BitRate, failed_ratio: f64, host: &Host) -> Option<String> {
    let ratio = crate::report::ratio(achieved.0, asked.0)?;
    if ratio >= SHORT || failed_ratio > FAILED_MAX || achieved == BitRate::ZERO {
        return None;
    }
    Some(format!(
        "carries {} of {} with {}; try --scale {}",
        number(achieved.0, asked.0),
        rate(asked),
        strain(host)?,
        round_down(scale * ratio)
    ))
}

/// Says which of a machine's own means were at their limits.
fn strain(host: &Host) -> Option<String> {
    let measured = [host.cpu_busy_ratio, host.disk_stalled_ratio, host.memory_stalled_ratio];
    let words = [
        "its processors busy",
        "all work waiting for its disk",
        "all work waiting for memory",
    ];
    let told = measured
        .into_iter()
        .zip(STRAINED)
        .zip(words)
        .filter_map(|((share, limit), words)| {
            let share = share.filter(|share| *share >= limit)?;
            Some(format!("{words} {:.0} % of the time", share * 100.0))
        });
    told.reduce(|all, one| format!("{all} and {one}"))
}

/// Writes a rate with two digits in the largest unit that fits: `1.3 Gb/s`, `850 Mb/s`.
pub fn rate(rate: BitRate) -> String {
    format!("{} {}", number(rate.0, rate.0), unit(rate.0).1)
}

fn unit(bps: u64) -> (u64, &'static str) {
    match bps {
        1_000_000_000_000.. => (1_000_000_000_000, "Tb/s"),
        1_000_000_000.. => (1_000_000_000, "Gb/s"),
        1_000_000.. => (1_000_000, "Mb/s"),
        1_000.. => (1_000, "kb/s"),
        _ => (1, "b/s"),
    }
}

/// Writes `bps` in the unit of `like`.
#[expect(clippy::cast_precision_loss, reason = "written with two digits")]
fn number(bps: u64, like: u64) -> String {
    let value = bps as f64 / unit(like).0 as f64;
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Rounds a positive number down to one significant digit and writes it without exponent.
fn round_down(value: f64) -> String {
    let (mut digit, mut decimals) = (value, 0);
    while digit < 1.0 && decimals < 12 {
        digit *= 10.0;
        decimals += 1;
    }
    let mut zeros = 0;
    while digit >= 10.0 {
        digit /= 10.0;
        zeros += 1;
    }
    let digit = digit.floor();
    if decimals > 0 {
        format!("0.{:0>decimals$}", format!("{digit:.0}"))
    } else {
        format!("{digit:.0}{}", "0".repeat(zeros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_scale_that_fits() {
        // Wrong: the owner of a weak machine is advised a scale that cannot work.
        let busy = host(Some(0.97), None, None);
        let advice = weak_machine(0.01, BitRate(1_310_000_000), BitRate(806_000_000), 0.0, &busy);
        assert_eq!(
            advice.as_deref(),
            Some("carries 0.8 of 1.3 Gb/s with its processors busy 97 % of the time; try --scale 0.006")
        );
        let slow = host(Some(0.9), Some(0.4), Some(0.01));
        let advice = weak_machine(1.0, BitRate(131_000_000_000), BitRate(2_000_000_000), 0.0, &slow);
        assert_eq!(
            advice.as_deref(),
            Some(
                "carries 2.0 of 131 Gb/s with its processors busy 90 % of the time and all work waiting for its disk 40 % of the time; \
                 try --scale 0.01"
            )
        );
        assert_eq!(
            weak_machine(0.01, BitRate(1_310_000_000), BitRate(1_300_000_000), 0.0, &busy),
            None
        );
        assert_eq!(
            weak_machine(0.01, BitRate(1_310_000_000), BitRate(300_000_000), 0.5, &busy),
            None
        );
        assert_eq!(weak_machine(0.01, BitRate(0), BitRate(0), 0.0, &busy), None);
    }

    #[test]
    fn a_machine_with_time_to_spare_is_not_called_weak() {
        // Wrong: a throttled remote storage is laid to the machine that asked it.
        for idle in [host(Some(0.5), Some(0.01), Some(0.0)), host(None, None, None)] {
            assert_eq!(
                weak_machine(1.0, BitRate(1_000_000_000), BitRate(300_000_000), 0.0, &idle),
                None
            );
        }
    }

    fn host(cpu: Option<f64>, disk: Option<f64>, memory: Option<f64>) -> Host {
        Host {
            name: "here".to_owned(),
            cores: 2,
            memory_bytes: 0,
            kernel: String::new(),
            scratch_filesystem: String::new(),
            cpu_busy_ratio: cpu,
            disk_stalled_ratio: disk,
            memory_stalled_ratio: memory,
        }
    }

    #[test]
    fn rounds_down_to_one_digit() {
        // Wrong: the advised scale is above the carried one, or unreadable.
        for (value, text) in [
            (0.0099, "0.009"),
            (0.01, "0.01"),
            (0.56, "0.5"),
            (1.9, "1"),
            (37.0, "30"),
            (0.1, "0.1"),
        ] {
            assert_eq!(round_down(value), text);
        }
    }

    #[test]
    fn writes_rates_with_their_unit() {
        for (bps, text) in [
            (0, "0.0 b/s"),
            (1_310_000_000, "1.3 Gb/s"),
            (850_000_000, "850 Mb/s"),
            (1_500, "1.5 kb/s"),
        ] {
            assert_eq!(rate(BitRate(bps)), text);
        }
    }
}
