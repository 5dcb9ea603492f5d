//! The time series of a run: asked and achieved, in bins.

use std::time::Duration;

use weir_units::BitRate;

use indexmap::IndexMap;

use super::{Accounting, share};
use crate::report::{RateSeries, Series, TotalSeries};
use crate::spec::{AskedCurve, LinkSpec};
use crate::spread::{self, Bins, RecentBins};

/// The share of its asked rate from which a link has kept it.
const KEPT: f64 = 0.98;

impl Accounting {
    pub(super) fn series(&self) -> Series {
        let windows = &self.spec.windows;
        let width = self.spec.bin;
        let n_bins = usize::try_from(windows.drain_end.as_nanos().div_ceil(width.as_nanos()))
            .expect("fits a usize")
            .max(1);
        // How many of the bins that were kept make one of the series.
        let fine = usize::try_from(width.as_nanos() / self.width.as_nanos()).expect("fits a usize");
        let bytes_of = |bins: &Bins, bin: usize| bins.sum_between(bin * fine, (bin + 1) * fine);
        let achieved = |select: &dyn Fn(&LinkSpec) -> bool| -> Vec<Option<BitRate>> {
            let chosen: Vec<&Bins> = self
                .spec
                .links
                .iter()
                .zip(&self.link_bins)
                .filter(|(link, _)| select(link))
                .map(|(_, bins)| bins)
                .collect();
            let bytes = |bin: usize| chosen.iter().map(|bins| bytes_of(bins, bin)).sum::<u64>();
            (0..n_bins).map(|bin| spread::rate(bytes(bin), width)).collect()
        };
        // Of several samples in a bin the last counts.
        let last = |bin: usize| self.gauges.range(bin * fine..(bin + 1) * fine).next_back();
        let gauge =
            |part: fn(&(u64, u64)) -> u64| (0..n_bins).map(|bin| last(bin).map(|(_, both)| part(both))).collect();
        // Samples would miss every transfer shorter than their interval. Transfers that never ended are known by
        // samples alone.
        let active_mean = |bin: usize| {
            let nanos = self.active_bins.sum_between(bin * fine, (bin + 1) * fine);
            let mean = nanos as f64 / width.as_nanos() as f64;
            let sample = last(bin).filter(|_| nanos == 0).map_or(0, |(_, both)| both.0);
            Some((mean * 100.0).round() / 100.0 + sample as f64)
        };
        let failed = |bin: usize| {
            self.failed_bins
                .range(bin * fine..(bin + 1) * fine)
                .map(|(_, count)| count)
                .sum()
        };
        let mut sites = IndexMap::new();
        for (site, name) in self.spec.sites.iter().enumerate() {
            let series = RateSeries {
                asked_bps: self.asked_series(n_bins, |link| link.destination_site == site),
                achieved_bps: achieved(&|link| link.destination_site == site),
                ..RateSeries::default()
            };
            sites.insert(name.clone(), series);
        }
        let mut links = IndexMap::new();
        let rates = |bins: &Bins, n: usize| (0..n).map(|bin| spread::rate(bytes_of(bins, bin), width)).collect();
        for (at, link) in self.spec.links.iter().enumerate() {
            // Bins of long runs are many; those of a link that kept its rate say nothing more.
            let held = share(self.achieved(self.links[at].hold_rated), link.asked);
            let is_short = held.is_some_and(|held| held < KEPT) || self.lost_bins[at].sum() > 0;
            let bins = if is_short { n_bins } else { 0 };
            links.insert(
                link.name(),
                RateSeries {
                    asked_bps: self.asked_of(n_bins, std::iter::once(link)),
                    achieved_bps: rates(&self.link_bins[at], n_bins),
                    injected_bps: rates(&self.injected_bins[at], bins),
                    injected_files: (0..bins).map(|bin| bytes_of(&self.injected_files[at], bin)).collect(),
                    lost_bps: rates(&self.lost_bins[at], bins),
                },
            );
        }
        Series {
            bin_s: width.as_secs_f64(),
            n_bins: n_bins as u64,
            total: TotalSeries {
                asked_bps: self.asked_series(n_bins, |_| true),
                achieved_bps: achieved(&|_| true),
                active: gauge(|sample| sample.0),
                active_mean: (0..n_bins).map(active_mean).collect(),
                queued: gauge(|sample| sample.1),
                failed: (0..n_bins).map(|bin| Some(failed(bin))).collect(),
            },
            sites,
            links,
        }
    }

    fn asked_series(&self, n_bins: usize, select: impl Fn(&LinkSpec) -> bool) -> Vec<Option<BitRate>> {
        self.asked_of(n_bins, self.spec.links.iter().filter(|link| select(link)))
    }

    /// The rate asked of some links, in the middle of each bin; nothing after the hold, which an interruption may end
    /// early. `None` throughout if no rate is asked of any of them.
    fn asked_of<'l>(&self, n_bins: usize, links: impl Iterator<Item = &'l LinkSpec>) -> Vec<Option<BitRate>> {
        self.asked_in((0..n_bins, self.spec.bin), links)
    }

    fn asked_in<'l>(
        &self,
        (bins, width): (std::ops::Range<usize>, Duration),
        links: impl Iterator<Item = &'l LinkSpec>,
    ) -> Vec<Option<BitRate>> {
        let windows = &self.spec.windows;
        let curves: Vec<AskedCurve> = links.flat_map(|link| link.curves.iter().copied()).collect();
        if curves.is_empty() {
            return vec![None; bins.len()];
        }
        let asked = |bin: usize| {
            let middle = width * u32::try_from(bin).expect("fewer than four billion bins") + width / 2;
            let sum = curves.iter().map(|curve| curve.at(middle)).sum();
            Some(if middle < windows.hold_end { sum } else { BitRate::ZERO })
        };
        bins.map(asked).collect()
    }

    /// The series of the hour before a moment.
    pub(crate) fn last_hour(&self, now: Duration) -> Series {
        let end = RecentBins::bin_of(now) + 1;
        let first = end.saturating_sub(RecentBins::KEPT);
        let rate = |bytes: u64| spread::rate(bytes, RecentBins::WIDTH);
        let all = || self.spec.links.iter().zip(&self.recent);
        let achieved = |select: &dyn Fn(&LinkSpec) -> bool| -> Vec<Option<BitRate>> {
            let chosen: Vec<&RecentBins> = all().filter(|(link, _)| select(link)).map(|(_, bins)| bins).collect();
            let sum = |bin| chosen.iter().map(|bins| bins.get(bin)).sum();
            (first..end).map(|bin| rate(sum(bin))).collect()
        };
        let asked = |select: &dyn Fn(&LinkSpec) -> bool| {
            let links = self.spec.links.iter().filter(|link| select(link));
            self.asked_in((first..end, RecentBins::WIDTH), links)
        };
        let both = |select: &dyn Fn(&LinkSpec) -> bool| RateSeries {
            asked_bps: asked(select),
            achieved_bps: achieved(select),
            ..RateSeries::default()
        };
        let sites = self.spec.sites.iter().enumerate();
        let links = self.spec.links.iter();
        let none = || vec![None; end - first];
        let total = both(&|_| true);
        Series {
            bin_s: RecentBins::WIDTH.as_secs_f64(),
            n_bins: (end - first) as u64,
            total: TotalSeries {
                asked_bps: total.asked_bps,
                achieved_bps: total.achieved_bps,
                active: none(),
                active_mean: vec![None; end - first],
                queued: none(),
                failed: none(),
            },
            sites: sites
                .map(|(site, name)| (name.clone(), both(&|link| link.destination_site == site)))
                .collect(),
            links: links
                .enumerate()
                .map(|(at, link)| {
                    (
                        link.name(),
                        both(&|other| std::ptr::eq(other, &raw const self.spec.links[at])),
                    )
                })
                .collect(),
        }
    }
}
