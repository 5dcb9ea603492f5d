//! Durations of ISO 8601 and moments of RFC 3339, as requests for tokens write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::calendar;

/// Of either number, more than any token needs.
const DIGITS_MAX: usize = 9;

/// A duration of days, hours, minutes and seconds in whole numbers, such as `PT60M` or `P1DT12H`; in capitals or not.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let (days, time) = text.strip_prefix('P')?.split_once('T').map_or_else(
        || (text[1..].to_owned(), String::new()),
        |(days, time)| (days.to_owned(), time.to_owned()),
    );
    if days.is_empty() && time.is_empty() || text.ends_with('T') {
        return None;
    }
    let days = amounts(&days, &[('W', 7 * 86_400), ('D', 86_400)])?;
    let time = amounts(&time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    Some(Duration::from_secs(days + time))
}

/// Numbers with units, each unit at most once and in this order; seconds.
fn amounts(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut seconds = 0;
    let mut units = units.iter();
    while !text.is_empty() {
        let end = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next()?;
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        seconds += whole(number)? * factor;
        text = &rest[unit.len_utf8()..];
    }
    Some(seconds)
}

/// A moment of RFC 3339, such as `2026-11-22T12:00:00.5+01:00`; fractions of a second are dropped.
pub fn timestamp(text: &str) -> Option<SystemTime> {
    let (date, time) = text.split_once(['T', 't'])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let clock = match clock.split_once('.') {
        Some((clock, fraction)) => whole(fraction).and(Some(clock))?,
        None => clock,
    };
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let local = calendar::days(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = match zone.split_at(1) {
        ("Z" | "z", "") => local,
        // East of Greenwich it is later.
        ("+", offset) => local.checked_sub(self::offset(offset)?)?,
        ("-", offset) => local + self::offset(offset)?,
        _ => return None,
    };
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Seconds in `hh:mm`.
fn offset(text: &str) -> Option<u64> {
    let [hours, minutes] = numbers(text, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        *number = parts.next().filter(|part| part.len() == digits).and_then(whole)?;
    }
    parts.next().is_none().then_some(numbers)
}

fn whole(text: &str) -> Option<u64> {
    let good = (1..=DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    good.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A token would live for another time than was asked for.
    #[test]
    fn durations_are_read() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text), expected.map(Duration::from_secs), "{text}");
        };
        check("PT60M", Some(3600));
        check("PT48h", Some(48 * 3600));
        check("P1DT2H3M4S", Some(86_400 + 7384));
        check("P1W", Some(7 * 86_400));
        check("PT0S", Some(0));
        for bad in [
            "",
            "P",
            "PT",
            "P1DT",
            "60",
            "PT60",
            "PTM",
            "PT1M1H",
            "PT1H1H",
            "P1H",
            "PT1D",
            "P1M",
            "P1Y",
            "PT-1M",
            "PT1.5H",
            "PT9999999999S",
            "P1D ",
            "PT1Ä",
            "T1H",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn moments_with_zones_are_read() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(
                timestamp(text),
                expected.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds)),
                "{text}"
            );
        };
        check("1970-01-01T00:00:00Z", Some(0));
        check("2026-11-22T12:00:00.123Z", Some(1_795_348_800));
        check("2026-11-22t13:00:00+01:00", Some(1_795_348_800));
        check("2026-11-22T07:30:00-04:30", Some(1_795_348_800));
        check("2024-02-29T00:00:00z", Some(1_709_164_800));
        for bad in [
            "",
            "2026-11-22",
            "2026-11-22T12:00:00",
            "2026-13-22T12:00:00Z",
            "2026-11-22T24:00:00Z",
            "26-11-22T12:00:00Z",
            "2026-11-22T12:00Z",
            "2026-11-22T12:00:00Zx",
            "2026-11-22T12:00:00+1:00",
            "1969-12-31T23:59:59Z",
            "2026-11-00T12:00:00Z",
            "2026-11-22T12:00:00.Z",
            "0000-01-01T00:00:00Z",
        ] {
            check(bad, None);
        }
    }

    proptest! {
        /// The end of a token would be a day off in some year.
        #[test]
        fn a_written_value_reads_back(seconds in 0_u64..18_000_000_000) {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            prop_assert_eq!(timestamp(&crate::Timestamp::from(time).rfc3339_seconds()), Some(time));
        }
    }
}
