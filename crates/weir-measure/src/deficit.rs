//! The deficit of a link in a bin of time: the bits that it was asked to move and did not, divided by their causes.
//!
//! `asked + ahead = achieved + not injected + failed + Σ waited + unexplained`, in whole bits, exactly. The parts are
//! taken in this order, and each gets only what the ones before it leave:
//! 1. *failed*: bits that moved in attempts that came to nothing;
//! 2. *not injected*: bits that could not move because no workload had asked for them yet, though nothing kept it from doing so. An
//!    injector that holds back because too much waits already does not cause the wait;
//! 3. *waited*: the rest, divided among the states in which the link's transfers were, by the time that they spent in
//!    them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_world::{CauseClass, Place, Wait};

use crate::signals::Signals;
use crate::spec::{AskedCurve, LinkSpec};
use crate::spread::Bins;

/// The bits of one link in one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bits that were asked for.
    pub asked: u64,
    /// Bits that could have moved: injected and not given up by the end of the bin, and not
    /// delivered before it.
    pub available: u64,
    /// Bits that moved.
    pub moved: u64,
    /// Bits that moved in attempts that failed.
    pub failed: u64,
}

/// The parts of a deficit, in bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// More was moved than was asked for in the bin: the link caught up.
    pub ahead: u64,
    /// See the module.
    pub not_injected: u64,
    /// See the module.
    pub failed: u64,
    /// One part for each weight.
    pub waited: Vec<u64>,
    /// Nothing moved, and no transfer was seen to wait.
    pub unexplained: u64,
}

/// Divides a deficit; the weights are the times that transfers spent in the states of the link.
pub fn split(bits: Moved, weights: &[u64]) -> Parts {
    let mut parts = Parts {
        ahead: bits.moved.saturating_sub(bits.asked),
        failed: bits.failed,
        waited: vec![0; weights.len()],
        ..Parts::default()
    };
    let missing = bits.asked.saturating_sub(bits.moved);
    parts.not_injected = missing.min(bits.asked.saturating_sub(bits.available));
    let rest = missing - parts.not_injected;
    if weights.iter().all(|weight| *weight == 0) {
        parts.unexplained = rest;
    } else {
        divide(rest, weights, &mut parts.waited);
    }
    parts
}

/// Divides a number by weights, exactly: the borders between the parts are rounded down, so that the parts add up.
fn divide(number: u64, weights: &[u64], parts: &mut [u64]) {
    let whole: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    // A product of the number and a sum of weights must fit.
    let shift = 64_u32.saturating_sub(whole.leading_zeros());
    let scaled = |weight: &u64| u128::from(weight >> shift);
    let all: u128 = weights.iter().map(scaled).sum();
    let (mut sum, mut before) = (0_u128, 0_u64);
    for (part, weight) in parts.iter_mut().zip(weights) {
        sum += scaled(weight);
        let border = (u128::from(number) * sum / all) as u64;
        (*part, before) = (border - before, border);
    }
}

/// Bits of each link, by bin: the input of its deficits.
#[derive(Debug, Clone)]
pub struct DeficitBook {
    links: Vec<LinkBook>,
}

#[derive(Debug, Clone)]
struct LinkBook {
    injected: Bins,
    moved: Bins,
    failed: Bins,
    lost: Bins,
    /// Nanoseconds in which the injector held back because of what waited.
    backlogged: Bins,
}

impl DeficitBook {
    /// Begins for so many links, with bins of the width of the signals.
    pub fn new(links: usize, width: Duration) -> Self {
        let bins = || Bins::new(width);
        let book = LinkBook {
            injected: bins(),
            moved: bins(),
            failed: bins(),
            lost: bins(),
            backlogged: bins(),
        };
        Self {
            links: vec![book; links],
        }
    }

    /// Bytes were asked of a link at a moment.
    pub fn injected(&mut self, link: usize, bytes: u64, at: Duration) {
        self.links[link].injected.add(bytes, at, at);
    }

    /// Bytes moved between two moments, whatever became of them.
    pub fn moved(&mut self, link: usize, bytes: u64, (from, to): (Duration, Duration)) {
        self.links[link].moved.add(bytes, from, to.max(from));
    }

    /// Bytes among those that moved came to nothing.
    pub fn failed(&mut self, link: usize, bytes: u64, (from, to): (Duration, Duration)) {
        self.links[link].failed.add(bytes, from, to.max(from));
    }

    /// A file was given up: nobody waits for its bytes any more.
    pub fn lost(&mut self, link: usize, bytes: u64, at: Duration) {
        self.links[link].lost.add(bytes, at, at);
    }

    /// The injector held files back between two moments, because too many waited already.
    pub fn held_back(&mut self, link: usize, (from, to): (Duration, Duration)) {
        let nanos = u64::try_from(to.saturating_sub(from).as_nanos()).unwrap_or(u64::MAX);
        self.links[link].backlogged.add(nanos, from, to.max(from));
    }

    /// The deficits of every link of which a rate is asked. Rates are asked until `hold_end`.
    pub fn report(&self, links: &[LinkSpec], signals: &Signals, hold_end: Duration) -> Vec<LinkDeficit> {
        let asked = links.iter().enumerate().filter(|(_, link)| !link.curves.is_empty());
        asked
            .map(|(at, link)| self.links[at].report(at, link, signals, hold_end))
            .collect()
    }
}

impl LinkBook {
    fn widen(&self, width: Duration) -> Self {
        let mut wide = self.clone();
        for bins in [
            &mut wide.injected,
            &mut wide.moved,
            &mut wide.failed,
            &mut wide.lost,
            &mut wide.backlogged,
        ] {
            while bins.width() < width {
                bins.double();
            }
        }
        wide
    }

    fn report(&self, at: usize, link: &LinkSpec, signals: &Signals, hold_end: Duration) -> LinkDeficit {
        let width = signals.width();
        let book = self.widen(width);
        let last = [&book.injected, &book.moved, &book.lost]
            .map(|bins| bins.filled().end)
            .into_iter()
            .max();
        let asked_bins = hold_end.as_nanos().div_ceil(width.as_nanos()) as usize;
        let n_bins = last.unwrap_or(0).max(asked_bins);
        let mut deficit = LinkDeficit::new(link, width);
        // Injected and still to come, in bytes, at the beginning of the bin.
        let mut waiting = 0_i128;
        for bin in 0..n_bins {
            let of = |bins: &Bins| i128::from(bins.get(bin));
            let available = waiting + of(&book.injected) - of(&book.lost);
            let asked = asked_bits(&link.curves, (bin, width), hold_end);
            let waits: Vec<_> = signals.bin(at, bin).collect();
            // Where nothing waits, nothing can have held the injector back.
            let nanos = if waits.is_empty() { 0 } else { book.backlogged.get(bin) };
            let held_back = part_of(asked, nanos, width);
            let bits = Moved {
                asked,
                available: bits(available).max(held_back),
                moved: bits(of(&book.moved)),
                failed: bits(of(&book.failed)),
            };
            waiting = available - of(&book.moved) + of(&book.failed);
            let weights: Vec<u64> = waits.iter().map(|wait| wait.nanos).collect();
            let parts = split(bits, &weights);
            deficit.push(bin, bits, &parts);
            for (wait, part) in waits.iter().zip(&parts.waited) {
                deficit.add(
                    bin,
                    (DeficitPart::Waited, Some(wait.wait), wait.place),
                    as_signed(*part),
                );
            }
        }
        deficit
    }
}

/// The part of some bits that so many nanoseconds are of a bin.
fn part_of(bits: u64, nanos: u64, width: Duration) -> u64 {
    let part = u128::from(bits) * u128::from(nanos) / width.as_nanos().max(1);
    u64::try_from(part).unwrap_or(u64::MAX).min(bits)
}

fn bits(bytes: i128) -> u64 {
    u64::try_from(bytes.max(0).saturating_mul(8)).unwrap_or(u64::MAX)
}

/// Bits that are asked in a bin, until the end of the hold.
fn asked_bits(curves: &[AskedCurve], (bin, width): (usize, Duration), hold_end: Duration) -> u64 {
    let from = width * u32::try_from(bin).expect("fewer than four billion bins");
    let to = (from + width).min(hold_end);
    let of = |curve: &AskedCurve| curve.bits_until(to).saturating_sub(curve.bits_until(from.min(to)));
    curves.iter().map(of).sum()
}

fn as_signed(bits: u64) -> i64 {
    i64::try_from(bits).unwrap_or(i64::MAX)
}

/// The kinds of parts of a deficit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeficitPart {
    /// Bits that no workload had asked for yet.
    NotInjected,
    /// Bits that moved in attempts that failed.
    Failed,
    /// Bits that did not move while transfers waited.
    Waited,
    /// Bits that did not move though no transfer was seen to wait.
    Unexplained,
    /// Bits that moved beyond those asked for in the bin: negative.
    Ahead,
}

/// The deficits of one link: `asked − achieved` is the sum of the parts in each bin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkDeficit {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Bits asked for in each bin.
    pub asked_bits: Vec<u64>,
    /// Bits that moved in each bin, without those of attempts that failed; negative where more failed than moved, because
    /// the bits of a failed attempt are spread over its time.
    pub achieved_bits: Vec<i64>,
    /// The parts.
    pub parts: Vec<PartSeries>,
}

/// One part of the deficits of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartSeries {
    /// Its kind.
    pub part: DeficitPart,
    /// The class that it speaks for.
    pub class: CauseClass,
    /// The state in which transfers waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// The place that they waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Sum of all bins.
    pub total_bits: i64,
    /// Bits in each bin; bins after the last have none.
    pub bits: Vec<i64>,
}

impl LinkDeficit {
    fn new(link: &LinkSpec, width: Duration) -> Self {
        Self {
            source: link.source.clone(),
            destination: link.destination.clone(),
            bin_s: width.as_secs_f64(),
            asked_bits: Vec::new(),
            achieved_bits: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn push(&mut self, bin: usize, bits: Moved, parts: &Parts) {
        self.asked_bits.push(bits.asked);
        self.achieved_bits.push(as_signed(bits.moved) - as_signed(bits.failed));
        for (part, bits) in [
            (DeficitPart::NotInjected, as_signed(parts.not_injected)),
            (DeficitPart::Failed, as_signed(parts.failed)),
            (DeficitPart::Unexplained, as_signed(parts.unexplained)),
            (DeficitPart::Ahead, -as_signed(parts.ahead)),
        ] {
            self.add(bin, (part, None, None), bits);
        }
    }

    fn add(&mut self, bin: usize, (part, wait, place): (DeficitPart, Option<Wait>, Option<&Place>), bits: i64) {
        if bits == 0 {
            return;
        }
        let is_it = |known: &PartSeries| (known.part, known.wait, known.place.as_ref()) == (part, wait, place);
        let at = self.parts.iter().position(is_it).unwrap_or_else(|| {
            self.parts.push(PartSeries {
                part,
                class: class_of(part, wait),
                wait,
                place: place.cloned(),
                total_bits: 0,
                bits: Vec::new(),
            });
            self.parts.len() - 1
        });
        let series = &mut self.parts[at];
        series.bits.resize(bin + 1, 0);
        series.bits[bin] += bits;
        series.total_bits += bits;
    }
}

fn class_of(part: DeficitPart, wait: Option<Wait>) -> CauseClass {
    match part {
        DeficitPart::NotInjected => CauseClass::Workload,
        DeficitPart::Waited => wait.map_or(CauseClass::Other, Wait::class),
        DeficitPart::Failed | DeficitPart::Unexplained => CauseClass::Other,
        DeficitPart::Ahead => CauseClass::None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use weir_units::BitRate;
    use weir_world::PlaceKind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_not_injected_is_nobodys_wait() {
        let bits = Moved {
            asked: 100,
            available: 30,
            moved: 20,
            failed: 0,
        };
        let parts = split(bits, &[1, 3]);
        assert_eq!((parts.not_injected, parts.waited.as_slice()), (70, [2, 8].as_slice()));
        let caught_up = split(Moved { moved: 150, ..bits }, &[1]);
        assert_eq!((caught_up.ahead, caught_up.not_injected), (50, 0));
        assert_eq!(split(Moved { available: 90, ..bits }, &[]).unexplained, 70);
    }

    proptest! {
        /// Not a bit is lost.
        #[test]
        fn parts_add_up(asked: u64, available: u64, moved: u64, failed: u64, weights in proptest::collection::vec(any::<u64>(), 0..9)) {
            let parts = split(Moved { asked, available, moved, failed }, &weights);
            let waited: u128 = parts.waited.iter().map(|part| u128::from(*part)).sum();
            let missing = u128::from(parts.not_injected) + u128::from(parts.unexplained) + waited;
            prop_assert_eq!(u128::from(asked) + u128::from(parts.ahead), u128::from(moved) + missing);
        }
    }

    #[test]
    fn the_deficit_of_a_link_is_the_sum_of_its_parts() {
        let link = LinkSpec {
            source: "RAL".to_owned(),
            destination: "QMUL".to_owned(),
            source_site: 0,
            destination_site: 1,
            asked: Some(BitRate(8_000)),
            curves: vec![AskedCurve {
                rate: BitRate(8_000),
                from: Duration::ZERO,
                full: 2 * SECOND,
                until: 5 * SECOND,
            }],
            file_bytes: None,
        };
        let mut signals = Signals::new(SECOND);
        let disk = Place::new(PlaceKind::RseIn, "QMUL");
        let number = signals.place(&disk);
        signals.add(0, (Wait::Disk, Some(number)), 4 * SECOND, (SECOND, 5 * SECOND));
        let mut book = DeficitBook::new(1, SECOND);
        book.injected(0, 3_000, SECOND / 2);
        book.moved(0, 1_600, (SECOND, 5 * SECOND));
        book.failed(0, 400, (SECOND, 2 * SECOND));
        let report = &book.report(&[link], &signals, 5 * SECOND)[0];
        assert_eq!(report.asked_bits, [2_000, 6_000, 8_000, 8_000, 8_000]);
        assert_eq!(report.achieved_bits, [0, 0, 3_200, 3_200, 3_200]);
        for bin in 0..5 {
            let parts: i64 = report.parts.iter().filter_map(|part| part.bits.get(bin)).sum();
            assert_eq!(
                report.asked_bits[bin] as i64 - report.achieved_bits[bin],
                parts,
                "{bin}"
            );
        }
        let waited = report
            .parts
            .iter()
            .find(|part| part.part == DeficitPart::Waited)
            .unwrap();
        assert_eq!(
            (waited.place.as_ref(), waited.class),
            (Some(&disk), CauseClass::StorageDataPath)
        );
        assert_eq!(
            report.parts.iter().map(|part| part.total_bits).sum::<i64>(),
            32_000 - 9_600
        );
    }
}
