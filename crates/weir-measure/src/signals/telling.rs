//! Signals as services tell them, which is less than what a simulator knows.

use std::time::Duration;

use weir_world::{Wait, WaitPhase};

use super::Signals;
use super::link_rows::{PlaceId, Row};

/// How much of the waits is told, and how exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Telling {
    /// States of data come with the markers of a copy: they are told so much later.
    pub delay: Duration,
    /// Share of the time of data that is told as `data`, without a place, from 0 to 1.
    pub unsplit: f64,
    /// Share by which a time may be told too long, or in the same proportion too short.
    pub error: f64,
}

impl Signals {
    /// The signals as they are told. Of a silent link nothing is known but the queue and the catalogue. `draw` gives numbers from 0 to
    /// below 1, one for each state and bin.
    #[must_use]
    pub fn told(&self, telling: &Telling, is_silent: impl Fn(usize) -> bool, mut draw: impl FnMut() -> f64) -> Self {
        let mut told = Self {
            places: self.places.clone(),
            ..Self::new(self.width)
        };
        for (number, link) in self.links.iter().enumerate() {
            let hides = |phase: WaitPhase| {
                let of_attempt = matches!(phase, WaitPhase::Begin | WaitPhase::Data | WaitPhase::End);
                of_attempt && is_silent(number)
            };
            for phase in WaitPhase::ALL.iter().filter(|phase| link.known[**phase as usize]) {
                if !hides(*phase) {
                    told.know(number, *phase);
                }
            }
            for row in link.rows.iter().filter(|row| !hides(row.wait.phase())) {
                told.tell_row(number, row, telling, &mut draw);
            }
            for (failure, bins) in &link.failed {
                for bin in bins.filled() {
                    let at = self.span(bin).0;
                    told.fail(number, *failure, bins.get(bin), (at, at));
                }
            }
            for (place, bins) in &link.held {
                for bin in bins.filled() {
                    told.hold(number, *place, Duration::from_nanos(bins.get(bin)), self.span(bin));
                }
            }
        }
        told
    }

    fn tell_row(&mut self, link: usize, row: &Row, telling: &Telling, draw: &mut impl FnMut() -> f64) {
        let is_data = row.wait.phase() == WaitPhase::Data;
        let (delay, unsplit) = if is_data {
            (telling.delay, telling.unsplit)
        } else {
            (Duration::ZERO, 0.0)
        };
        for bin in row.bins.filled() {
            let exact = Duration::from_nanos(row.bins.get(bin));
            let time = exact.mul_f64(factor(telling.error, draw()));
            let (from, to) = row_span(row, bin);
            let span = (from + delay, to + delay);
            let hidden = time.mul_f64(unsplit);
            self.add_if(link, (Wait::Data, None), hidden, span);
            self.add_if(link, (row.wait, row.place), time.saturating_sub(hidden), span);
        }
    }

    fn add_if(&mut self, link: usize, wait: (Wait, Option<PlaceId>), time: Duration, span: (Duration, Duration)) {
        if !time.is_zero() {
            self.add(link, wait, time, span);
        }
    }

    fn span(&self, bin: usize) -> (Duration, Duration) {
        let at = |bin: usize| self.width * u32::try_from(bin).unwrap_or(u32::MAX);
        (at(bin), at(bin + 1))
    }
}

fn row_span(row: &Row, bin: usize) -> (Duration, Duration) {
    let at = |bin: usize| row.bins.width() * u32::try_from(bin).unwrap_or(u32::MAX);
    (at(bin), at(bin + 1))
}

/// A factor between 1 ÷ (1 + error) and 1 + error. Both halves of the draw give as much as they take on average, nearly.
fn factor(error: f64, drawn: f64) -> f64 {
    if drawn < 0.5 {
        1.0 / (1.0 + error * (1.0 - 2.0 * drawn))
    } else {
        1.0 + error * (2.0 * drawn - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_world::{Place, PlaceKind};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn signals() -> Signals {
        let mut signals = Signals::new(SECOND);
        let disk = signals.place(&Place::new(PlaceKind::RseIn, "QMUL"));
        for link in 0..2 {
            signals.add(link, (Wait::Disk, Some(disk)), 4 * SECOND, (SECOND, 2 * SECOND));
            signals.add(link, (Wait::Slots, Some(disk)), 8 * SECOND, (SECOND, 2 * SECOND));
            signals.hold(link, disk, SECOND, (SECOND, 2 * SECOND));
        }
        signals
    }

    fn nanos(signals: &Signals, link: usize, wait: Wait) -> u64 {
        let bins = (0..20).flat_map(|bin| signals.bin(link, bin).collect::<Vec<_>>());
        bins.filter(|told| told.wait == wait).map(|told| told.nanos).sum()
    }

    #[test]
    fn a_service_that_tells_all_tells_the_same() {
        let (exact, all) = (signals(), Telling::default());
        let told = exact.told(&all, |_| false, || 0.3);
        for link in 0..2 {
            for bin in 0..5 {
                assert!(exact.bin(link, bin).eq(told.bin(link, bin)));
            }
        }
    }

    #[test]
    fn what_is_not_told_is_unknown() {
        let telling = Telling {
            delay: 2 * SECOND,
            unsplit: 0.25,
            error: 0.0,
        };
        let told = signals().told(&telling, |link| link == 1, || 0.5);
        assert_eq!(nanos(&told, 0, Wait::Data), 1_000_000_000);
        assert_eq!(nanos(&told, 0, Wait::Disk), 3_000_000_000);
        assert_eq!(told.bin(0, 1).map(|told| told.wait).collect::<Vec<_>>(), [Wait::Slots]);
        assert_eq!(nanos(&told, 1, Wait::Disk), 0);
        assert_eq!(nanos(&told, 1, Wait::Slots), 8_000_000_000);
        let phases = told.links.iter().map(|link| link.known[WaitPhase::Data as usize]);
        assert_eq!(phases.collect::<Vec<_>>(), [true, false]);
    }

    proptest! {
        #[test]
        fn an_error_stays_within_its_bounds(error in 0.0..4.0_f64, drawn in 0.0..1.0_f64) {
            let factor = factor(error, drawn);
            prop_assert!(factor >= 1.0 / (1.0 + error) - 1e-12 && factor <= 1.0 + error + 1e-12);
        }
    }
}
