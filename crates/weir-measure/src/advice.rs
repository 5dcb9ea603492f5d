//! Tells the owner of a machine that is too weak what it can carry.

/// Ratio below which a run fell short.
const SHORT: f64 = 0.95;

/// Share of failures above which falling short has another cause than a weak machine.
const FAILED_MAX: f64 = 0.02;

/// Returns the advice for a run that asked for `asked` bit/s at `scale` and achieved `achieved`; `None` when it did not
/// fall short, or when failures explain it.
pub fn weak_machine(scale: f64, asked: u64, achieved: u64, failed_ratio: f64) -> Option<String> {
    let ratio = crate::report::ratio(achieved, asked)?;
    if ratio >= SHORT || failed_ratio > FAILED_MAX || achieved == 0 {
        return None;
    }
    Some(format!(
        "carries {} of {}; try --scale {}",
        number(achieved, asked),
        rate(asked),
        round_down(scale * ratio)
    ))
}

/// Writes a rate with two digits in the largest unit that fits: `1.3 Gb/s`, `850 Mb/s`.
pub fn rate(bps: u64) -> String {
    format!("{} {}", number(bps, bps), unit(bps).1)
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
        // Wrong: the owner of a weak machine is told to try what cannot work.
        let advice = weak_machine(0.01, 1_310_000_000, 806_000_000, 0.0);
        assert_eq!(advice.as_deref(), Some("carries 0.8 of 1.3 Gb/s; try --scale 0.006"));
        let advice = weak_machine(1.0, 131_000_000_000, 2_000_000_000, 0.0);
        assert_eq!(advice.as_deref(), Some("carries 2.0 of 131 Gb/s; try --scale 0.01"));
        assert_eq!(weak_machine(0.01, 1_310_000_000, 1_300_000_000, 0.0), None);
        assert_eq!(weak_machine(0.01, 1_310_000_000, 300_000_000, 0.5), None);
        assert_eq!(weak_machine(0.01, 0, 0, 0.0), None);
    }

    #[test]
    fn rounds_down_to_one_digit() {
        // Wrong: the advised scale is above what was carried, or unreadable.
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
            assert_eq!(rate(bps), text);
        }
    }
}
