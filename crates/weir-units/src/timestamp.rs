//! Moments in time, wall clock or virtual.
#![allow(clippy::disallowed_types)] // converts the system's type from and to ours; reads no clock

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::calendar::{date, days};
use crate::quantity;

/// A moment: nanoseconds since the Unix epoch, or since zero in virtual time.
///
/// Reaches to the year 2554. Sums and differences saturate. In serde it is an integer of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The epoch; the start of virtual time.
    pub const ZERO: Timestamp = Timestamp(0);

    /// Gives the moment `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp(millis.saturating_mul(1_000_000))
    }

    /// Gives the moment `seconds` seconds after the epoch.
    pub const fn from_secs(seconds: u64) -> Timestamp {
        Timestamp(seconds.saturating_mul(1_000_000_000))
    }

    /// Gives the time passed since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Gives whole milliseconds since the epoch, rounded down.
    pub fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Gives seconds since the epoch, for figures only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Reads a moment in UTC as RFC 3339 writes it, in whole seconds: `2024-02-12T00:00:00Z`. `None` for anything else, other
    /// time zones, leap seconds and moments before 1970 or after 2554 included.
    pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let parts: Vec<&str> = date.split('-').chain(time.split(':')).collect();
        let [year, month, day, hour, minute, second] = parts[..] else {
            return None;
        };
        let days = days(digits(year, 4)?, digits(month, 2)?, digits(day, 2)?)?;
        let of_day = digits(hour, 2)? * 3_600 + digits(minute, 2)? * 60 + digits(second, 2)?;
        let seconds = (days * 86_400).checked_add(of_day)?;
        let moment = Timestamp(seconds.checked_mul(1_000_000_000)?);
        // A date that prints differently does not exist: a 30 February, or a 25th hour.
        (moment.rfc3339().strip_suffix(".000Z") == text.strip_suffix('Z')).then_some(moment)
    }

    /// Writes the moment as RFC 3339 in UTC with milliseconds: `2024-12-09T12:00:00.000Z`.
    pub fn rfc3339(self) -> String {
        format!("{}.{:03}Z", self.to_second(), self.0 / 1_000_000 % 1_000)
    }

    /// Writes the moment as RFC 3339 in UTC in whole seconds, rounded down: `2024-12-09T12:00:00Z`.
    pub fn rfc3339_seconds(self) -> String {
        format!("{}Z", self.to_second())
    }

    /// Writes the moment as RFC 3339 with microseconds and a numeric offset: `2024-12-09T12:00:00.000000+00:00`.
    pub fn rfc3339_micros(self) -> String {
        format!("{}.{:06}+00:00", self.to_second(), self.0 / 1_000 % 1_000_000)
    }

    fn to_second(self) -> String {
        let seconds = self.0 / 1_000_000_000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

/// Reads a whole number of so many digits.
fn digits(text: &str, count: usize) -> Option<u64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Display for Timestamp {
    /// Writes seconds since the epoch, exactly: `12.5 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} s", quantity::exact(self.0, 1_000_000_000)))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(nanos(duration)))
    }
}

impl From<SystemTime> for Timestamp {
    /// Takes a moment before the epoch as the epoch.
    fn from(time: SystemTime) -> Timestamp {
        Timestamp(time.duration_since(UNIX_EPOCH).map_or(0, nanos))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(timestamp: Timestamp) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(timestamp.0)
    }
}
