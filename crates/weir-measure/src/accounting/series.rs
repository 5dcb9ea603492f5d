//! The time series of a run: asked and achieved, in bins.

use indexmap::IndexMap;

use super::Accounting;
use crate::report::{RateSeries, Series, TotalSeries};
use crate::spec::{AskedCurve, LinkSpec, Spec};
use crate::spread::{self, Bins};

impl Accounting {
    pub(super) fn series(&self) -> Series {
        let windows = &self.spec.windows;
        let width = self.spec.bin;
        let n_bins = usize::try_from(windows.drain_end.as_nanos().div_ceil(width.as_nanos()))
            .expect("fits a usize")
            .max(1);
        let achieved = |select: &dyn Fn(&LinkSpec) -> bool| -> Vec<Option<u64>> {
            let chosen: Vec<&Bins> = self
                .spec
                .links
                .iter()
                .zip(&self.link_bins)
                .filter(|(link, _)| select(link))
                .map(|(_, bins)| bins)
                .collect();
            let bytes = |bin: usize| chosen.iter().map(|bins| bins.get(bin)).sum::<u64>();
            (0..n_bins).map(|bin| spread::rate(bytes(bin), width)).collect()
        };
        let gauge = |part: fn(&(u64, u64)) -> u64| (0..n_bins).map(|bin| self.gauges.get(&bin).map(part)).collect();
        let mut sites = IndexMap::new();
        for (site, name) in self.spec.sites.iter().enumerate() {
            let series = RateSeries {
                asked_bps: self.asked_series(n_bins, |link| link.destination_site == site),
                achieved_bps: achieved(&|link| link.destination_site == site),
            };
            sites.insert(name.clone(), series);
        }
        let mut links = IndexMap::new();
        for (link, bins) in self.spec.links.iter().zip(&self.link_bins) {
            let achieved_bps = (0..n_bins).map(|bin| Some(bins.rate(bin))).collect();
            links.insert(
                link.name(),
                RateSeries {
                    asked_bps: self.asked_of(n_bins, std::iter::once(link)),
                    achieved_bps,
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
                queued: gauge(|sample| sample.1),
                failed: (0..n_bins)
                    .map(|bin| Some(self.failed_bins.get(&bin).copied().unwrap_or(0)))
                    .collect(),
            },
            sites,
            links,
        }
    }

    fn asked_series(&self, n_bins: usize, select: impl Fn(&LinkSpec) -> bool) -> Vec<Option<u64>> {
        self.asked_of(n_bins, self.spec.links.iter().filter(|link| select(link)))
    }

    /// What is asked of some links, in the middle of each bin; nothing after the hold, which an interruption may end early.
    /// `None` throughout where nothing is asked of any.
    fn asked_of<'l>(&self, n_bins: usize, links: impl Iterator<Item = &'l LinkSpec>) -> Vec<Option<u64>> {
        let Spec {
            windows, bin: width, ..
        } = &self.spec;
        let curves: Vec<AskedCurve> = links.flat_map(|link| link.curves.iter().copied()).collect();
        if curves.is_empty() {
            return vec![None; n_bins];
        }
        let asked_in = |bin: usize| {
            let middle = *width * u32::try_from(bin).expect("fewer than four billion bins") + *width / 2;
            let sum = curves.iter().map(|curve| curve.at(middle)).sum();
            Some(if middle < windows.hold_end { sum } else { 0 })
        };
        (0..n_bins).map(asked_in).collect()
    }
}
