//! A report as the diagnosis reads it: rates and waits of each link in bins of one width.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_world::{ErrorClass, Party, Place, Wait, WaitPhase};

use super::coarse::{Bits, Coarse};
use super::moment::Moment;
use crate::report::{LinkReport, LinkSignals, Report};
use crate::signals::Holder;

/// The links of a report.
pub(super) struct View<'r> {
    pub(super) report: &'r Report,
    /// Seconds of a bin.
    pub(super) bin_s: f64,
    /// The bins of the hold.
    pub(super) hold: Range<usize>,
    /// Its links.
    pub(super) links: Vec<Link<'r>>,
    /// Whether the run is over: its counters are compared, and its files were read back.
    pub(super) is_over: bool,
    numbers: BTreeMap<&'r str, usize>,
}

/// One link.
pub(super) struct Link<'r> {
    /// `A→B`.
    pub(super) name: &'r str,
    pub(super) source: &'r str,
    pub(super) destination: &'r str,
    pub(super) source_site: &'r str,
    pub(super) destination_site: &'r str,
    /// Bits in each bin.
    pub(super) bits: Vec<Bits>,
    /// Bits of a file, on average.
    pub(super) file: f64,
    /// Transfers of the whole run.
    pub(super) transfers: f64,
    /// Attempts that failed.
    pub(super) failures: Vec<Failed>,
    /// Seconds in each state.
    pub(super) waits: Vec<Waited<'r>>,
    /// Seconds of slots in each bin; empty where nobody tells.
    pub(super) slots: Vec<f64>,
    /// Whether the states within an attempt are told.
    pub(super) tells: bool,
    /// Whether it is told when transfers were injected: reports of earlier builds do not.
    pub(super) tells_injected: bool,
}

/// Attempts that failed in one way.
pub(super) struct Failed {
    pub(super) class: ErrorClass,
    pub(super) party: Option<Party>,
    pub(super) counts: Vec<f64>,
}

/// The time in one state.
pub(super) struct Waited<'r> {
    pub(super) wait: Wait,
    pub(super) place: Option<&'r Place>,
    pub(super) seconds: Vec<f64>,
    pub(super) holders: &'r [Holder],
}

impl<'r> View<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let coarse = Coarse::of(report);
        let n_bins = (report.series.n_bins as usize).div_ceil(coarse.per());
        let signals: BTreeMap<(&str, &str), &LinkSignals> = report
            .signals
            .iter()
            .map(|link| ((link.source.as_str(), link.destination.as_str()), link))
            .collect();
        let mut links = Vec::new();
        for (name, link) in report.series.links.keys().filter_map(|name| {
            let is_it =
                |link: &&LinkReport| name.split_once('→') == Some((link.source.as_str(), link.destination.as_str()));
            Some((name.as_str(), report.links.iter().find(is_it)?))
        }) {
            {
                let told = signals.get(&(link.source.as_str(), link.destination.as_str())).copied();
                links.push(Link::of(&coarse, n_bins, (name, link), told));
            }
        }
        let numbers = links.iter().enumerate().map(|(at, link)| (link.name, at)).collect();
        Self {
            report,
            bin_s: coarse.at(1),
            hold: coarse.hold,
            links,
            is_over: true,
            numbers,
        }
    }

    /// The same as it stood at a moment of the run.
    pub(super) fn at(mut self, moment: Moment) -> Self {
        let bin = |at_s: f64| (at_s.max(0.0) / self.bin_s + 1e-9).floor() as usize;
        let (told, sure) = (bin(moment.told_s), bin(moment.sure_s));
        self.hold.start = self.hold.start.min(told);
        self.hold.end = self.hold.end.min(sure.min(told)).max(self.hold.start);
        self.links.iter_mut().for_each(|link| link.cut(told));
        self.is_over = false;
        self
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }
}

impl<'r> Link<'r> {
    fn of(
        coarse: &Coarse<'r>,
        n_bins: usize,
        (name, report): (&'r str, &'r LinkReport),
        told: Option<&'r LinkSignals>,
    ) -> Self {
        let file = report.file_bytes.map(|bytes| bytes as f64 * 8.0);
        let mean = report.injected_bytes as f64 * 8.0 / (report.transfers as f64).max(1.0);
        let spread =
            |first_bin: u64, bin_s: f64, seconds: &[f64]| spread((coarse.at(1), n_bins), (first_bin, bin_s), seconds);
        let waits = told.map_or_else(Vec::new, |told| {
            let of = |series: &'r crate::signals::WaitSeries| Waited {
                wait: series.wait,
                place: series.place.as_ref(),
                seconds: spread(series.first_bin, told.bin_s, &series.seconds),
                holders: &series.holders,
            };
            told.waits.iter().map(of).collect()
        });
        let slots = told.and_then(|told| {
            let slots = told.slots.as_ref()?;
            Some(spread(slots.first_bin, told.bin_s, &slots.seconds))
        });
        let failures = told.map(|told| {
            let of = |series: &crate::signals::FailureSeries| {
                let counts: Vec<f64> = series.counts.iter().map(|count| *count as f64).collect();
                Failed {
                    class: series.class,
                    party: series.party,
                    counts: spread(series.first_bin, told.bin_s, &counts),
                }
            };
            told.failures.iter().map(of).collect()
        });
        Self {
            name,
            source: &report.source,
            destination: &report.destination,
            source_site: &report.source_site,
            destination_site: &report.destination_site,
            bits: (0..n_bins).map(|bin| coarse.all_bits(name, bin)).collect(),
            file: file.unwrap_or(mean),
            transfers: report.transfers as f64,
            failures: failures.unwrap_or_default(),
            waits,
            slots: slots.unwrap_or_default(),
            tells_injected: coarse.tells_injected(name),
            tells: told.is_some_and(|told| told.known.contains(&WaitPhase::Data)),
        }
    }

    /// Forgets the bins from here on.
    fn cut(&mut self, end: usize) {
        self.bits.truncate(end);
        self.slots.truncate(end);
        self.waits.iter_mut().for_each(|waited| waited.seconds.truncate(end));
        self.failures.iter_mut().for_each(|failed| failed.counts.truncate(end));
    }

    /// The sums of some bins.
    pub(super) fn sum(&self, bins: Range<usize>) -> Bits {
        let mut sum = Bits::default();
        for bits in self.bits.get(bins).unwrap_or_default() {
            sum.asked += bits.asked;
            sum.achieved += bits.achieved;
            sum.injected += bits.injected;
            sum.lost += bits.lost;
            sum.files += bits.files;
        }
        sum
    }
}

impl Failed {
    /// How many in some bins.
    pub(super) fn sum(&self, bins: Range<usize>) -> f64 {
        sum_of(&self.counts, bins)
    }
}

fn sum_of(values: &[f64], bins: Range<usize>) -> f64 {
    let end = bins.end.min(values.len());
    values.get(bins.start.min(end)..end).unwrap_or_default().iter().sum()
}

impl Waited<'_> {
    /// Seconds in some bins.
    pub(super) fn sum(&self, bins: Range<usize>) -> f64 {
        sum_of(&self.seconds, bins)
    }
}

/// Puts values in bins of one width into bins of another; those of a wide one are divided evenly.
fn spread((width, n_bins): (f64, usize), (first_bin, bin_s): (u64, f64), values: &[f64]) -> Vec<f64> {
    let mut bins = vec![0.0; n_bins];
    for (at, value) in values.iter().enumerate() {
        let from = (first_bin as usize + at) as f64 * bin_s;
        let first = (from / width + 1e-9).floor() as usize;
        let parts = ((bin_s / width).round() as usize).max(1);
        for part in first..first + parts {
            if let Some(bin) = bins.get_mut(part) {
                *bin += value / parts as f64;
            }
        }
    }
    bins
}

#[cfg(test)]
impl<'r> View<'r> {
    /// A view with these links in these bins of a second, all of them in the hold.
    pub(super) fn with(links: Vec<Link<'r>>, n_bins: usize) -> Self {
        let report = include_str!("../../../weir-challenge/tests/golden/real/report.json");
        let report = Report::from_json(report).expect("it is a report");
        Self {
            report: Box::leak(Box::new(report)),
            bin_s: 1.0,
            hold: 0..n_bins,
            numbers: links.iter().enumerate().map(|(at, link)| (link.name, at)).collect(),
            links,
            is_over: true,
        }
    }
}
