//! Percentiles of many values: every value exactly while there are few, in classes of one or of three per cent when there are
//! many. A run of a million transfers keeps kilobytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Nearest-rank percentiles: `p95` is the smallest value that 95 % of all do not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// 5 % do not exceed it: of rates, 95 % reach it.
    pub p5: f64,
    /// The median.
    pub p50: f64,
    /// 95 % do not exceed it.
    pub p95: f64,
    /// 99 % do not exceed it.
    pub p99: f64,
}

/// Durations and rates of transfers that finished and whose start is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// From the start to the end of the attempt that finished, in seconds, checksums included; `null` if nothing finished.
    pub transfer_s: Option<Percentiles>,
    /// Size ÷ that time, in bit/s.
    pub rate_bps: Option<Percentiles>,
    /// From the order of the copy to its first byte of data, in seconds, of those transfers of which it is known; `null` if of none.
    #[serde(default)]
    pub first_byte_s: Option<Percentiles>,
}

/// Numbers, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantiles {
    counts: BTreeMap<u64, u64>,
    total: u64,
    max: Option<u64>,
    in_classes: bool,
    /// Different values that are kept exactly.
    exact: usize,
    /// Classes have this many bits: they are at most 2 ÷ 2^bits wide, relative to their values.
    bits: u32,
}

impl Default for Quantiles {
    /// 65,536 different values exactly, then classes of one per cent: for figures that exist once in a run.
    fn default() -> Self {
        Self::with(65_536, 8)
    }
}

impl Quantiles {
    /// 256 different values exactly, then classes of three per cent: some kilobytes, for figures that exist thousands
    /// of times in a run.
    pub fn small() -> Self {
        Self::with(256, 6)
    }

    fn with(exact: usize, bits: u32) -> Self {
        Self {
            counts: BTreeMap::new(),
            total: 0,
            max: None,
            in_classes: false,
            exact,
            bits,
        }
    }

    /// Counts one.
    pub fn add(&mut self, value: u64) {
        self.max = self.max.max(Some(value));
        self.total += 1;
        *self.counts.entry(self.key(value)).or_default() += 1;
        if !self.in_classes && self.counts.len() > self.exact {
            self.in_classes = true;
            for (value, count) in std::mem::take(&mut self.counts) {
                *self.counts.entry(self.key(value)).or_default() += count;
            }
        }
    }

    fn key(&self, value: u64) -> u64 {
        if !self.in_classes {
            return value;
        }
        // The upper end of the class, so that no value is told smaller than it is.
        let low = (64 - value.leading_zeros()).saturating_sub(self.bits);
        value | ((1 << low) - 1)
    }

    /// Returns the nearest-rank percentile; `None` if nothing was counted.
    pub fn quantile(&self, percent: u64) -> Option<u64> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let value = self.counts.iter().find_map(|(value, count)| {
            seen += count;
            (seen >= rank).then_some(*value)
        });
        value.map(|value| self.max.map_or(value, |max| value.min(max)))
    }

    /// Returns the largest; `None` if nothing was counted.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// Returns the percentiles of a report, in another unit; `None` if nothing was counted.
    pub fn percentiles(&self, unit: impl Fn(u64) -> f64) -> Option<Percentiles> {
        let of = |percent| self.quantile(percent).map(&unit);
        Some(Percentiles {
            p5: of(5)?,
            p50: of(50)?,
            p95: of(95)?,
            p99: of(99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut quantiles = Quantiles::default();
        values.into_iter().for_each(|value| quantiles.add(value));
        quantiles
    }

    /// A report would name another percentile than it says.
    #[test]
    fn few_values_are_exact() {
        assert_eq!(of([]).quantile(95), None);
        assert_eq!(of([]).percentiles(|value| value as f64), None);
        assert_eq!(of([7]).quantile(95), Some(7));
        assert_eq!(of(1..=100).quantile(95), Some(95));
        assert_eq!(of([1, 1, 1, 9]).quantile(50), Some(1));
        assert_eq!(of([3, 5]).max(), Some(5));
        let told = of(1..=200).percentiles(|value| value as f64 / 2.0);
        let expected = Percentiles {
            p5: 5.0,
            p50: 50.0,
            p95: 95.0,
            p99: 99.0,
        };
        assert_eq!(told, Some(expected));
    }

    /// Many values would be told smaller than they are, or far larger, or fill the memory.
    #[test]
    fn many_values_are_close() {
        for (mut many, width) in [(Quantiles::default(), 1.01), (Quantiles::small(), 1.04)] {
            (0..200_000).for_each(|n| many.add(n * 1_000_003));
            let exact = 190_000.0 * 1_000_003.0;
            let told = many.quantile(95).map_or(0.0, |value| value as f64);
            assert!((0.999..width).contains(&(told / exact)), "{told} {exact}");
            assert_eq!(many.max(), Some(199_999 * 1_000_003));
            assert!(many.counts.len() < 10_000);
        }
        let mut small = Quantiles::small();
        (0..100_000_u64).for_each(|n| small.add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        assert!(small.counts.len() < 2_200, "{}", small.counts.len());
    }
}
