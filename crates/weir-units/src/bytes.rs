//! Volumes of data.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::quantity::{self, Kind, ParseError};

/// A number of bytes.
///
/// Reads `5 GB`, `256 kB`, `10 GiB`, `0 B`; the unit is required. Prints exactly (`1.421 GB`), or rounded where a
/// precision is given (`{:.1}` gives `1.4 GB`). In serde it is written as an integer and read from an integer or a text.
/// Sums and differences saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const KIND: Kind = Kind {
    what: "size",
    example_unit: "GB",
    finest: "1 B",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("PB", 1_000_000_000_000_000),
        ("EB", 1_000_000_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("PiB", 1 << 50),
        ("EiB", 1 << 60),
    ],
    shown: "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB",
};

const PRINTED: &[(&str, u64)] = &[
    ("EB", 1_000_000_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl Bytes {
    /// No bytes at all.
    pub const ZERO: Bytes = Bytes(0);

    /// Gives the number as `f64`, for figures only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Multiplies by a factor and rounds to the nearest byte; negative and undefined factors give zero.
    #[must_use]
    pub fn scale(self, factor: f64) -> Bytes {
        Bytes((self.0 as f64 * factor).round() as u64)
    }
}

impl FromStr for Bytes {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        KIND.parse(text).map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quantity::write(f, self.0, PRINTED)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0.saturating_mul(times))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(items: I) -> Bytes {
        items.fold(Bytes::ZERO, Add::add)
    }
}

impl<'a> Sum<&'a Bytes> for Bytes {
    fn sum<I: Iterator<Item = &'a Bytes>>(items: I) -> Bytes {
        items.copied().sum()
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl de::Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"5 GB\", or a whole number of bytes")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Bytes, E> {
        Ok(Bytes(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
        u64::try_from(value)
            .map(Bytes)
            .map_err(|_| E::custom(format!("size {value} is negative")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        text.parse()
            .map_err(|error: ParseError| E::custom(format!("{error}; {}", error.remedy())))
    }
}
