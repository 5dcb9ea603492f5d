//! When, and on which links, bits were missing.

use std::ops::Range;

use super::coarse::Coarse;
use crate::report::Report;

/// The share of its asked bits that a link misses in a bin that counts.
const FELT: f64 = 0.05;
/// Bins in a row from which it counts, and gaps that do not end it.
const LEAST_BINS: usize = 3;
const GAP_BINS: usize = 3;
/// The part of their time that links share if they miss bits together.
const TOGETHER: f64 = 0.5;

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

/// The part of two stretches of time that both have: the time in both over the time in either.
fn overlap(one: &Range<usize>, other: &Range<usize>) -> f64 {
    let both = one.end.min(other.end).saturating_sub(one.start.max(other.start));
    let either = one.end.max(other.end) - one.start.min(other.start);
    both as f64 / either.max(1) as f64
}
