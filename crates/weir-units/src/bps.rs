//! Rates in documents that this program writes and reads, such as reports: whole numbers of bits per second.
//!
//! A [`BitRate`] is read from a text with its unit, so that nobody's configuration holds a rate without one. Fields of
//! documents name the unit instead: `#[serde(with = "weir_units::bps")]` on a field `…_bps`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BitRate;

/// Writes a number of bits per second.
///
/// # Errors
/// The serializer cannot write it.
pub fn serialize<S: Serializer>(rate: &BitRate, serializer: S) -> Result<S::Ok, S::Error> {
    rate.0.serialize(serializer)
}

/// Reads a number of bits per second.
///
/// # Errors
/// It is no whole number from 0.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BitRate, D::Error> {
    u64::deserialize(deserializer).map(BitRate)
}

/// A rate that may be unknown: null.
pub mod option {
    use super::{BitRate, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a number of bits per second, or null.
    ///
    /// # Errors
    /// The serializer cannot write it.
    pub fn serialize<S: Serializer>(rate: &Option<BitRate>, serializer: S) -> Result<S::Ok, S::Error> {
        rate.serialize(serializer)
    }

    /// Reads a number of bits per second, or null.
    ///
    /// # Errors
    /// It is neither null nor a whole number from 0.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BitRate>, D::Error> {
        let rate = Option::<u64>::deserialize(deserializer)?;
        Ok(rate.map(BitRate))
    }
}

/// The rates of bins, each of which may be unknown.
pub mod series {
    use super::{BitRate, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a list of numbers of bits per second and nulls.
    ///
    /// # Errors
    /// The serializer cannot write it.
    pub fn serialize<S: Serializer>(rates: &[Option<BitRate>], serializer: S) -> Result<S::Ok, S::Error> {
        rates.serialize(serializer)
    }

    /// Reads a list of numbers of bits per second and nulls.
    ///
    /// # Errors
    /// It is no such list.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Option<BitRate>>, D::Error> {
        let rates = Vec::<Option<u64>>::deserialize(deserializer)?;
        Ok(rates.into_iter().map(|rate| rate.map(BitRate)).collect())
    }
}
