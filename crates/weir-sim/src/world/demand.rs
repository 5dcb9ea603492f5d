//! The plan's demand: injectors that hold rates, steps one after the other, and the accounting of their transfers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand_chacha::rand_core::RngCore;
use weir_measure::chain::RuleRow;
use weir_measure::chain_report::DeletionReport;
use weir_measure::deficit::DeficitBook;
use weir_measure::{Failure, Measured, Measurement, Signals};
use weir_plan::fault::WorkloadCondition;
use weir_plan::{Held, Inject, LedgerRow, LinkObservation, RatesCore, RatesPlan, Workload, stream};
use weir_sched::{Command, Setting, Settled, Terms, Ticket};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{CopyMode, TransferId};

use super::chain::Chain;
use super::events::Event;
use super::steps::{Stepper, failure};
use super::{Demand, Row, Want, World};
use crate::draw;
use crate::policies::ends;
use crate::sim_plan::SimPlan;
use crate::spec::CatalogKind;
use crate::terms;

/// Files in one job: the job size of a data challenge.
const JOB_FILES: usize = 1_000;

/// Pause between two samples where the length of the run is not known beforehand.
const SAMPLES: Duration = Duration::from_secs(1);

/// Holds the links of one workload at their rates.
struct Injector {
    workload: usize,
    core: RatesCore,
    /// Index of its first link among the asks.
    first_ask: usize,
    observed: Vec<LinkObservation>,
    interval: Duration,
    terms: Terms,
    activity: u32,
    /// Of each link, the files that its source holds, if rules need one for each copy.
    source_files: Option<Vec<u64>>,
    /// Whether it injects the asked bytes whatever became of earlier ones.
    is_open_loop: bool,
    /// Another controller has stopped it until then.
    stopped_until: Timestamp,
}

/// Observations of one link of a workload.
#[derive(Debug, Clone, Default)]
struct Tally {
    delivered: u64,
    queued: u64,
    injected: u64,
    /// Injected, and submitted when the link's turn comes.
    wants: Vec<Want>,
    /// How long after an injection the link's turn comes.
    phase: Duration,
    /// Bytes that the injector counts and that never came to be, less those that it does not count.
    phantom: i64,
    /// The part of a file by which a wrong volume is behind.
    owed: f64,
}

/// Everything that comes from the plan; see the module.
pub(crate) struct Traffic<'s> {
    injectors: Vec<Injector>,
    /// By workload, the injector that serves it.
    by_workload: BTreeMap<usize, usize>,
    steppers: Vec<Stepper>,
    tallies: Vec<Tally>,
    chain: Option<Chain>,
    measurement: Measurement,
    injected: u64,
    /// The part of them that rules ask for.
    n_ruled: u64,
    pub(crate) given_up: u64,
    ledger: &'s mut dyn FnMut(&LedgerRow),
    /// Pause between two samples.
    bin: Duration,
    /// Pause between two accounts of waits, and the time of the last.
    signal_bin: Duration,
    accounted: Timestamp,
    /// When nothing more is injected; `None` while steps go on.
    over: Option<Timestamp>,
    planned_end: Timestamp,
    drain: Duration,
}

impl<'s> Traffic<'s> {
    pub(crate) fn new(
        plan: &SimPlan,
        world: &mut World,
        has_targets: bool,
        ledger: &'s mut dyn FnMut(&LedgerRow),
    ) -> Self {
        let (mut injectors, mut by_workload) = (Vec::new(), BTreeMap::new());
        let chain = Chain::new(plan, world);
        // A load injector beside Rucio has cycles of its own.
        let with_cycles = in_cycles(plan);
        let plan = with_cycles.as_ref().unwrap_or(plan);
        for (workload, rates) in plan.rates() {
            let Some(core) = RatesCore::new(plan, workload, Timestamp(0)) else {
                continue;
            };
            let injector = injector(plan, workload, rates, core, world);
            world
                .events
                .add(Timestamp(0) + rates.start, Event::Inject(workload as u32));
            by_workload.insert(workload, injectors.len());
            injectors.push(injector);
        }
        if has_targets {
            let moments = world.scene().asks.iter().flat_map(|ask| [ask.from, ask.until]);
            for moment in moments.collect::<BTreeSet<Duration>>() {
                world.events.add(Timestamp(0) + moment, Event::Targets);
            }
        }
        let steppers: Vec<Stepper> = (0..plan.workloads.len())
            .filter_map(|workload| Stepper::new(plan, workload, world))
            .collect();
        let begin = Timestamp(0) + plan.phases.ramp;
        for stepper in &steppers {
            world.events.add(begin, Event::Inject(stepper.workload() as u32));
        }
        let measurement = Measurement::of(plan);
        let bin = if measurement.spec().is_open() {
            SAMPLES
        } else {
            measurement.spec().bin
        };
        world.events.add(Timestamp(0) + bin, Event::Sample);
        let planned_end = Timestamp(0) + plan.phases.end();
        let mut traffic = Self {
            injectors,
            by_workload,
            steppers,
            tallies: tallies(plan, world),
            chain,
            bin,
            signal_bin: measurement.spec().signal_bin(),
            accounted: Timestamp(0),
            over: None,
            planned_end,
            drain: plan.phases.drain,
            measurement,
            injected: 0,
            n_ruled: 0,
            given_up: 0,
            ledger,
        };
        traffic.close(world);
        traffic
    }

    /// Determines, once every step has ended, when injection is over and unfinished transfers are withdrawn.
    fn close(&mut self, world: &mut World) {
        if self.over.is_some() || !self.steppers.iter().all(Stepper::is_done) {
            return;
        }
        let over = world.now.max(self.planned_end);
        self.over = Some(over);
        self.measurement.close(over.since(Timestamp(0)));
        world.events.add(over + self.drain, Event::Withdraw);
        if let Some(stepper) = self.steppers.first() {
            // So that the run is looked at when it is over, though nothing else may happen then.
            world.events.add(over, Event::Inject(stepper.workload() as u32));
        }
    }

    /// When injection is over, if that is known, and the time that transfers under way may take then.
    pub(crate) fn over(&self) -> Option<(Timestamp, Duration)> {
        self.over.map(|over| (over, self.drain))
    }

    /// Files that were injected.
    pub(crate) fn injected(&self) -> u64 {
        self.injected + self.steppers.iter().map(Stepper::injected).sum::<u64>()
    }

    /// Submitted transfers: those of rules count each time that the catalogue submits them.
    pub(crate) fn submitted(&self) -> u64 {
        let by_rules = self.chain.as_ref().map_or(0, Chain::n_submitted);
        self.injected() - self.n_ruled + by_rules
    }

    /// Whether a catalogue has files that have not come.
    pub(crate) fn is_open(&self) -> bool {
        self.chain.as_ref().is_some_and(|chain| chain.n_open() > 0)
    }

    /// Takes the files and the rules of which the catalogue said how they ended.
    pub(crate) fn take_told(&mut self) -> (Vec<Row>, Vec<RuleRow>) {
        let Some(chain) = &mut self.chain else {
            return Default::default();
        };
        let (rows, rules) = chain.take_told();
        for row in &rows {
            self.tallies[row.ask].ended(row);
        }
        rules.iter().for_each(|rule| self.measurement.add_rule(rule));
        (rows, rules)
    }

    /// The account of deletions; `None` if none was due.
    pub(crate) fn deletions(&self) -> Option<DeletionReport> {
        self.chain.as_ref()?.deletions()
    }

    /// Whether rules ask for the files of a link of a workload, so that the catalogue says how they end.
    pub(crate) fn is_ruled(&self, scene: &crate::scene::Scene, row: &Row) -> bool {
        let workload = scene.asks[row.ask].workload;
        self.chain.as_ref().is_some_and(|chain| chain.has(workload))
    }

    /// Accounts for a transfer that has ended.
    pub(crate) fn account(&mut self, scene: &crate::scene::Scene, row: &Row) {
        let workload = scene.asks[row.ask].workload;
        let stepper = self.steppers.iter_mut().find(|stepper| stepper.workload() == workload);
        let cell = stepper.and_then(|stepper| stepper.take_cell(TransferId(row.id)));
        self.measurement.add(&row.transfer(scene, cell));
    }

    /// Computes the figures of a run whose last transfer ended at a moment.
    pub(crate) fn measured(
        mut self,
        ended: Timestamp,
        (signals, deficits): (Signals, DeficitBook),
        told: Option<Signals>,
    ) -> Measured {
        told.into_iter().for_each(|told| self.measurement.set_told(told));
        self.measurement.set_signals(signals);
        self.measurement.set_deficits(deficits);
        let over = self.over.unwrap_or(ended);
        self.measurement.close(over.since(Timestamp(0)));
        let windows = self.measurement.spec().windows;
        self.measurement.given_up(windows.hold_end, self.given_up);
        let ended = ended.max(over).since(Timestamp(0));
        if self.measurement.spec().is_open() {
            self.measurement.drained(ended);
        } else if over > self.planned_end {
            // Steps went on after the rates' hold.
            self.measurement.drained(windows.drain_end.max(ended));
        }
        self.measurement.finish()
    }

    /// Closes the injectors' books.
    pub(crate) fn finish(&mut self, now: Timestamp) {
        for injector in &mut self.injectors {
            injector.core.finish(now);
            for row in injector.core.take_ledger() {
                self.given_up += row.given_up;
                (self.ledger)(&row);
            }
        }
    }
}

impl Tally {
    /// Asks for a file: as it is, or as the faults of its workload have it.
    fn want(&mut self, size: u64, wanted: Timestamp, broken: &WorkloadCondition) {
        let mut copies = 1;
        if let Some(volume) = broken.volume {
            self.owed += volume;
            copies = self.owed as u64;
            self.owed -= copies as f64;
        }
        self.injected += size;
        self.phantom += size as i64 * (1 - copies as i64);
        self.queued += size * copies;
        let piece = broken.size.unwrap_or(size).min(size).max(1);
        for _ in 0..copies {
            let mut left = size;
            while left > 0 {
                let size = piece.min(left);
                left -= size;
                self.wants.push(Want {
                    size,
                    wanted,
                    mode: CopyMode::Pull,
                });
            }
        }
    }

    fn ended(&mut self, row: &Row) {
        self.queued -= row.size;
        if row.state == Settled::Finished {
            self.delivered += row.size;
        }
    }
}

/// The plan with the cycles of the load injector beside Rucio, which makes the rules of all links at the same moment; `None` where
/// another catalogue is simulated.
fn in_cycles(plan: &SimPlan) -> Option<SimPlan> {
    if plan.sim.catalog != CatalogKind::Rucio || !plan.makes_rules() {
        return None;
    }
    let (mut plan, interval) = (plan.clone(), plan.sim.rucio.injection_interval);
    plan.sim.injection_interval = None;
    for workload in &mut plan.plan.workloads {
        if let Workload::Rates(rates) = workload {
            rates.cycle = rates.cycle.max(interval);
        }
    }
    Some(plan)
}

/// An injector of many links reaches each of them at its own time: the comb of a link has its own phase.
fn tallies(plan: &SimPlan, world: &World) -> Vec<Tally> {
    let tally = |ask: &crate::scene::Ask| {
        let link = &world.scene().links[ask.link].link;
        let drawn = draw::unit(stream(plan.seed, &format!("injection {link}")).next_u64());
        Tally {
            phase: plan.sim.injection_interval.unwrap_or_default().mul_f64(drawn),
            ..Tally::default()
        }
    };
    world.scene().asks.iter().map(tally).collect()
}

fn injector(plan: &SimPlan, workload: usize, rates: &RatesPlan, core: RatesCore, world: &World) -> Injector {
    let observation = |rated: &weir_plan::RatedLink| LinkObservation {
        link: rated.link.clone(),
        delivered: Bytes::ZERO,
        queued: Bytes::ZERO,
        active: 0,
        space_left: None,
        free_files: None,
    };
    let of_workload = |ask: &crate::scene::Ask| ask.workload == workload;
    let makes_rules = rates.inject == Inject::Rules;
    let is_open_loop = makes_rules && plan.sim.catalog == CatalogKind::Rucio;
    let source_files = rates.links.iter().map(|rated| u64::from(rated.source_files));
    Injector {
        source_files: makes_rules.then(|| source_files.collect()),
        is_open_loop,
        stopped_until: Timestamp(0),
        workload,
        core,
        first_ask: world.scene().asks.iter().position(of_workload).unwrap_or(0),
        observed: rates.links.iter().map(observation).collect(),
        interval: plan
            .sim
            .injection_interval
            .unwrap_or(if is_open_loop { rates.cycle } else { rates.cycle / 4 }),
        terms: terms::terms(plan, &rates.activity),
        activity: terms::activity(plan, &rates.activity),
    }
}

impl Demand for Traffic<'_> {
    fn inject(&mut self, world: &mut World, workload: usize) {
        if let Some(stepper) = self.steppers.iter_mut().find(|stepper| stepper.workload() == workload) {
            stepper.turn(world);
            return self.close(world);
        }
        let Some(injector) = self.by_workload.get(&workload).map(|at| &mut self.injectors[*at]) else {
            return;
        };
        let broken = world.condition(workload);
        if let Some(until) = broken.stops(|| world.active_of(workload), world.now) {
            injector.stopped_until = until;
        }
        if broken.is_paused || injector.stopped_until > world.now {
            let again = world.now + injector.interval;
            return world.events.add(again, Event::Inject(workload as u32));
        }
        let first = injector.first_ask;
        for (place, (seen, tally)) in injector.observed.iter_mut().zip(&self.tallies[first..]).enumerate() {
            let (delivered, queued) = if injector.is_open_loop {
                (tally.injected, 0)
            } else {
                (tally.delivered, tally.queued)
            };
            let counted = delivered.saturating_add_signed(tally.phantom);
            (seen.delivered, seen.queued) = (Bytes(counted), Bytes(queued));
            if let Some((chain, files)) = self.chain.as_ref().zip(injector.source_files.as_ref()) {
                let waiting = tally.wants.len() as u64;
                seen.free_files = Some(files[place].saturating_sub(chain.in_use(first + place) + waiting));
            }
        }
        let mut injections = Vec::new();
        injector.core.cycle(world.now, &injector.observed, &mut injections);
        for row in injector.core.take_ledger() {
            self.given_up += row.given_up;
            if row.held == Some(Held::Backlog)
                && let Some(ask) = injector.observed.iter().position(|seen| seen.link == row.link)
            {
                let link = world.scene().asks[injector.first_ask + ask].link;
                world.book.held_back(link, (row.from, row.to));
            }
            (self.ledger)(&row);
        }
        for injection in &injections {
            let ask = injector.first_ask + injection.place;
            let tally = &mut self.tallies[ask];
            let before = tally.wants.len();
            tally.want(injection.size.0, injection.wanted_at, &broken);
            if before == 0 && !tally.wants.is_empty() {
                let phase = tally.phase;
                world.events.add(world.now + phase, Event::Submit(ask as u32));
            }
        }
        let soonest = world.now
            + broken
                .comb
                .map_or(injector.interval, |comb| comb.max(injector.interval));
        if let Some(due) = injector.core.next_due(world.now) {
            world
                .events
                .add(due.max(soonest), Event::Inject(injector.workload as u32));
        }
    }

    fn submit(&mut self, world: &mut World, ask: usize) {
        let workload = world.scene().asks[ask].workload;
        let Some(injector) = self.by_workload.get(&workload).map(|at| &self.injectors[*at]) else {
            return;
        };
        let wants = std::mem::take(&mut self.tallies[ask].wants);
        self.injected += wants.len() as u64;
        let link = world.scene().asks[ask].link;
        let bytes = wants.iter().map(|want| want.size).sum();
        world.book.injected(link, bytes, world.now);
        if let Some(chain) = self.chain.as_mut().filter(|chain| chain.has(workload)) {
            self.n_ruled += wants.len() as u64;
            return chain.ask(world, ask, &wants);
        }
        for job in wants.chunks(JOB_FILES) {
            world.submit(0, ask, injector.terms, injector.activity, job);
        }
    }

    fn settled(&mut self, world: &mut World, row: &Row) {
        let workload = world.scene().asks[row.ask].workload;
        if let Some(stepper) = self.steppers.iter_mut().find(|stepper| stepper.workload() == workload) {
            return stepper.ended(TransferId(row.id), world);
        }
        if let Some(chain) = self.chain.as_mut().filter(|chain| chain.has(workload)) {
            return chain.ended(world, row);
        }
        self.tallies[row.ask].ended(row);
        if row.state != Settled::Finished {
            let link = world.scene().asks[row.ask].link;
            world.book.lost(link, row.size, world.now);
        }
    }

    fn catalog(&mut self, world: &mut World) {
        if let Some(chain) = &mut self.chain {
            chain.turn(world);
        }
    }

    /// Publishes the rate asked of each link from now on: the sum over the workloads that ask now.
    fn targets(&mut self, world: &mut World) {
        let (now, scene) = (world.now.since(Timestamp(0)), world.scene());
        let mut rates = vec![BitRate::ZERO; scene.links.len()];
        let told = |ask: &&crate::scene::Ask| ask.is_target && ask.from <= now && now < ask.until;
        for ask in scene.asks.iter().filter(told) {
            rates[ask.link] += ask.rate;
        }
        let target = |(link, rate): (&crate::scene::LinkScene, BitRate)| {
            Setting::Target(ends(link), Some(rate).filter(|rate| *rate > BitRate::ZERO))
        };
        let changes: Vec<Setting> = scene.links.iter().zip(rates).map(target).collect();
        for core in 0..world.cores.len() {
            let set = Command::Set {
                ticket: Ticket(u64::MAX),
                changes: changes.clone().into(),
            };
            world.command(core, set);
        }
    }

    fn sample(&mut self, world: &mut World) {
        let at = world.now.since(Timestamp(0)).saturating_sub(self.bin / 2);
        let held = self.chain.as_ref().map_or(0, Chain::n_held);
        self.measurement
            .gauge(at, world.active() as u64, world.queued() as u64 + held);
        world.check_capacities();
        if world.now >= self.accounted + self.signal_bin {
            self.accounted = world.now;
            world.account();
        }
        if self.over.is_none_or(|over| world.now < over + self.drain) {
            world.events.add(world.now + self.bin, Event::Sample);
        }
    }

    fn withdraw(&mut self, world: &mut World) {
        let left: Vec<TransferId> = world.files.iter().map(|file| file.id).collect();
        world.give_up_late(&left, &failure(Failure::unfinished(self.drain)));
        if let Some(chain) = &mut self.chain {
            chain.withdraw(world.now, &failure(Failure::not_come(self.drain)));
        }
    }
}
