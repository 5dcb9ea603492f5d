//! Rates of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::Bytes;
use crate::quantity::{self, Kind, ParseError};

/// A rate in bits per second.
///
/// Reads `44 Gb/s`, `1.5 Mb/s`, `10 Gbit/s`, `10 Gbps`, and bytes per second as storage people write them (`7 GB/s`,
/// eight times as many bits); the unit is required. Prints exactly in bits, or rounded where a precision is given. In
/// serde it is written as an integer of bits per second and read from a text only, so that no rate enters without unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

const K: u128 = 1_000;
const M: u128 = 1_000_000;
const G: u128 = 1_000_000_000;
const T: u128 = 1_000_000_000_000;
const P: u128 = 1_000_000_000_000_000;

const KIND: Kind = Kind {
    what: "rate",
    example_unit: "Gb/s",
    finest: "1 b/s",
    units: &[
        ("b/s", 1),
        ("kb/s", K),
        ("Mb/s", M),
        ("Gb/s", G),
        ("Tb/s", T),
        ("Pb/s", P),
        ("bit/s", 1),
        ("kbit/s", K),
        ("Mbit/s", M),
        ("Gbit/s", G),
        ("Tbit/s", T),
        ("bps", 1),
        ("kbps", K),
        ("Mbps", M),
        ("Gbps", G),
        ("Tbps", T),
        ("B/s", 8),
        ("kB/s", 8 * K),
        ("MB/s", 8 * M),
        ("GB/s", 8 * G),
        ("TB/s", 8 * T),
        ("KiB/s", 8 << 10),
        ("MiB/s", 8 << 20),
        ("GiB/s", 8 << 30),
        ("TiB/s", 8 << 40),
    ],
    shown: "b/s, kb/s, Mb/s, Gb/s, Tb/s (bits) or MB/s, GB/s (bytes)",
};

const PRINTED: &[(&str, u64)] = &[
    ("Pb/s", 1_000_000_000_000_000),
    ("Tb/s", 1_000_000_000_000),
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("b/s", 1),
];

/// Nanoseconds per second × bits per byte: bits/s × ns ÷ this = bytes.
const BIT_NANOS_PER_BYTE: u128 = 8_000_000_000;

impl BitRate {
    /// No rate at all.
    pub const ZERO: BitRate = BitRate(0);

    /// Gives the whole bytes that pass in `time`, rounded down.
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0).saturating_mul(time.as_nanos()) / BIT_NANOS_PER_BYTE;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Gives the time that `volume` needs, rounded up to the next nanosecond; `None` if the rate is zero.
    pub fn time_for(self, volume: Bytes) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let nanos = (u128::from(volume.0) * BIT_NANOS_PER_BYTE).div_ceil(u128::from(self.0));
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
    }

    /// Gives the mean rate of `volume` over `time`, rounded down; zero if no time has passed.
    pub fn of(volume: Bytes, time: Duration) -> BitRate {
        let rate = (u128::from(volume.0) * BIT_NANOS_PER_BYTE).checked_div(time.as_nanos());
        BitRate(u64::try_from(rate.unwrap_or(0)).unwrap_or(u64::MAX))
    }

    /// Multiplies by a factor and rounds to the nearest bit per second; negative and undefined factors give zero.
    #[must_use]
    pub fn scale(self, factor: f64) -> BitRate {
        BitRate((self.0 as f64 * factor).round() as u64)
    }

    /// Writes it with three digits, for people: `1.31 Gb/s`.
    ///
    /// ```
    /// use weir_units::BitRate;
    /// assert_eq!(BitRate(9_996_000_000).three_digits(), "10.0 Gb/s");
    /// assert_eq!(BitRate(850).three_digits(), "850 b/s");
    /// ```
    pub fn three_digits(self) -> String {
        let mut unit = 1;
        while self.0 / unit >= 1_000 {
            unit *= 1_000;
        }
        // 9.996 is written 10.0, not 10.00.
        let decimals = match u128::from(self.0) * 1_000 / u128::from(unit) {
            _ if unit == 1 => 0,
            0..9_995 => 2,
            9_995..99_950 => 1,
            _ => 0,
        };
        format!("{self:.decimals$}")
    }

    /// Gives bits per second as `f64`, for figures only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl FromStr for BitRate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<BitRate, ParseError> {
        KIND.parse(text).map(BitRate)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quantity::write(f, self.0, PRINTED)
    }
}

impl Add for BitRate {
    type Output = BitRate;
    fn add(self, other: BitRate) -> BitRate {
        BitRate(self.0.saturating_add(other.0))
    }
}

impl AddAssign for BitRate {
    fn add_assign(&mut self, other: BitRate) {
        *self = *self + other;
    }
}

impl Sub for BitRate {
    type Output = BitRate;
    fn sub(self, other: BitRate) -> BitRate {
        BitRate(self.0.saturating_sub(other.0))
    }
}

impl Sum for BitRate {
    fn sum<I: Iterator<Item = BitRate>>(items: I) -> BitRate {
        items.fold(BitRate::ZERO, Add::add)
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BitRate, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

struct RateVisitor;

impl de::Visitor<'_> for RateVisitor {
    type Value = BitRate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rate with its unit, such as \"44 Gb/s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BitRate, E> {
        text.parse()
            .map_err(|error: ParseError| E::custom(format!("{error}; {}", error.remedy())))
    }
}
