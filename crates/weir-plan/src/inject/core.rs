//! The injector's loop over all links of a workload.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_model::{Link, RseName};
use weir_units::{Bytes, Timestamp};

use super::ledger::{Held, LedgerRow, Tally};
use super::link::LinkState;
use super::places::places;
use super::{ID_BITS, Injection, LinkObservation};
use crate::phases::Phases;
use crate::plan::{Plan, Workload};
use crate::spec::Inject;

/// Holds the links of one `rates` workload at their asked rates; see the [module](crate::inject).
///
/// Call it with observations whenever an injection may be due ([`RatesCore::next_due`]), at least once per cycle.
#[derive(Debug, Clone)]
pub struct RatesCore {
    workload: usize,
    start: Timestamp,
    phases: Phases,
    cycle: Duration,
    links: Vec<LinkState>,
    index: BTreeMap<Link, usize>,
    space_left: BTreeMap<RseName, Bytes>,
    n_injected: u64,
    /// The latest `now` given; time does not go back.
    now: Timestamp,
    /// Where the open rows of the ledger begin.
    row_from: Timestamp,
    ledger: Vec<LedgerRow>,
}

impl RatesCore {
    /// Makes the injector of one workload of a plan, for a run whose ramp begins at `start`; a workload may begin later.
    ///
    /// `None` if the plan has no workload of that index, or its kind is not `rates`.
    pub fn new(plan: &Plan, workload: usize, start: Timestamp) -> Option<RatesCore> {
        let Some(Workload::Rates(rates)) = plan.workloads.get(workload) else {
            return None;
        };
        let in_batches = rates.inject == Inject::Rules;
        let places = places(&rates.links, plan.seed);
        let state = |(rated, place)| {
            let link = LinkState::new(rated, &rates.phases, rates.cycle, place, in_batches);
            if rates.is_loop { link.looping() } else { link }
        };
        Some(RatesCore {
            workload,
            start: start + rates.start,
            phases: rates.phases,
            cycle: rates.cycle,
            links: rates.links.iter().zip(places).map(state).collect(),
            index: rates
                .links
                .iter()
                .enumerate()
                .map(|(at, rated)| (rated.link.clone(), at))
                .collect(),
            space_left: BTreeMap::new(),
            n_injected: 0,
            now: start + rates.start,
            row_from: start + rates.start,
            ledger: Vec::new(),
        })
    }

    /// Takes observations and appends the injections that are due.
    ///
    /// A link without observation keeps its last one; links of other workloads are ignored. The driver counts an injection as queued from
    /// the moment it gets it until it has arrived or failed. Injections come in the order of their due times; those of one moment in the
    /// order of the plan's links. Before `start` and after the hold there are none.
    pub fn cycle(&mut self, now: Timestamp, observed: &[LinkObservation], out: &mut Vec<Injection>) {
        if now < self.start {
            return;
        }
        let now = now.max(self.now);
        self.close_rows(now);
        self.observe(observed);
        let elapsed = now.since(self.start);
        self.now = now;
        for (wanted, at) in self.candidates(elapsed) {
            if self.reserve(at) {
                out.push(self.inject(at, self.start + wanted));
            }
        }
    }

    /// Gives the moment at which [`RatesCore::cycle`] should be called again, at most one cycle from now; `None` after
    /// the hold.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        if now < self.start {
            return Some(self.start);
        }
        if now.since(self.start) >= self.phases.end() {
            return None;
        }
        let next = self.links.iter().map(|link| self.start + link.next_due()).min()?;
        let soonest = now + self.cycle / 100; // what is due but held back waits for an observation, not for us
        Some(next.max(soonest).min(now + self.cycle).max(self.start))
    }

    /// Says whether the hold is over, so that nothing will be injected any more.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.since(self.start) >= self.phases.end()
    }

    /// Takes the rows of the ledger that are complete, in the order of time, then of links.
    pub fn take_ledger(&mut self) -> Vec<LedgerRow> {
        std::mem::take(&mut self.ledger)
    }

    /// Closes the ledger at the end of injection: the last, shorter cycle becomes a row too.
    pub fn finish(&mut self, now: Timestamp) {
        self.close_rows(now);
        if now > self.row_from {
            self.push_rows(now);
        }
    }

    fn observe(&mut self, observed: &[LinkObservation]) {
        for seen in observed {
            let Some(at) = self.index.get(&seen.link) else { continue };
            self.links[*at].observe(seen);
            match seen.space_left {
                Some(space) => self.space_left.insert(seen.link.destination.clone(), space),
                None => self.space_left.remove(&seen.link.destination),
            };
        }
    }

    /// Injections that may happen now, each with its due time, in order.
    fn candidates(&mut self, elapsed: Duration) -> Vec<(Duration, usize)> {
        let mut candidates = Vec::new();
        for (at, link) in self.links.iter_mut().enumerate() {
            let allowed = link.allowance(elapsed);
            let first = link.covered();
            candidates.extend((first..first + allowed).map(|place| (link.wanted_at(place, elapsed), at)));
        }
        candidates.sort_unstable();
        candidates
    }

    /// Sets space aside at the destination, if it is known: behind everything that is queued for it.
    fn reserve(&mut self, at: usize) -> bool {
        let destination = &self.links[at].rated.link.destination;
        let Some(space) = self.space_left.get(destination) else {
            return true;
        };
        let to_it = |link: &&LinkState| link.rated.link.destination == *destination;
        let queued: Bytes = self.links.iter().filter(to_it).map(|link| link.queued).sum();
        let fits = queued + self.links[at].rated.file_size <= *space;
        if !fits {
            self.links[at].hold_back(Held::Space);
        }
        fits
    }

    fn inject(&mut self, at: usize, wanted_at: Timestamp) -> Injection {
        let link = &mut self.links[at];
        let late = self.now.since(wanted_at);
        let number = link.inject(late);
        let id = ((self.workload as u64) << ID_BITS) | self.n_injected;
        self.n_injected += 1;
        Injection {
            id,
            workload: self.workload,
            link: link.rated.link.clone(),
            place: at,
            file: (number % u64::from(link.rated.source_files)) as u32,
            size: link.rated.file_size,
            wanted_at,
            injected_at: self.now,
            late,
        }
    }

    /// Closes the rows of every cycle that ended by `now`.
    fn close_rows(&mut self, now: Timestamp) {
        let cycle = u64::try_from(self.cycle.as_nanos()).unwrap_or(u64::MAX);
        let cycles = u64::try_from(now.since(self.row_from).as_nanos()).unwrap_or(u64::MAX) / cycle;
        if cycles > 0 {
            self.push_rows(Timestamp(self.row_from.0.saturating_add(cycles.saturating_mul(cycle))));
        }
    }

    fn push_rows(&mut self, to: Timestamp) {
        let from = self.row_from;
        let wanted_by = |link: &LinkState, moment: Timestamp| {
            if moment <= self.start {
                0
            } else {
                link.wanted_by(moment.since(self.start))
            }
        };
        for link in &mut self.links {
            let Tally {
                injected,
                given_up,
                late_max,
                held,
            } = std::mem::take(&mut link.tally);
            self.ledger.push(LedgerRow {
                from,
                to,
                workload: self.workload,
                link: link.rated.link.clone(),
                size: link.rated.file_size,
                wanted: wanted_by(link, to) - wanted_by(link, from),
                injected,
                given_up,
                owed: wanted_by(link, to).saturating_sub(link.covered()),
                late_max,
                held,
                delivered: link.delivered,
                queued: link.queued,
                active: link.active,
            });
        }
        self.row_from = to;
    }
}
