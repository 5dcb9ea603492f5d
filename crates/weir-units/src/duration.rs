//! Durations as people write them: `90 s`, `2h`, `1m30s`, `250 ms`.
//!
//! The type is the standard library's; this module reads and writes it, also for serde:
//! `#[serde(with = "weir_units::duration")]`, and `weir_units::duration::option` for an `Option<Duration>`.

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::quantity::{self, Kind, ParseError};

const SECOND: u128 = 1_000_000_000;

const KIND: Kind = Kind {
    what: "duration",
    example_unit: "s",
    finest: "1 ns",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("sec", SECOND),
        ("m", 60 * SECOND),
        ("min", 60 * SECOND),
        ("h", 3_600 * SECOND),
        ("d", 86_400 * SECOND),
    ],
    shown: "ns, us, ms, s, m, h, d",
};

/// Reads a duration: one or several numbers with units, largest unit first by custom, summed.
///
/// # Errors
/// A number without unit, an unknown unit, a negative number, or more than 584 years.
pub fn parse(input: &str) -> Result<Duration, ParseError> {
    let (mut total, mut rest) = KIND.term(input, input.trim())?;
    while !rest.is_empty() {
        let (more, behind) = KIND.term(input, rest)?;
        total = total.checked_add(more).ok_or_else(|| KIND.too_large(input))?;
        rest = behind;
    }
    Ok(Duration::from_nanos(total))
}

/// Writes a duration exactly, so that [`parse`] gives it back: `250ms`, `1.5s`, `1m30s`, `2h`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_owned();
    }
    for (unit, factor) in [("ns", 1_u64), ("us", 1_000), ("ms", 1_000_000)] {
        if nanos < factor * 1_000 {
            return quantity::exact(nanos, factor) + unit;
        }
    }
    let mut text = String::new();
    let mut rest = nanos;
    for (unit, factor) in [("d", 86_400), ("h", 3_600), ("m", 60)].map(|(unit, s)| (unit, s * 1_000_000_000)) {
        if rest >= factor {
            let _ = write!(text, "{}{unit}", rest / factor);
            rest %= factor;
        }
    }
    if rest > 0 {
        let _ = write!(text, "{}s", quantity::exact(rest, 1_000_000_000));
    }
    text
}

/// Writes the duration as a text.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// Reads the duration from a text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(|error| de::Error::custom(format!("{error}; {}", error.remedy())))
}

/// The same for an `Option<Duration>`; combine it with `#[serde(default)]`.
pub mod option {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    /// Writes the duration as a text, or nothing.
    // serde's `with` asks for this signature.
    #[allow(clippy::ref_option)]
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_some(&super::format(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the duration from a text, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| super::parse(&text))
            .transpose()
            .map_err(serde::de::Error::custom)
    }
}
