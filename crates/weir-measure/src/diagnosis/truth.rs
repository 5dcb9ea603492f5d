//! The truth about a run: that it differs from its twin without the fault, where, when and by how much.

use serde::{Deserialize, Serialize};

use super::coarse::Coarse;
use super::stretch::maximal;
use crate::report::{Report, Verdict};

/// The least share of the asked bits of a link that a fault must cost it.
const FELT: f64 = 0.05;
/// The part of the missing bits that the twin must have.
const WON_BACK: f64 = 0.5;
/// The part of all lost bits that a stretch of bins must have, so that the fault's time reaches to it.
const SEEN: f64 = 0.05;
/// The share of transfers that must fail where no rate is low.
const FAILED: f64 = 0.005;

/// A cause of a run, and its effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Words of its class; two where either is right.
    pub classes: Vec<String>,
    /// The places that are right; one of them is enough.
    pub places: Vec<String>,
    /// The faults that made it.
    pub faults: Vec<String>,
    /// The links that it held back; none if it costs no rate and shows otherwise.
    pub links: Vec<String>,
    /// When it began and ended to cost bits, seconds from the start of the run.
    pub from_s: f64,
    /// See `from_s`.
    pub until_s: f64,
    /// Rate that these links were asked for in that time, bit/s.
    pub asked_bps: f64,
    /// Rate that they got, bit/s.
    pub held_bps: f64,
    /// Whether one of two answers is all that can be told.
    pub is_open: bool,
}

/// Whether a run shows nothing that a diagnosis would have to explain.
pub fn is_well(report: &Report) -> bool {
    let coarse = Coarse::of(report);
    let is_low = |link: &String| {
        let (asked, held) = coarse.rates(std::slice::from_ref(link), coarse.hold.clone());
        asked > 0.0 && asked - held >= FELT * asked
    };
    report.verdict == Verdict::Pass && !report.series.links.keys().any(is_low)
}

/// Compares a run with its twin without the fault. `None` if the fault did not matter.
///
/// `felt` says when the fault was on, in seconds; `truth` names it.
pub fn confirm(with: &Report, without: &Report, felt: (f64, f64), truth: Truth) -> Option<Truth> {
    let (coarse, twin) = (Coarse::of(with), Coarse::of(without));
    let first = coarse.bin(felt.0).max(coarse.hold.start);
    let end = coarse.hold.end;
    let mut links = Vec::new();
    let (mut from, mut until) = (usize::MAX, 0);
    for link in with.series.links.keys() {
        let mut cost = 0.0;
        let mut whole = 0.0;
        let mut scores = Vec::new();
        for bin in first..end {
            let (asked, achieved) = coarse.bits(link, bin);
            let lost = twin.bits(link, bin).1.min(asked) - achieved;
            whole += asked;
            cost += lost;
            scores.push(lost - FELT * asked);
        }
        // Two runs differ in single bins for nothing; of those the sums are small.
        let least = SEEN * scores.iter().map(|score| score.max(0.0)).sum::<f64>();
        let seen: Vec<_> = maximal(&scores).into_iter().filter(|(_, sum)| *sum >= least).collect();
        let (Some(begin), Some(last)) = (seen.first(), seen.last()) else {
            continue;
        };
        if whole > 0.0 && cost >= FELT * whole {
            links.push(link.clone());
            (from, until) = (from.min(first + begin.0.start), until.max(first + last.0.end));
        }
    }
    if links.is_empty() {
        return shows(with, without).then(|| Truth {
            from_s: felt.0,
            until_s: felt.1.min(with.windows.hold.end_s),
            ..truth
        });
    }
    let (asked, held) = coarse.rates(&links, from..until);
    let (_, won) = twin.rates(&links, from..until);
    let is_won = won.min(asked) - held >= WON_BACK * (asked - held);
    let truth = Truth {
        links,
        from_s: coarse.at(from),
        until_s: coarse.at(until),
        asked_bps: asked,
        held_bps: held,
        ..truth
    };
    is_won.then_some(truth)
}

/// Whether a fault shows by something else than rates: counters, stored files, failures.
fn shows(with: &Report, without: &Report) -> bool {
    let counters = |report: &Report| report.crosschecks.iter().any(|check| check.pass != Some(true));
    let files = |report: &Report| report.audit.as_ref().is_some_and(|audit| audit.failed > 0);
    let failed = |report: &Report| report.totals.failed as f64 / (report.totals.transfers as f64).max(1.0);
    let unstable = |report: &Report| report.verdict == Verdict::Unstable;
    counters(with) && !counters(without)
        || files(with) && !files(without)
        || unstable(with) && !unstable(without)
        || failed(with) - failed(without) >= FAILED
}
