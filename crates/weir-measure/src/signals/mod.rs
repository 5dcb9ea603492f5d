//! The waits of the transfers of each link, in bins of time.
//!
//! Both worlds feed it: the scheduler's account of its queue, the phases of attempts, the states of data paths. Times are
//! sums over transfers in nanoseconds, spread over the bins that they touch in integers, so that nothing is lost or
//! counted twice however the axis is cut.

mod places;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_world::{Place, Wait, WaitPhase};

use crate::spec::LinkSpec;
use crate::spread::Bins;
use places::Places;

pub use report::{LinkSignals, WaitSeries};

/// Bins that are kept at most; a longer run has wider ones.
const BINS_MAX: usize = 1_200;

/// Waits by link, state and place; see the module.
#[derive(Debug, Clone)]
pub struct Signals {
    width: Duration,
    places: Places,
    rows: BTreeMap<Key, Bins>,
    known: BTreeSet<(usize, WaitPhase)>,
}

/// Link, state, and place by number.
type Key = (usize, Wait, Option<u32>);

/// A wait of one link in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitInBin<'s> {
    /// The state.
    pub wait: Wait,
    /// The place that is waited for.
    pub place: Option<&'s Place>,
    /// Sum over the transfers, in nanoseconds.
    pub nanos: u64,
}

impl Signals {
    /// Begins with bins of a width above zero.
    pub fn new(width: Duration) -> Self {
        Self {
            width,
            places: Places::default(),
            rows: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Adds the time that transfers of a link spent in a state between two moments, as a sum over the transfers. The
    /// moments count from the start of the run; an end before the beginning counts as the beginning.
    pub fn add(
        &mut self,
        link: usize,
        (wait, place): (Wait, Option<&Place>),
        time: Duration,
        (from, to): (Duration, Duration),
    ) {
        self.know(link, wait.phase());
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return;
        }
        self.make_room(to.max(from));
        let place = place.map(|place| self.places.number(place));
        let width = self.width;
        let bins = self.rows.entry((link, wait, place)).or_insert_with(|| Bins::new(width));
        bins.add(nanos, from, to.max(from));
    }

    /// The states of a phase are measured on this link, whether or not anything waits in them.
    pub fn know(&mut self, link: usize, phase: WaitPhase) {
        self.known.insert((link, phase));
    }

    fn make_room(&mut self, at: Duration) {
        while at.as_nanos() / self.width.as_nanos() >= BINS_MAX as u128 {
            self.width *= 2;
            self.rows.values_mut().for_each(Bins::double);
        }
    }

    /// Width of the bins.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// The waits of a link in a bin, in the order of a transfer's life.
    pub fn bin(&self, link: usize, bin: usize) -> impl Iterator<Item = WaitInBin<'_>> {
        let waits = self.of(link).map(move |(wait, place, bins)| WaitInBin {
            wait,
            place,
            nanos: bins.get(bin),
        });
        waits.filter(|wait| wait.nanos > 0)
    }

    /// The rows of a link.
    fn of(&self, link: usize) -> impl Iterator<Item = (Wait, Option<&Place>, &Bins)> {
        let rows = self
            .rows
            .range((link, Wait::ALL[0], None)..(link + 1, Wait::ALL[0], None));
        rows.map(|((_, wait, place), bins)| (*wait, place.map(|place| self.places.get(place)), bins))
    }

    /// Share of each state in all waits of a link; empty if it never waited.
    pub fn shares(&self, link: usize) -> BTreeMap<Wait, f64> {
        let mut sums: BTreeMap<Wait, u64> = BTreeMap::new();
        for (wait, _, bins) in self.of(link) {
            *sums.entry(wait).or_default() += bins.sum();
        }
        let all: u64 = sums.values().sum();
        sums.into_iter()
            .map(|(wait, nanos)| (wait, nanos as f64 / all as f64))
            .collect()
    }

    /// The signals of every link, in the order of the links.
    pub fn report(&self, links: &[LinkSpec]) -> Vec<LinkSignals> {
        links
            .iter()
            .enumerate()
            .filter_map(|(at, link)| self.report_of(at, link))
            .collect()
    }

    fn report_of(&self, at: usize, link: &LinkSpec) -> Option<LinkSignals> {
        let known = WaitPhase::ALL
            .iter()
            .filter(|phase| self.known.contains(&(at, **phase)));
        let known: Vec<WaitPhase> = known.copied().collect();
        let waits: Vec<WaitSeries> = self
            .of(at)
            .map(|(wait, place, bins)| WaitSeries::of(wait, place, bins))
            .collect();
        (!known.is_empty()).then(|| LinkSignals {
            source: link.source.clone(),
            destination: link.destination.clone(),
            bin_s: self.width.as_secs_f64(),
            known,
            waits,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use weir_world::PlaceKind;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn link(source: &str) -> LinkSpec {
        LinkSpec {
            source: source.to_owned(),
            destination: "QMUL".to_owned(),
            source_site: 0,
            destination_site: 1,
            asked: None,
            curves: Vec::new(),
            file_bytes: None,
        }
    }

    #[test]
    fn a_wait_is_spread_over_its_bins() {
        let mut signals = Signals::new(SECOND);
        let place = Place::new(PlaceKind::RseIn, "QMUL");
        // Two transfers waited from 0.5 s to 2.5 s.
        signals.add(1, (Wait::Slots, Some(&place)), 4 * SECOND, (SECOND / 2, 5 * SECOND / 2));
        let of = |bin| signals.bin(1, bin).map(|wait| wait.nanos).collect::<Vec<_>>();
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [vec![1_000_000_000], vec![2_000_000_000], vec![1_000_000_000], vec![]]
        );
        let report = signals.report(&[link("RAL"), link("CNAF")]);
        assert_eq!(report.len(), 1, "nothing is known of the other link");
        assert_eq!(report[0].source, "CNAF");
        assert_eq!(report[0].known, [WaitPhase::Queue]);
        assert_eq!(report[0].waits[0].place.as_ref(), Some(&place));
        assert_eq!(report[0].waits[0].seconds, [1.0, 2.0, 1.0]);
        assert_eq!(signals.shares(1)[&Wait::Slots].to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn unknown_is_not_zero() {
        let mut signals = Signals::new(SECOND);
        signals.know(0, WaitPhase::Queue);
        let report = signals.report(&[link("RAL")]);
        assert_eq!(
            (report[0].known.as_slice(), report[0].waits.len()),
            ([WaitPhase::Queue].as_slice(), 0)
        );
        assert!(Signals::new(SECOND).report(&[link("RAL")]).is_empty());
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_negative_wait() {
        let mut signals = Signals::new(SECOND);
        signals.add(0, (Wait::Data, None), SECOND, (9 * SECOND, 2 * SECOND));
        assert_eq!(signals.bin(0, 9).map(|wait| wait.nanos).sum::<u64>(), 1_000_000_000);
    }

    proptest! {
        /// However long a run becomes, no nanosecond is lost.
        #[test]
        fn sums_stay_whole(waits in proptest::collection::vec((0..3_usize, 0..5_usize, 0..9_000_u64, 0..9_000_u64), 1..30)) {
            let mut signals = Signals::new(SECOND);
            let mut sum = 0;
            for (link, wait, from, length) in waits {
                let (from, length) = (Duration::from_millis(from * 777), Duration::from_millis(length * 333));
                signals.add(link, (Wait::ALL[wait], None), length, (from, from + length));
                sum += length.as_nanos();
            }
            let all: u64 = (0..3).flat_map(|link| (0..BINS_MAX).map(move |bin| (link, bin)))
                .map(|(link, bin)| signals.bin(link, bin).map(|wait| wait.nanos).sum::<u64>())
                .sum();
            prop_assert_eq!(u128::from(all), sum);
        }
    }
}
