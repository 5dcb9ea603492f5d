//! The rates of a report, in bins that are wide enough for a judgement.

use std::ops::Range;

use weir_units::BitRate;

use crate::report::{Report, Series};

/// The widest bins, seconds, and how many a hold has at least.
const WIDE_S: f64 = 10.0;
const HOLD_BINS: f64 = 60.0;

/// Bits of a link in a bin.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bits {
    pub(super) asked: f64,
    pub(super) achieved: f64,
    pub(super) injected: f64,
    /// Of transfers that were given up.
    pub(super) lost: f64,
    /// Transfers.
    pub(super) files: f64,
}

/// The series of a report in bins that are wide enough for a judgement: ten seconds, or a sixtieth of a shorter hold.
pub(super) struct Coarse<'r> {
    series: &'r Series,
    /// Bins of the report in one.
    per: usize,
    /// The bins of the hold.
    pub(super) hold: Range<usize>,
}

/// The width of a bin in a hold of so many seconds, before it is made a multiple of the report's.
pub(super) fn width(hold_s: f64) -> f64 {
    (hold_s / HOLD_BINS).min(WIDE_S)
}

impl<'r> Coarse<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let (series, hold) = (&report.series, report.windows.hold);
        let wide = width(hold.end_s - hold.start_s);
        let per = ((wide / series.bin_s).round() as usize).max(1);
        let bin_s = series.bin_s * per as f64;
        Self {
            series,
            per,
            hold: (hold.start_s / bin_s).ceil() as usize..(hold.end_s / bin_s).floor() as usize,
        }
    }

    /// The begin of a bin, seconds.
    pub(super) fn at(&self, bin: usize) -> f64 {
        (bin * self.per) as f64 * self.series.bin_s
    }

    /// The bin of a moment.
    pub(super) fn bin(&self, at_s: f64) -> usize {
        (at_s / self.at(1)).floor() as usize
    }

    /// Bins of the report in one.
    pub(super) fn per(&self) -> usize {
        self.per
    }

    /// Asked and achieved bits of a link in a bin.
    pub(super) fn bits(&self, link: &str, bin: usize) -> (f64, f64) {
        let bits = self.all_bits(link, bin);
        (bits.asked, bits.achieved)
    }

    /// Whether the report says when transfers of a link were injected.
    pub(super) fn tells_injected(&self, link: &str) -> bool {
        self.series
            .links
            .get(link)
            .is_some_and(|of| !of.injected_bps.is_empty())
    }

    /// All bits of a link in a bin.
    pub(super) fn all_bits(&self, link: &str, bin: usize) -> Bits {
        let Some(of) = self.series.links.get(link) else {
            return Bits::default();
        };
        let bins = bin * self.per..(bin + 1) * self.per;
        let sum = |rates: &[Option<BitRate>]| {
            let rates = bins.clone().filter_map(|bin| rates.get(bin).copied().flatten());
            rates.map(BitRate::as_f64).sum::<f64>() * self.series.bin_s
        };
        Bits {
            asked: sum(&of.asked_bps),
            achieved: sum(&of.achieved_bps),
            injected: sum(&of.injected_bps),
            lost: sum(&of.lost_bps),
            files: bins.clone().filter_map(|bin| of.injected_files.get(bin)).sum::<u64>() as f64,
        }
    }

    /// Asked and achieved rate of links in some bins, bit/s.
    pub(super) fn rates(&self, links: &[String], bins: Range<usize>) -> (f64, f64) {
        let seconds = bins.len().max(1) as f64 * self.at(1);
        let mut sums = (0.0, 0.0);
        for link in links {
            for bin in bins.clone() {
                let (asked, achieved) = self.bits(link, bin);
                sums = (sums.0 + asked, sums.1 + achieved);
            }
        }
        (sums.0 / seconds, sums.1 / seconds)
    }
}
