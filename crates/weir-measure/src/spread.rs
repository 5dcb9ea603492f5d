//! Spreads the bytes of a transfer evenly over its own duration, in integers.
//!
//! The bytes up to a moment `t` are `⌊bytes × (t − start) ÷ (end − start)⌋`; the bytes between two moments are the
//! difference of two such numbers. So bins, windows and sums agree to the byte, however the time axis is cut.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_units::BitRate;

/// Returns how many of the bytes of a transfer from `start` to `end` had arrived at `at`.
///
/// A transfer without duration (or one whose end lies before its start) arrives as a whole at its end, and counts as
/// arrived only after that moment. An end exactly on a border belongs to the part that begins there.
pub fn until(bytes: u64, start: Duration, end: Duration, at: Duration) -> u64 {
    if end <= start {
        return if at > end { bytes } else { 0 };
    }
    if at >= end {
        return bytes;
    }
    if at <= start {
        return 0;
    }
    let share = u128::from(bytes) * at.saturating_sub(start).as_nanos() / end.saturating_sub(start).as_nanos();
    u64::try_from(share).expect("a share of a u64 is a u64")
}

/// Returns how many of the bytes arrived between `from` and `to`.
///
/// Summed over parts that cut a time axis without gaps and reach beyond the end of the transfer, this is exactly `bytes`.
pub fn between(bytes: u64, start: Duration, end: Duration, from: Duration, to: Duration) -> u64 {
    until(bytes, start, end, to).saturating_sub(until(bytes, start, end, from))
}

/// Returns the mean rate, rounded to the nearest; `None` for an empty window.
pub fn rate(bytes: u64, window: Duration) -> Option<BitRate> {
    let nanos = window.as_nanos();
    if nanos == 0 {
        return None;
    }
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let rate = u64::try_from((bits + nanos / 2) / nanos).unwrap_or(u64::MAX);
    Some(BitRate(rate))
}

/// Spreads the bytes of one transfer over bins of a width, the last of which is the one in which it ends. Bytes before
/// the first bin are left out.
///
/// The result equals the difference of [`until`] at the borders of each bin, at the cost of an addition per bin: a long
/// transfer has hundreds.
fn each_bin(
    bytes: u64,
    (start, end): (Duration, Duration),
    width: Duration,
    bins: RangeInclusive<usize>,
    mut put: impl FnMut(usize, u64),
) {
    let border = |bin: usize| width * u32::try_from(bin).expect("fewer than four billion bins");
    let (first, last) = bins.into_inner();
    let mut before = until(bytes, start, end, border(first));
    if first < last {
        // Its end lies behind the first bin, its start does not: it has a length, and the border lies in it.
        let length = end.saturating_sub(start).as_nanos();
        let share = |time: Duration| {
            let product = u128::from(bytes) * time.as_nanos();
            // A bin wider than the whole transfer has no next border, and its step is not used.
            (u64::try_from(product / length).unwrap_or(u64::MAX), product % length)
        };
        let (mut upto, mut rest) = share(border(first + 1).saturating_sub(start));
        let (step, step_rest) = share(width);
        for bin in first..last {
            put(bin, upto - before);
            before = upto;
            upto = upto.saturating_add(step);
            rest += step_rest;
            if rest >= length {
                rest -= length;
                upto = upto.saturating_add(1);
            }
        }
    }
    put(last, bytes - before);
}

/// Byte counters in equal bins from time zero, growing as needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    width: Duration,
    bytes: Vec<u64>,
}

impl Bins {
    /// Makes empty bins of a width above zero.
    pub fn new(width: Duration) -> Self {
        assert!(!width.is_zero(), "bins need a width");
        Self {
            width,
            bytes: Vec::new(),
        }
    }

    /// Spreads the bytes of one transfer over the bins that it touches.
    pub fn add(&mut self, bytes: u64, start: Duration, end: Duration) {
        if bytes == 0 {
            return;
        }
        let first = self.index(start.min(end));
        let last = self.index(end);
        if self.bytes.len() <= last {
            self.bytes.resize(last + 1, 0);
        }
        if first == last {
            self.bytes[first] += bytes;
            return;
        }
        each_bin(bytes, (start, end), self.width, first..=last, |bin, share| {
            self.bytes[bin] += share;
        });
    }

    /// Makes bins of twice the width, without a byte lost.
    pub fn double(&mut self) {
        self.width *= 2;
        self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// Returns the bytes of the bins from `first` up to but without `end`.
    pub fn sum_between(&self, first: usize, end: usize) -> u64 {
        let end = end.min(self.bytes.len());
        self.bytes.get(first.min(end)..end).map_or(0, |bins| bins.iter().sum())
    }

    /// Returns the bytes of a bin; zero where nothing arrived.
    pub fn get(&self, bin: usize) -> u64 {
        self.bytes.get(bin).copied().unwrap_or(0)
    }

    /// The width of a bin.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// The range of bins from the first to the last that is not empty.
    pub fn filled(&self) -> std::ops::Range<usize> {
        let is_filled = |bytes: &u64| *bytes > 0;
        let first = self.bytes.iter().position(is_filled).unwrap_or(0);
        let end = self.bytes.iter().rposition(is_filled).map_or(0, |last| last + 1);
        first..end
    }

    /// Returns the sum of all bins.
    pub fn sum(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Returns the mean rate of a bin.
    pub fn rate(&self, bin: usize) -> BitRate {
        rate(self.get(bin), self.width).expect("bins have a width")
    }

    fn index(&self, at: Duration) -> usize {
        // Division of 64 bits takes a tenth of the time, and 2⁶⁴ ns are 584 years.
        if let Ok((at, width)) = u64::try_from(at.as_nanos()).and_then(|at| Ok((at, self.width.as_nanos().try_into()?)))
        {
            let width: u64 = width;
            return (at / width) as usize;
        }
        usize::try_from(at.as_nanos() / self.width.as_nanos()).expect("a bin number fits a usize")
    }
}

/// Byte counters in bins of ten seconds, of the last hour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentBins {
    /// The number of the first bin that is kept.
    first: usize,
    bytes: VecDeque<u64>,
}

impl RecentBins {
    /// Width of a bin.
    pub const WIDTH: Duration = Duration::from_secs(10);
    /// Bins that are kept: an hour.
    pub const KEPT: usize = 360;

    /// Spreads the bytes of one transfer over the bins that are kept. A transfer that ends before all that is kept leaves nothing.
    pub fn add(&mut self, bytes: u64, start: Duration, end: Duration) {
        let last = Self::bin_of(end);
        if last >= self.first + Self::KEPT {
            let gone = (last + 1 - Self::KEPT - self.first).min(self.bytes.len());
            self.bytes.drain(..gone);
            self.first = last + 1 - Self::KEPT;
        }
        if last < self.first {
            return;
        }
        let place = last - self.first;
        if self.bytes.len() <= place {
            self.bytes.resize(place + 1, 0);
        }
        let bins = Self::bin_of(start.min(end)).max(self.first)..=last;
        each_bin(bytes, (start, end), Self::WIDTH, bins, |bin, share| {
            self.bytes[bin - self.first] += share;
        });
    }

    /// Returns the bytes of a bin; zero if nothing arrived, or if the bin is not kept any more.
    pub fn get(&self, bin: usize) -> u64 {
        let place = bin.checked_sub(self.first);
        place.and_then(|place| self.bytes.get(place)).copied().unwrap_or(0)
    }

    /// Returns the number of the bin that a moment lies in.
    pub fn bin_of(moment: Duration) -> usize {
        usize::try_from(moment.as_nanos() / Self::WIDTH.as_nanos()).expect("a bin number fits a usize")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A bin would have other bytes than lie between its borders.
        #[test]
        fn each_bin_has_what_lies_between_its_borders(
            bytes in prop_oneof![0_u64..100, 0_u64..1_000_000_000_000, Just(u64::MAX)],
            start in 0_u64..2_000_000,
            length in prop_oneof![Just(0_u64), 0_u64..100, 0_u64..10_000, 0_u64..400_000_000],
            skipped in 0_usize..3,
        ) {
            let (width, micros) = (Duration::from_millis(7), Duration::from_micros);
            let (start, end) = (micros(start), micros(start + length));
            let bin_of = |at: Duration| usize::try_from(at.as_nanos() / width.as_nanos()).expect("it fits");
            let last = bin_of(end);
            let first = (bin_of(start) + skipped).min(last);
            let mut found = Vec::new();
            each_bin(bytes, (start, end), width, first..=last, |bin, share| found.push((bin, share)));
            let border = |bin: usize| width * u32::try_from(bin).expect("it fits");
            let expected = (first..=last).map(|bin| {
                let upto = if bin == last { bytes } else { until(bytes, start, end, border(bin + 1)) };
                (bin, upto - until(bytes, start, end, border(bin)))
            });
            prop_assert_eq!(&found, &expected.collect::<Vec<_>>());
        }

        /// A byte would be lost or counted twice when bins become wider.
        #[test]
        fn bins_of_any_width_hold_the_same_bytes(
            transfers in prop::collection::vec((0_u64..1_000_000, 0_u64..500_000, 0_u64..200_000), 1..40),
        ) {
            let millis = Duration::from_millis;
            let (mut fine, mut wide) = (Bins::new(millis(1_000)), Bins::new(millis(4_000)));
            let mut recent = RecentBins::default();
            for (bytes, start, length) in &transfers {
                for bins in [&mut fine, &mut wide] {
                    bins.add(*bytes, millis(*start), millis(start + length));
                }
                recent.add(*bytes, millis(*start), millis(start + length));
            }
            for bin in 0..80 {
                prop_assert_eq!(fine.sum_between(bin * 10, bin * 10 + 10), recent.get(bin), "bin {}", bin);
            }
            fine.double();
            fine.double();
            prop_assert_eq!(&fine, &wide);
        }
    }

    /// The last hour would be told with the hour before, or a late row would shift it.
    #[test]
    fn only_an_hour_is_kept() {
        let second = Duration::from_secs;
        let mut recent = RecentBins::default();
        recent.add(10, second(0), second(5));
        recent.add(20, second(3_595), second(3_605));
        assert_eq!((recent.get(0), recent.get(359), recent.get(360)), (0, 10, 10));
        recent.add(100, second(1), second(2));
        recent.add(7, second(0), second(20_000));
        assert_eq!(recent.get(360), 0);
        assert_eq!((0..4_000).map(|bin| recent.get(bin)).sum::<u64>(), 2);
        assert!(recent.bytes.len() <= RecentBins::KEPT);
    }
}
