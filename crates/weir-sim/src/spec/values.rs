//! Values of the `[sim]` tables, within their bounds.

use std::time::Duration;

use weir_model::file::{Refusal, Section};
use weir_units::BitRate;

use super::keys::CHANGE;

/// Largest rate anywhere: 1 Pb/s, as for asked rates.
const RATE_MAX: BitRate = BitRate(1_000_000_000_000_000);
/// Largest number of anything.
const NUMBER_MAX: u32 = 1_000_000;
/// Longest time: a year.
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The shortest time between steps of which a run has as many as fit: a year has 315 million.
const STEP_MIN: Duration = Duration::from_millis(100);
/// The longest tick.
const TICK_MAX: Duration = Duration::from_secs(60);

pub(super) fn refuse_above<T: PartialOrd + std::fmt::Display>(value: &T, most: &T) -> Result<(), Refusal> {
    if value > most {
        return Err(Refusal::new(
            format!("{value} is too large"),
            format!("write at most {most}"),
        ));
    }
    Ok(())
}

pub(super) fn rate(table: &Section<'_>, key: &str) -> Option<BitRate> {
    table.checked(key, |rate| refuse_above(rate, &RATE_MAX))
}

/// A rate that something needs to be able to carry anything.
pub(super) fn capacity(table: &Section<'_>, key: &str) -> Option<BitRate> {
    table.checked(key, |rate: &BitRate| match *rate {
        BitRate::ZERO => Err(Refusal::new(
            "carries nothing",
            "write a rate above zero; for a time without bytes use outages or changes",
        )),
        rate => refuse_above(&rate, &RATE_MAX),
    })
}

pub(super) fn number(table: &Section<'_>, key: &str) -> Option<u32> {
    table.checked(key, |number: &u32| match *number {
        0 => Err(Refusal::new("must be above zero", "write 1 or more")),
        number => refuse_above(&number, &NUMBER_MAX),
    })
}

pub(super) fn share(table: &Section<'_>, key: &str) -> Option<f64> {
    table.checked(key, |share: &f64| {
        if (0.0..=1.0).contains(share) {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{share} is not a share"),
            "write a number from 0 to 1",
        ))
    })
}

pub(super) fn spread(table: &Section<'_>) -> Option<f64> {
    spread_of(table, "spread")
}

pub(super) fn spread_of(table: &Section<'_>, key: &str) -> Option<f64> {
    table.checked(key, |spread: &f64| {
        if (0.0..=100.0).contains(spread) {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{spread} is not a spread"),
            "write a number from 0 to 100",
        ))
    })
}

pub(super) fn above_zero(table: &Section<'_>, key: &str) -> Option<f64> {
    table.checked(key, |number: &f64| {
        if *number > 0.0 && *number <= 1e9 {
            return Ok(());
        }
        Err(Refusal::new(
            format!("{number} is out of range"),
            "write a number above 0 and up to 1000000000",
        ))
    })
}

pub(super) fn check_time(time: &Duration) -> Result<(), Refusal> {
    if *time > TIME_MAX {
        return Err(Refusal::new("is longer than a year", "write at most \"366 d\""));
    }
    Ok(())
}

pub(super) fn time(table: &Section<'_>, key: &str) -> Option<Duration> {
    table.checked(key, check_time)
}

pub(super) fn positive_time(table: &Section<'_>, key: &str) -> Option<Duration> {
    table.checked(key, |time: &Duration| {
        if time.is_zero() {
            return Err(Refusal::new("must be above zero", "write a duration such as \"1 s\""));
        }
        check_time(time)
    })
}

/// A time between steps that a whole run is made of: shorter ones would make more steps than can be taken.
pub(super) fn step(table: &Section<'_>, key: &str) -> Option<Duration> {
    table.checked(key, check_step)
}

pub(super) fn zero_or_step(table: &Section<'_>, key: &str) -> Option<Duration> {
    table.checked(
        key,
        |time: &Duration| if time.is_zero() { Ok(()) } else { check_step(time) },
    )
}

pub(super) fn check_step(time: &Duration) -> Result<(), Refusal> {
    if *time < STEP_MIN {
        let least = weir_units::duration::format(STEP_MIN);
        return Err(Refusal::new("is too short", format!("write at least \"{least}\"")));
    }
    check_time(time)
}

pub(super) fn check_tick(time: &Duration) -> Result<(), Refusal> {
    if *time > TICK_MAX {
        let most = weir_units::duration::format(TICK_MAX);
        let message = "is so long that transfers begin and end in one tick";
        return Err(Refusal::new(message, format!("write at most \"{most}\"")));
    }
    Ok(())
}

/// Reports a missing key; its value is checked elsewhere.
pub(super) fn required(entry: &Section<'_>, key: &str) {
    if !entry.has(key) {
        entry.miss(key, format!("add {key}"));
    }
}

pub(super) fn changes(entry: &Section<'_>) -> Vec<(Duration, BitRate)> {
    let mut changes = Vec::new();
    for change in entry.tables("changes", &CHANGE) {
        required(&change, "at");
        required(&change, "capacity");
        if let (Some(at), Some(capacity)) = (time(&change, "at"), rate(&change, "capacity")) {
            changes.push((at, capacity));
        }
    }
    changes.sort_unstable();
    changes
}
