//! When, and on which links, bits were missing.

use std::ops::Range;

use weir_units::BitRate;

use crate::report::{Report, Series};

/// The share of its asked bits that a link misses in a bin that counts.
const FELT: f64 = 0.05;
/// Bins in a row from which it counts, and gaps that do not end it.
const LEAST_BINS: usize = 3;
const GAP_BINS: usize = 3;
/// The part of their time that links share if they miss bits together.
const TOGETHER: f64 = 0.5;

/// The widest bins, seconds, and how many a hold has at least.
const WIDE_S: f64 = 10.0;
const HOLD_BINS: f64 = 60.0;

/// A time in which links missed bits together.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The links, `A→B`: that with most missing bits first.
    pub links: Vec<String>,
    /// When it began and ended, seconds from the start of the run.
    pub from_s: f64,
    /// See `from_s`.
    pub until_s: f64,
    /// Rate that these links were asked for in that time, bit/s.
    pub asked_bps: f64,
    /// Rate that they got, bit/s.
    pub held_bps: f64,
}

/// One link's stretch of bins.
struct Stretch<'r> {
    link: &'r str,
    bins: Range<usize>,
    missing: f64,
}

/// The episodes of a run, in the order of their begins.
pub fn episodes(report: &Report) -> Vec<Episode> {
    let coarse = Coarse::of(report);
    let mut stretches: Vec<Stretch<'_>> = Vec::new();
    for link in report.series.links.keys() {
        stretches.extend(stretches_of(&coarse, link));
    }
    stretches.sort_by(|one, other| other.missing.total_cmp(&one.missing));
    let mut groups: Vec<Vec<Stretch<'_>>> = Vec::new();
    for stretch in stretches {
        let together = groups
            .iter_mut()
            .find(|group| overlap(&group[0].bins, &stretch.bins) >= TOGETHER);
        match together {
            Some(group) => group.push(stretch),
            None => groups.push(vec![stretch]),
        }
    }
    let mut episodes: Vec<Episode> = groups.iter().map(|group| episode(&coarse, group)).collect();
    episodes.sort_by(|one, other| one.from_s.total_cmp(&other.from_s));
    episodes
}

fn stretches_of<'r>(coarse: &Coarse<'r>, link: &'r str) -> Vec<Stretch<'r>> {
    let mut found: Vec<Stretch<'r>> = Vec::new();
    for bin in coarse.hold.clone() {
        let (asked, achieved) = coarse.bits(link, bin);
        if asked <= 0.0 || asked - achieved < FELT * asked {
            continue;
        }
        match found.last_mut() {
            Some(last) if bin <= last.bins.end + GAP_BINS => {
                last.bins.end = bin + 1;
                last.missing += asked - achieved;
            }
            _ => found.push(Stretch {
                link,
                bins: bin..bin + 1,
                missing: asked - achieved,
            }),
        }
    }
    found.retain(|stretch| stretch.bins.len() >= LEAST_BINS && is_low(coarse, stretch));
    found
}

/// Whether bits are missing in a stretch as a whole, and were not made up for within it.
fn is_low(coarse: &Coarse<'_>, stretch: &Stretch<'_>) -> bool {
    let (asked, held) = coarse.rates(&[stretch.link.to_owned()], stretch.bins.clone());
    asked - held >= FELT * asked
}

fn episode(coarse: &Coarse<'_>, group: &[Stretch<'_>]) -> Episode {
    let from = group.iter().map(|stretch| stretch.bins.start).min().unwrap_or(0);
    let until = group.iter().map(|stretch| stretch.bins.end).max().unwrap_or(0);
    let links: Vec<String> = group.iter().map(|stretch| stretch.link.to_owned()).collect();
    let (asked_bps, held_bps) = coarse.rates(&links, from..until);
    Episode {
        links,
        from_s: coarse.at(from),
        until_s: coarse.at(until),
        asked_bps,
        held_bps,
    }
}

/// The series of a report in bins that are wide enough for a judgement: ten seconds, or a sixtieth of a shorter hold.
pub(super) struct Coarse<'r> {
    series: &'r Series,
    /// Bins of the report in one.
    per: usize,
    /// The bins of the hold.
    pub(super) hold: Range<usize>,
}

impl<'r> Coarse<'r> {
    pub(super) fn of(report: &'r Report) -> Self {
        let (series, hold) = (&report.series, report.windows.hold);
        let wide = ((hold.end_s - hold.start_s) / HOLD_BINS).min(WIDE_S);
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

    /// Asked and achieved bits of a link in a bin.
    pub(super) fn bits(&self, link: &str, bin: usize) -> (f64, f64) {
        let Some(of) = self.series.links.get(link) else {
            return (0.0, 0.0);
        };
        let bins = bin * self.per..(bin + 1) * self.per;
        let sum = |rates: &[Option<BitRate>]| {
            let rates = bins.clone().filter_map(|bin| rates.get(bin).copied().flatten());
            rates.map(BitRate::as_f64).sum::<f64>() * self.series.bin_s
        };
        (sum(&of.asked_bps), sum(&of.achieved_bps))
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

/// The part of two stretches of time that both have: the time in both over the time in either.
fn overlap(one: &Range<usize>, other: &Range<usize>) -> f64 {
    let both = one.end.min(other.end).saturating_sub(one.start.max(other.start));
    let either = one.end.max(other.end) - one.start.min(other.start);
    both as f64 / either.max(1) as f64
}
