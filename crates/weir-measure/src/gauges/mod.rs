//! Figures of hosts and storages, in bins of time.
//!
//! A value holds for a span of time. A bin has the mean of the values that hold in it, weighted by their time. A bin without any has
//! none, never zero.

mod report;
pub mod rows;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_world::{Gauge, Place};

pub use report::GaugeSeries;
pub use rows::GaugeRow;

/// Bins that are kept at most; a longer run has wider ones.
const BINS_MAX: usize = 1_200;

/// Series that are kept at most: a machine with very many disks or interfaces must not fill the memory.
const SERIES_MAX: usize = 20_000;

/// Values by gauge and place; see the module.
#[derive(Debug, Clone)]
pub struct Gauges {
    width: Duration,
    series: BTreeMap<(Gauge, Place), Vec<Mean>>,
}

/// Values of a bin, weighted by time.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    /// Sum of value × seconds.
    sum: f64,
    seconds: f64,
}

impl Mean {
    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.seconds += other.seconds;
    }

    fn value(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

impl Gauges {
    /// Begins with bins of a width above zero.
    pub fn new(width: Duration) -> Self {
        Self {
            width,
            series: BTreeMap::new(),
        }
    }

    /// Adds a value that held between two moments, counted from the start of the run. A value that is no number, or that held for no
    /// time, is left out.
    pub fn add(&mut self, row: &GaugeRow) {
        let (from, to) = row.span;
        let key = (row.gauge, row.place.clone());
        let is_known = self.series.contains_key(&key);
        if !row.value.is_finite() || to <= from || !is_known && self.series.len() >= SERIES_MAX {
            return;
        }
        while self.bin(to) >= BINS_MAX {
            self.double();
        }
        let (first, last) = (self.bin(from), self.bin(to));
        let width = self.width;
        let bins = self.series.entry(key).or_default();
        if bins.len() <= last {
            bins.resize(last + 1, Mean::default());
        }
        for (number, bin) in bins.iter_mut().enumerate().take(last + 1).skip(first) {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let part = to.min(width * (number + 1)).saturating_sub(from.max(width * number));
            let seconds = part.as_secs_f64();
            bin.add(Mean {
                sum: row.value * seconds,
                seconds,
            });
        }
    }

    fn bin(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.width.as_nanos()).unwrap_or(usize::MAX)
    }

    fn double(&mut self) {
        self.width *= 2;
        for bins in self.series.values_mut() {
            let pair = |pair: &[Mean]| {
                pair.iter().fold(Mean::default(), |mut sum, bin| {
                    sum.add(*bin);
                    sum
                })
            };
            *bins = bins.chunks(2).map(pair).collect();
        }
    }

    /// All series, in the order of gauges and places.
    pub fn report(&self) -> Vec<GaugeSeries> {
        let series = |((gauge, place), bins): (&(Gauge, Place), &Vec<Mean>)| {
            let values: Vec<Option<f64>> = bins.iter().map(|bin| bin.value()).collect();
            GaugeSeries::of(*gauge, place, self.width, &values)
        };
        self.series.iter().filter_map(series).collect()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "sums of few exact numbers")]
mod tests {
    use proptest::prelude::*;
    use weir_world::PlaceKind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn row(from: u64, to: u64, value: f64) -> GaugeRow {
        GaugeRow {
            span: (Duration::from_millis(from), Duration::from_millis(to)),
            gauge: Gauge::DiskBusy,
            place: Place::new(PlaceKind::Server, "node1/vda"),
            value,
        }
    }

    #[test]
    fn a_bin_has_the_mean_of_its_time() {
        let mut gauges = Gauges::new(SECOND);
        // Wrong: a reading that came late counts as much as one of a whole bin.
        gauges.add(&row(1_000, 1_500, 1.0));
        gauges.add(&row(1_500, 2_250, 0.0));
        gauges.add(&row(4_000, 5_000, 0.25));
        let report = gauges.report();
        assert_eq!((report.len(), report[0].first_bin), (1, 1));
        assert_eq!(report[0].values, [Some(0.5), Some(0.0), None, Some(0.25)]);
    }

    #[test]
    fn what_is_no_value_is_left_out() {
        let mut gauges = Gauges::new(SECOND);
        gauges.add(&row(0, 1_000, f64::NAN));
        gauges.add(&row(0, 1_000, f64::INFINITY));
        // A clock that was set back.
        gauges.add(&row(2_000, 1_000, 1.0));
        assert_eq!(gauges.report(), []);
    }

    proptest! {
        /// Wider bins keep the mean over the whole time.
        #[test]
        fn a_long_run_keeps_its_mean(rows in proptest::collection::vec((1..3_000_u64, 0..100_u32), 1..40)) {
            let mut gauges = Gauges::new(SECOND);
            let (mut at, mut sum) = (0, 0.0);
            for (length, value) in rows {
                gauges.add(&row(at, at + length * 1_000, f64::from(value)));
                sum += f64::from(value) * length as f64;
                at += length * 1_000;
            }
            let mean = gauges.series.values().flatten().fold(Mean::default(), |mut all, bin| {
                all.add(*bin);
                all
            });
            prop_assert!(gauges.series.values().all(|bins| bins.len() <= BINS_MAX));
            prop_assert!((mean.seconds - at as f64 / 1e3).abs() < 1e-6 * mean.seconds);
            prop_assert!((mean.sum - sum).abs() <= 1e-6 * sum.max(1.0));
        }
    }
}
