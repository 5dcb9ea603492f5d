//! The workloads that hold rates: passes the due injections of their injectors to the engine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use weir_measure::report::Event;
use weir_model::Link;
use weir_plan::fault::WorkloadCondition;
use weir_plan::{Held, Inject, Injection, LedgerRow, LinkObservation, Plan, RatesCore};
use weir_units::{Bytes, Timestamp};

use crate::execute::engine::{Engine, Freed};
use crate::execute::record::{Wanted, WantedFile};
use crate::faults::{Broken, Condition};
use crate::inject::injection::InjectionDoor;

/// The numbers of a rated link's objects in the run.
#[derive(Debug, Clone)]
pub(crate) struct RatedPlaces {
    /// Number of the link.
    pub(crate) link: usize,
    /// Numbers of its source files; with rules, those whose copies are not at the destination, the longest free one
    /// first.
    pub(crate) sources: VecDeque<usize>,
    /// How many there are in all.
    pub(crate) n_sources: usize,
    /// Numbers of source files of other sizes, which faults ask for, by the size.
    pub(crate) smaller: BTreeMap<u64, usize>,
    /// Bytes that the injector counts as delivered though a fault left them out.
    pub(crate) skipped: u64,
}

/// The numbers of pieces of files have this bit, which those of whole files have not: it is the highest below the number of the workload.
const PIECES: u64 = 1 << 47;

/// One of so many source files may be kept from taking part again: the plan has a third more than take part.
const KEPT_PART: usize = 4;

/// All workloads of a plan that hold rates.
#[derive(Debug)]
pub(crate) struct RatesDriver {
    workloads: Vec<RatesWorkload>,
    /// Rows and events that have not been taken yet.
    ledger: Vec<LedgerRow>,
    events: Vec<Event>,
    given_up: u64,
    /// RSEs whose lack of space was reported.
    full: BTreeSet<String>,
    broken: Broken,
}

#[derive(Debug)]
struct RatesWorkload {
    number: usize,
    name: String,
    activity: String,
    by_rules: bool,
    is_loop: bool,
    lifetime: Duration,
    core: RatesCore,
    links: Vec<(Link, RatedPlaces)>,
    index: BTreeMap<Link, usize>,
    due: Option<Timestamp>,
    /// The state of its faults.
    condition: Condition,
    /// Pieces of files beside the first one of each.
    n_pieces: u64,
}

impl RatesDriver {
    /// Makes the driver of a plan; `None` if none of its workloads holds a rate.
    pub(crate) fn new(plan: &Plan, places: &BTreeMap<usize, Vec<RatedPlaces>>) -> Option<Self> {
        let workload = |(number, rates): (usize, &weir_plan::RatesPlan)| {
            let links: Vec<(Link, RatedPlaces)> = rates
                .links
                .iter()
                .map(|rated| rated.link.clone())
                .zip(places[&number].iter().cloned())
                .collect();
            RatesWorkload {
                number,
                name: rates.name.clone(),
                activity: rates.activity.clone(),
                by_rules: rates.inject == Inject::Rules,
                is_loop: rates.is_loop,
                lifetime: rates.lifetime,
                core: RatesCore::new(plan, number, Timestamp(0)).expect("the workload holds rates"),
                index: links
                    .iter()
                    .enumerate()
                    .map(|(index, (link, _))| (link.clone(), index))
                    .collect(),
                links,
                due: Some(Timestamp(0)),
                condition: Condition::default(),
                n_pieces: 0,
            }
        };
        let workloads: Vec<RatesWorkload> = plan.rates().map(workload).collect();
        let driver = Self {
            workloads,
            ledger: Vec::new(),
            events: Vec::new(),
            given_up: 0,
            full: BTreeSet::new(),
            broken: Broken::default(),
        };
        (!driver.workloads.is_empty()).then_some(driver)
    }

    /// The same, with faults of its workloads.
    pub(crate) fn with_faults(self, broken: &Broken) -> Self {
        Self {
            broken: broken.clone(),
            ..self
        }
    }

    /// Injects the files that are due.
    pub(crate) fn tick<D: InjectionDoor>(&mut self, now: Duration, engine: &mut Engine<D>) {
        let moment = timestamp(now);
        for freed in engine.take_freed() {
            self.free(freed);
        }
        for workload in &mut self.workloads {
            if workload.due.is_none_or(|due| due > moment) {
                continue;
            }
            let broken = self.broken.workload(&workload.name, now);
            let observed = workload.observe(engine);
            let active: u32 = observed.iter().map(|seen| seen.active).sum();
            if workload.condition.is_stopped(&broken, active as usize, moment) {
                continue; // it is looked at again in the next turn
            }
            let mut injections = Vec::new();
            workload.core.cycle(moment, &observed, &mut injections);
            workload.due = workload.core.next_due(moment);
            if let Some(comb) = broken.comb {
                workload.due = workload.due.map(|due| due.max(moment + comb));
            }
            workload.skip(&mut injections, &broken);
            workload.submit(&injections, &broken, engine);
        }
        self.close_rows(now);
    }

    /// A source file may take part again.
    fn free(&mut self, freed: Freed) {
        let workload = self
            .workloads
            .iter_mut()
            .find(|workload| workload.number == freed.workload);
        let link =
            workload.and_then(|workload| workload.links.iter_mut().find(|(_, places)| places.link == freed.link));
        if let Some((_, places)) = link {
            places.sources.push_back(freed.source);
        }
    }

    /// Ends injection: the ledger's last rows are closed.
    pub(crate) fn finish(&mut self, now: Duration) {
        for workload in &mut self.workloads {
            workload.core.finish(timestamp(now));
        }
        self.close_rows(now);
    }

    /// Takes the rows of the ledger since the last call, by time, then link.
    pub(crate) fn take_ledger(&mut self) -> Vec<LedgerRow> {
        std::mem::take(&mut self.ledger)
    }

    /// Takes the notable events of the injection since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns how many files were wanted so long before they could be injected that they were given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes in the rows of the cycles that have ended, and tells once of every RSE that injection waits for its space.
    fn close_rows(&mut self, now: Duration) {
        let rows: Vec<LedgerRow> = self
            .workloads
            .iter_mut()
            .flat_map(|workload| workload.core.take_ledger())
            .collect();
        self.given_up += rows.iter().map(|row| row.given_up).sum::<u64>();
        for row in rows.iter().filter(|row| row.held == Some(Held::Space)) {
            let rse = row.link.destination.to_string();
            if self.full.insert(rse.clone()) {
                let text = format!("injection into {rse} waits for space: stored files and files on their way fill it");
                self.events.push(Event {
                    t_s: now.as_secs_f64(),
                    text,
                });
            }
        }
        self.ledger.extend(rows);
    }
}

impl RatesWorkload {
    fn observe<D: InjectionDoor>(&self, engine: &Engine<D>) -> Vec<LinkObservation> {
        let observation = |(link, places): &(Link, RatedPlaces)| {
            let state = engine.link(self.number, places.link);
            LinkObservation {
                link: link.clone(),
                delivered: Bytes(state.delivered + places.skipped),
                queued: Bytes(state.unfinished),
                active: state.active,
                // With rules, space is the catalogue's to watch.
                space_left: engine
                    .space_left(self.number, places.link)
                    .filter(|_| !self.by_rules)
                    .map(Bytes),
                free_files: self.by_rules.then_some(places.sources.len() as u64),
            }
        };
        self.links.iter().map(observation).collect()
    }

    /// Leaves out files that a wrong volume leaves out: the injector counts them as delivered.
    fn skip(&mut self, injections: &mut Vec<Injection>, broken: &WorkloadCondition) {
        injections.retain(|injection| {
            let comes = self.condition.injects(broken);
            if !comes {
                self.links[self.index[&injection.link]].1.skipped += injection.size.0;
            }
            comes
        });
    }

    /// Submits the due injections, one job or one rule per link.
    fn submit<D: InjectionDoor>(
        &mut self,
        injections: &[Injection],
        broken: &WorkloadCondition,
        engine: &mut Engine<D>,
    ) {
        let mut files: BTreeMap<usize, Vec<WantedFile>> = BTreeMap::new();
        for injection in injections {
            let index = self.index[&injection.link];
            let places = &mut self.links[index].1;
            let source = if self.by_rules {
                places
                    .sources
                    .pop_front()
                    .expect("no more is injected than files are free")
            } else {
                places.sources[injection.file as usize]
            };
            let wanted = Duration::from_nanos(injection.wanted_at.0);
            let files = files.entry(index).or_default();
            let (source, n_pieces) = places.pieces(source, injection.size.0, broken);
            for piece in 0..n_pieces {
                files.push(WantedFile {
                    id: if piece == 0 {
                        injection.id
                    } else {
                        self.n_pieces += 1;
                        injection.id & !(PIECES - 1) | PIECES | self.n_pieces
                    },
                    source,
                    is_missing: self.condition.misses(broken),
                    wanted,
                });
            }
        }
        for (index, files) in files {
            engine.submit(Wanted {
                workload: self.number,
                link: self.links[index].1.link,
                activity: self.activity.clone(),
                mode: None,
                measured: false,
                by_rule: self.by_rules,
                // A loop needs all of its files again.
                may_keep: if self.is_loop {
                    0
                } else {
                    self.links[index].1.n_sources / KEPT_PART
                },
                is_loop: self.is_loop,
                lifetime: self.lifetime,
                files,
            });
        }
    }
}

impl RatedPlaces {
    /// The source to inject, and how often, so that it makes up a file of this size: smaller files where a fault has it so.
    fn pieces(&self, source: usize, size: u64, broken: &WorkloadCondition) -> (usize, u64) {
        let smaller = broken.size.filter(|piece| (1..size).contains(piece));
        match smaller.and_then(|piece| Some((self.smaller.get(&piece)?, size / piece))) {
            Some((source, n_pieces)) => (*source, n_pieces),
            None => (source, 1),
        }
    }
}

fn timestamp(at: Duration) -> Timestamp {
    Timestamp(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_make_up_a_large_one() {
        let places = RatedPlaces {
            link: 0,
            sources: VecDeque::from([7]),
            n_sources: 1,
            smaller: BTreeMap::from([(20, 9)]),
            skipped: 0,
        };
        let of = |size| {
            let broken = WorkloadCondition {
                size,
                ..WorkloadCondition::default()
            };
            places.pieces(7, 1_000, &broken)
        };
        assert_eq!(of(Some(20)), (9, 50));
        // None was made of this size, and a larger one is no small file.
        assert_eq!([of(None), of(Some(30)), of(Some(2_000))], [(7, 1); 3]);
    }
}
