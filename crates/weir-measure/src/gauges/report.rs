//! Gauges as `report.json` has them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_world::{Gauge, GaugeUnit, Place};

/// Digits that are kept of a value: more than any of its sources is exact to.
const DIGITS: i32 = 6;

/// The values of one gauge at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GaugeSeries {
    /// The figure.
    pub gauge: Gauge,
    /// Where.
    pub place: Place,
    /// Unit of the values.
    pub unit: GaugeUnit,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Number of the bin of the first value.
    pub first_bin: u64,
    /// Mean of each bin from the first on; `null` where nothing was told.
    pub values: Vec<Option<f64>>,
}

impl GaugeSeries {
    /// The series of these bins; `None` if none of them has a value.
    pub(super) fn of(gauge: Gauge, place: &Place, width: Duration, bins: &[Option<f64>]) -> Option<Self> {
        let first = bins.iter().position(Option::is_some)?;
        let end = bins.iter().rposition(Option::is_some)? + 1;
        Some(Self {
            gauge,
            place: place.clone(),
            unit: gauge.unit(),
            bin_s: width.as_secs_f64(),
            first_bin: first as u64,
            values: bins[first..end].iter().map(|value| value.map(rounded)).collect(),
        })
    }
}

/// The value to [`DIGITS`] significant digits.
fn rounded(value: f64) -> f64 {
    let text = format!("{value:.*e}", (DIGITS - 1) as usize);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "numbers that were written are read again")]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_values_keep_their_digits() {
        let values = [0.0, 0.123_456_789, 10_000_000_000_000.0, 1.5e-7, -2.0];
        assert_eq!(values.map(rounded), [0.0, 0.123_457, 1e13, 1.5e-7, -2.0]);
    }
}
