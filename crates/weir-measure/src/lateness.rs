//! How late transfers were submitted: every value exactly while there are few, in classes of one per cent when there are
//! many. A run of a million transfers keeps kilobytes.

use std::collections::BTreeMap;
use std::time::Duration;

/// Different values that are kept exactly.
const EXACT: usize = 65_536;
/// Classes have this many bits: they are at most 1 ÷ 128 wide, relative to their values.
const BITS: u32 = 8;

/// Durations, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: BTreeMap<u64, u64>,
    total: u64,
    max: Option<Duration>,
    in_classes: bool,
}

impl Lateness {
    /// Counts one.
    pub fn add(&mut self, late: Duration) {
        self.max = self.max.max(Some(late));
        self.total += 1;
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        *self.counts.entry(self.key(nanos)).or_default() += 1;
        if !self.in_classes && self.counts.len() > EXACT {
            self.in_classes = true;
            for (value, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(self.key(value)).or_default() += count;
            }
        }
    }

    fn key(&self, nanos: u64) -> u64 {
        if !self.in_classes {
            return nanos;
        }
        // The upper end of the class, so that no value is told smaller than it is.
        let low = (64 - nanos.leading_zeros()).saturating_sub(BITS);
        nanos | ((1 << low) - 1)
    }

    /// Returns the nearest-rank percentile; `None` if nothing was counted.
    pub fn quantile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let value = self.counts.iter().find_map(|(value, count)| {
            seen += count;
            (seen >= rank).then_some(*value)
        });
        value
            .map(Duration::from_nanos)
            .min(self.max)
            .or(value.map(Duration::from_nanos))
    }

    /// Returns the largest; `None` if nothing was counted.
    pub fn max(&self) -> Option<Duration> {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Lateness {
        let mut lateness = Lateness::default();
        values
            .into_iter()
            .for_each(|nanos| lateness.add(Duration::from_nanos(nanos)));
        lateness
    }

    /// A report would name another percentile than it says.
    #[test]
    fn few_values_are_exact() {
        assert_eq!(of([]).quantile(95), None);
        assert_eq!(of([7]).quantile(95), Some(Duration::from_nanos(7)));
        assert_eq!(of(1..=100).quantile(95), Some(Duration::from_nanos(95)));
        assert_eq!(of([1, 1, 1, 9]).quantile(50), Some(Duration::from_nanos(1)));
        assert_eq!(of([3, 5]).max(), Some(Duration::from_nanos(5)));
    }

    /// Many values would be told smaller than they are, or far larger.
    #[test]
    fn many_values_are_close() {
        let many = of((0..200_000).map(|n| n * 1_000_003));
        let (exact, told) = (
            190_000.0 * 1_000_003.0,
            many.quantile(95).map_or(0.0, |late| late.as_nanos() as f64),
        );
        assert!((0.999..1.01).contains(&(told / exact)), "{told} {exact}");
        assert_eq!(many.max(), Some(Duration::from_nanos(199_999 * 1_000_003)));
        assert!(many.counts.len() < 10_000);
    }
}
