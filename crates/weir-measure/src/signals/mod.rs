//! The waits of the transfers of each link, in bins of time.
//!
//! Both worlds feed it: the scheduler's account of its queue, the phases of attempts, the states of data paths. Times are
//! sums over transfers in nanoseconds, spread over the bins that they touch in integers, so that nothing is lost or
//! counted twice however the axis is cut.

mod holders;
mod link_rows;
mod places;
mod report;
pub mod rows;
mod telling;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_world::{ErrorClass, Party, Place, Wait, WaitPhase};

use crate::spec::LinkSpec;
use crate::spread::Bins;
use holders::Holders;
use link_rows::{LinkRows, Row};
use places::Places;

pub use link_rows::PlaceId;
pub use report::{FailureSeries, Holder, LinkSignals, SlotSeries, WaitSeries};
pub use rows::SignalRow;
pub use telling::Telling;

/// Bins that are kept at most; a longer run has wider ones.
const BINS_MAX: u32 = 1_200;

/// Waits by link, state and place; see the module.
#[derive(Debug, Clone)]
pub struct Signals {
    width: Duration,
    places: Places,
    links: Vec<LinkRows>,
}

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
            links: Vec::new(),
        }
    }

    /// The number of a place, which is noted if it is new.
    pub fn place(&mut self, place: &Place) -> PlaceId {
        PlaceId(self.places.number(place))
    }

    /// Adds the time that transfers of a link spent in a state between two moments, as a sum over the transfers. The
    /// moments count from the start of the run; an end before the beginning counts as the beginning.
    pub fn add(
        &mut self,
        link: usize,
        (wait, place): (Wait, Option<PlaceId>),
        time: Duration,
        (from, to): (Duration, Duration),
    ) {
        let to = to.max(from);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return self.know(link, wait.phase());
        }
        self.make_room(to);
        let width = self.width;
        let link = self.link(link);
        link.known[wait.phase() as usize] = true;
        let found = link.rows.iter().position(|row| (row.wait, row.place) == (wait, place));
        let at = found.unwrap_or_else(|| {
            let bins = Bins::new(width);
            link.rows.push(Row { wait, place, bins });
            link.rows.len() - 1
        });
        link.rows[at].bins.add(nanos, from, to);
    }

    /// Adds the time that transfers of a link held slots at a place between two moments, as a sum over the transfers.
    pub fn hold(&mut self, link: usize, place: PlaceId, time: Duration, (from, to): (Duration, Duration)) {
        let to = to.max(from);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.make_room(to);
        let width = self.width;
        let held = &mut self.link(link).held;
        let at = held.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            held.push((place, Bins::new(width)));
            held.len() - 1
        });
        held[at].1.add(nanos, from, to);
    }

    /// Counts attempts of a link that failed between two moments, whatever became of their transfers.
    pub fn fail(
        &mut self,
        link: usize,
        failure: (ErrorClass, Option<Party>),
        count: u64,
        (from, to): (Duration, Duration),
    ) {
        let to = to.max(from);
        self.make_room(to);
        let width = self.width;
        let failed = &mut self.link(link).failed;
        let at = failed
            .iter()
            .position(|(known, _)| *known == failure)
            .unwrap_or_else(|| {
                failed.push((failure, Bins::new(width)));
                failed.len() - 1
            });
        failed[at].1.add(count, from, to);
    }

    /// Adds a row that a run wrote.
    pub fn add_row(&mut self, row: &SignalRow) {
        if let Some((class, party, attempts)) = row.failed {
            return self.fail(row.link, (class, Some(party)), attempts, row.span);
        }
        let place = row.place.as_ref().map(|place| self.place(place));
        match (row.wait, place) {
            (Some(wait), place) => self.add(row.link, (wait, place), row.time, row.span),
            (None, Some(place)) => self.hold(row.link, place, row.time, row.span),
            (None, None) => {}
        }
    }

    /// The states of a phase are measured on this link, whether or not anything waits in them.
    pub fn know(&mut self, link: usize, phase: WaitPhase) {
        self.link(link).known[phase as usize] = true;
    }

    fn link(&mut self, link: usize) -> &mut LinkRows {
        if self.links.len() <= link {
            self.links.resize(link + 1, LinkRows::default());
        }
        &mut self.links[link]
    }

    fn make_room(&mut self, at: Duration) {
        while at >= self.width * BINS_MAX {
            self.width *= 2;
            for link in &mut self.links {
                link.rows.iter_mut().for_each(|row| row.bins.double());
                link.held.iter_mut().for_each(|(_, bins)| bins.double());
                link.failed.iter_mut().for_each(|(_, bins)| bins.double());
            }
        }
    }

    /// Width of the bins.
    pub fn width(&self) -> Duration {
        self.width
    }

    /// The waits of a link in a bin, in the order of a transfer's life.
    pub fn bin(&self, link: usize, bin: usize) -> impl Iterator<Item = WaitInBin<'_>> {
        let waits = self.of(link).into_iter().map(move |(wait, place, bins)| WaitInBin {
            wait,
            place,
            nanos: bins.get(bin),
        });
        waits.filter(|wait| wait.nanos > 0)
    }

    /// The rows of a link, in the order of states and places.
    fn of(&self, link: usize) -> Vec<(Wait, Option<&Place>, &Bins)> {
        let rows = self.rows(link).into_iter();
        rows.map(|row| (row.wait, self.named(row.place), &row.bins)).collect()
    }

    fn rows(&self, link: usize) -> Vec<&Row> {
        let rows = self.links.get(link).into_iter().flat_map(|link| &link.rows);
        let mut rows: Vec<&Row> = rows.collect();
        rows.sort_by_key(|row| (row.wait, self.named(row.place)));
        rows
    }

    fn named(&self, place: Option<PlaceId>) -> Option<&Place> {
        place.map(|place| self.places.get(place.0))
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
        let holders = Holders::of(&self.links);
        links
            .iter()
            .enumerate()
            .filter_map(|(at, link)| self.report_of(at, link, (&holders, links)))
            .collect()
    }

    fn report_of(
        &self,
        at: usize,
        link: &LinkSpec,
        (holders, all): (&Holders<'_>, &[LinkSpec]),
    ) -> Option<LinkSignals> {
        let LinkRows {
            known: is_known,
            held,
            failed,
            ..
        } = self.links.get(at)?;
        let known = WaitPhase::ALL.iter().zip(is_known).filter(|(_, is_known)| **is_known);
        let known: Vec<WaitPhase> = known.map(|(phase, _)| *phase).collect();
        let series = |row: &Row| {
            let holders = holders.waited_for(row);
            let named = holders
                .into_iter()
                .filter_map(|(link, nanos)| Some(Holder::of(all.get(link)?, nanos)));
            WaitSeries {
                holders: named.collect(),
                ..WaitSeries::of(row.wait, self.named(row.place), &row.bins)
            }
        };
        let waits: Vec<WaitSeries> = self.rows(at).into_iter().map(series).collect();
        let way = held.iter().map(|(place, bins)| (self.places.get(place.0), bins));
        (!known.is_empty()).then(|| LinkSignals {
            source: link.source.clone(),
            destination: link.destination.clone(),
            bin_s: self.width.as_secs_f64(),
            known,
            waits,
            slots: SlotSeries::of(way),
            failures: FailureSeries::of(failed),
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
        let number = signals.place(&place);
        signals.add(1, (Wait::Slots, Some(number)), 4 * SECOND, (SECOND / 2, 5 * SECOND / 2));
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
            let all: u64 = (0..3).flat_map(|link| (0..BINS_MAX as usize).map(move |bin| (link, bin)))
                .map(|(link, bin)| signals.bin(link, bin).map(|wait| wait.nanos).sum::<u64>())
                .sum();
            prop_assert_eq!(u128::from(all), sum);
        }
    }
}
