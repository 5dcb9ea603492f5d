//! The world: virtual time, the execution of orders, and the inputs of cores.
//!
//! One heap holds the future events, in total order (time, sequence); the network computes the ends of its flows. The
//! loop goes from one moment to the next: ended flows, due events, then each core with inputs or a due wake-up, until
//! none has more effects at that moment. With a [tick](crate::scene::Scene::tick) moments are whole multiples of it:
//! all events within a tick are handled together at its end; records keep their own times.

mod account;
mod attempt;
mod attempt_state;
mod book;
mod breaking;
mod breaking_state;
mod chain;
mod core_runner;
mod demand;
mod events;
mod fate;
mod file;
mod keeping;
mod meters;
mod outages;
mod probe;
mod run;
mod steps;
mod storage;
mod wires;

use std::collections::BTreeMap;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_plan::fault::WorkloadCondition;
use weir_plan::stream;
use weir_sched::{
    Command, Effect, Event as CoreEvent, Input, JobId, JobSpec, Op, Record, Settled, Terms, TransferSpec,
};
use weir_units::Timestamp;
use weir_world::{Failure, OpId, TransferId, WorldEvent};

use crate::background;
use crate::checks::Checks;
use crate::hash::NumberMap;
use crate::network::{ClassId, Ended, FlowId, Network};
use crate::policies::AnyCore;
use crate::scene::{Scene, outages};
use crate::slab::{Key, Slab};
use attempt_state::Attempt;
use book::WaitBook;
use breaking_state::Breaking;
use core_runner::CoreRunner;
use events::{Event, Events};
use file::{File, Files};
use storage::{Doors, Tokens};
use wires::Wires;

pub use crate::row::Row;
pub use crate::want::Want;
pub use probe::{Part, Probe};
pub use run::{Listeners, Outcome, run, run_observed};

/// Steps of cores at one moment after which something must be wrong.
const RESTLESS: u32 = 1_000_000;

/// The simulated world; see the module.
pub struct World {
    scene: Scene,
    now: Timestamp,
    events: Events,
    network: Network,
    flows: NumberMap<FlowId, Key>,
    classes: BTreeMap<(u32, [Option<u8>; 2], bool), ClassId>,
    wires: Wires,
    doors: Vec<Doors>,
    tokens: Tokens,
    cores: Vec<CoreRunner>,
    files: Files,
    attempts: Slab<Attempt>,
    /// One stream of randomness per link.
    random: Vec<ChaCha8Rng>,
    checks: Checks,
    /// Transfers that ended since the last look.
    rows: Vec<Row>,
    /// Pause between two markers of a link; zero for none.
    marker_interval: Duration,
    /// The transfer of each link that reports how far it is.
    watched: Vec<Option<Key>>,
    jobs: u128,
    ended: Vec<Ended>,
    effects: Vec<Effect>,
    probe: Probe,
    book: WaitBook,
    breaking: Breaking,
    /// The number of each link, by source and destination.
    link_numbers: BTreeMap<(usize, usize), usize>,
}

impl World {
    /// Builds the world of a scene, with a core on each seat.
    pub fn new(scene: Scene, seed: u64, cores: Vec<AnyCore>) -> Self {
        let mut network = Network::new();
        network.set_quantum(scene.tick);
        let wires = Wires::new(&scene, seed, &mut network);
        let doors: Vec<Doors> = scene
            .storages
            .iter()
            .map(|storage| {
                Doors::new(
                    storage,
                    &mut network,
                    stream(seed, &format!("servers {}", storage.name)),
                )
            })
            .collect();
        let random = |link: &crate::scene::LinkScene| stream(seed, &format!("attempts {}", link.link));
        let mut world = Self {
            now: Timestamp(0),
            events: Events::default(),
            network,
            flows: NumberMap::default(),
            classes: BTreeMap::new(),
            doors,
            tokens: Tokens::default(),
            cores: cores.into_iter().map(CoreRunner::new).collect(),
            files: Files::default(),
            attempts: Slab::default(),
            random: scene.links.iter().map(random).collect(),
            checks: Checks::new(&scene),
            rows: Vec::new(),
            marker_interval: Duration::ZERO,
            watched: vec![None; scene.links.len()],
            jobs: 0,
            ended: Vec::new(),
            effects: Vec::new(),
            probe: Probe::default(),
            book: WaitBook::new(&scene, Duration::from_secs(1)),
            breaking: Breaking::new(&scene, scene.n_workloads()),
            link_numbers: numbers(&scene),
            wires,
            scene,
        };
        world.note_places();
        world.foresee();
        world
    }

    /// Schedules the events that are known beforehand.
    fn foresee(&mut self) {
        for wire in self.wires.restless() {
            self.events
                .add(Timestamp(0) + background::PERIOD, Event::Background(wire));
        }
        for (segment, at) in self.scene.segments.iter().zip(0..) {
            for (change, number) in segment.changes.iter().zip(0..) {
                self.events.add(Timestamp(0) + change.0, Event::Change(at, number));
            }
        }
        for (storage, at) in self.scene.storages.iter().zip(0..) {
            for outage in outages(storage) {
                self.events.add(Timestamp(0) + outage.at, Event::Outage(at, true));
                self.events
                    .add(Timestamp(0) + outage.at + outage.length, Event::Outage(at, false));
            }
        }
        self.foresee_faults();
    }

    /// The time of the last moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The scene it plays in.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The checks of invariants.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Transfers that run.
    pub fn active(&self) -> usize {
        self.attempts.len()
    }

    /// The condition of a workload under the faults that are on.
    pub(crate) fn condition(&self, workload: usize) -> WorkloadCondition {
        let now = self.breaking.conditions.workloads.get(workload);
        now.copied().unwrap_or_default()
    }

    /// Transfers of a workload that run.
    pub(crate) fn active_of(&self, workload: usize) -> usize {
        let of = |attempt: &Attempt| {
            self.files
                .get(attempt.file)
                .is_some_and(|file| self.scene.asks[file.ask as usize].workload == workload)
        };
        self.attempts.iter().filter(|(_, attempt)| of(attempt)).count()
    }

    /// Transfers that wait.
    pub fn queued(&self) -> usize {
        self.files.len() - self.attempts.len()
    }

    /// Has one transfer of each link report how far it is, so often; zero, as in the beginning, for never.
    pub fn set_marker_interval(&mut self, interval: Duration) {
        self.marker_interval = interval;
    }

    /// Time of one deletion at a storage element now.
    fn delete_time(&self, storage: usize) -> Duration {
        self.scene.storages[storage].delete_time(self.doors[storage].writes())
    }

    /// Gives a command to a core.
    pub fn command(&mut self, core: usize, command: Command) {
        self.cores[core].inputs.push(Input::Command(command));
    }

    /// Takes the transfers that have ended since the last call, in the order in which their ends became durable.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// Takes in a file that a core may be told to move, for the link of a workload; gives its number.
    pub fn register(&mut self, core: usize, ask: usize, want: Want) -> TransferId {
        let id = self.files.number();
        self.files.insert(File {
            id,
            ask: ask as u32,
            core: core as u32,
            size: want.size,
            mode: want.mode,
            wanted: want.wanted,
            injected: self.now,
            attempt: None,
            attempts: 0,
            delivered: false,
            started: None,
            ended: self.now,
            moved: 0,
            failure: None,
            late: None,
        });
        id
    }

    /// Withdraws transfers that took too long, as far as they have not ended: they will have failed for that.
    fn give_up_late(&mut self, ids: &[TransferId], failure: &Failure) {
        for id in ids {
            let found = self.files.find(*id);
            if let Some(file) = found.and_then(|key| self.files.get_mut(key)) {
                file.late = Some(Box::new(failure.clone()));
            }
        }
        self.cancel(ids);
    }

    /// Cancels transfers.
    fn cancel(&mut self, transfers: &[TransferId]) {
        let mut cores: BTreeMap<usize, Vec<TransferId>> = BTreeMap::new();
        for id in transfers {
            let file = self.files.find(*id).and_then(|key| self.files.get(key));
            if let Some(file) = file {
                cores.entry(file.core as usize).or_default().push(*id);
            }
        }
        for (core, transfers) in cores {
            let cancel = Command::Cancel {
                ticket: weir_sched::Ticket(u64::MAX),
                transfers: transfers.into(),
            };
            self.command(core, cancel);
        }
    }

    /// Submits a job, files of one link of a workload, to the core on a seat; gives the numbers of its transfers.
    pub fn submit(&mut self, core: usize, ask: usize, terms: Terms, activity: u32, wants: &[Want]) -> Vec<TransferId> {
        let link = &self.scene.links[self.scene.asks[ask].link];
        let ends = [link.source, link.destination].map(|end| weir_sched::SeId(end as u32));
        let spec = |world: &mut Self, want: &Want| TransferSpec {
            id: world.register(core, ask, *want),
            source: ends[0],
            destination: ends[1],
            size: weir_units::Bytes(want.size),
            activity: weir_sched::ActivityId(activity),
            ..TransferSpec::default()
        };
        let transfers: Vec<TransferSpec> = wants.iter().map(|want| spec(self, want)).collect();
        let ids = transfers.iter().map(|transfer| transfer.id).collect();
        self.jobs += 1;
        let job = JobSpec {
            job: JobId(self.jobs),
            terms,
            transfers,
            routes: Vec::new(),
        };
        self.command(core, Command::Submit(std::sync::Arc::new(job)));
        ids
    }

    /// The next moment at which anything happens; `None` if nothing ever will.
    pub fn next_moment(&mut self) -> Option<Timestamp> {
        if (0..self.cores.len()).any(|core| self.may_step(core)) {
            return Some(self.now);
        }
        let flow = self.probe.within(Part::Network, || self.network.next_end());
        let next = [self.events.next(), flow].into_iter().flatten().min()?;
        let tick = u64::try_from(self.scene.tick.as_nanos()).unwrap_or(u64::MAX);
        let aligned = if tick == 0 {
            next.0
        } else {
            next.0.div_ceil(tick).saturating_mul(tick)
        };
        Some(Timestamp(aligned.max(self.now.0)))
    }

    /// Goes on to a moment, which must not lie before the last one nor beyond the next, and does all that is due there.
    pub fn go_to(&mut self, moment: Timestamp, demand: &mut dyn Demand) {
        self.now = self.now.max(moment);
        let mut ended = std::mem::take(&mut self.ended);
        self.probe
            .within(Part::Network, || self.network.advance(self.now, &mut ended));
        for end in ended.drain(..) {
            self.flow_ended(end.flow, end.at.timestamp());
        }
        self.ended = ended;
        while let Some((at, event)) = self.events.take(self.now) {
            self.happen(at, event, demand);
        }
        self.step_cores(demand);
        self.probe.within(Part::Network, || {
            for (doors, storage) in self.doors.iter_mut().zip(&self.scene.storages) {
                doors.show(storage, &mut self.network, self.now);
            }
        });
    }

    fn happen(&mut self, at: Timestamp, event: Event, demand: &mut dyn Demand) {
        match event {
            Event::Ready(key) => self.ready(key),
            Event::Impatient(key) => self.impatient(key),
            Event::Fail(key) => self.give_up(key),
            Event::Complete(key) => self.complete(key, at),
            Event::Committed(core) => self.committed(core),
            Event::Wake(_) => {} // The seat knows its own wish; the event only brings the moment about.
            Event::Inject(workload) => demand.inject(self, workload as usize),
            Event::Submit(ask) => demand.submit(self, ask as usize),
            Event::Background(wire) => {
                self.wires.stir(wire, &mut self.network, self.now);
                self.events.add(at + background::PERIOD, Event::Background(wire));
            }
            Event::Change(segment, number) => {
                let capacity = self.scene.segments[segment as usize].changes[number as usize].1;
                self.wires
                    .change(segment as usize, capacity, &mut self.network, self.now);
            }
            Event::Outage(storage, begins) => self.outage(storage as usize, begins, at),
            Event::OutageLasts(storage, number) => self.outage_lasts(storage as usize, number),
            Event::Marker(link) => self.marker(link),
            Event::Fault(number, change) => self.break_or_mend(number as usize, change as usize),
            Event::Dark(link) => self.dark_lasts(link as usize),
            Event::Crash(storage) => self.crash(storage as usize, at),
            Event::Freed(storage, bytes) => self.free_bytes(storage as usize, bytes),
            Event::Catalog => demand.catalog(self),
            Event::Targets => demand.targets(self),
            Event::Sample => demand.sample(self),
            Event::Withdraw => demand.withdraw(self),
        }
    }

    fn committed(&mut self, core: u32) {
        let place = &mut self.cores[core as usize];
        if let Some(seq) = place.store.complete() {
            place.inputs.push(Input::Persisted(seq));
        }
        self.commit(core);
    }

    /// Begins a commit if there are records. A commit shorter than a tick is complete in this one.
    fn commit(&mut self, core: u32) {
        let place = &mut self.cores[core as usize];
        let Some(at) = place.store.begin(&self.scene.store, self.now) else {
            return;
        };
        if at <= self.now + self.scene.tick {
            place.inputs.extend(place.store.complete().map(Input::Persisted));
        } else {
            self.events.add(at, Event::Committed(core));
        }
    }

    /// Steps the cores until none has anything more to say at this moment.
    fn step_cores(&mut self, demand: &mut dyn Demand) {
        for round in 0.. {
            assert!(round < RESTLESS, "a core does not come to rest at {:?}", self.now);
            let due: Vec<usize> = (0..self.cores.len()).filter(|core| self.may_step(*core)).collect();
            if due.is_empty() {
                return;
            }
            for core in due {
                self.step_core(core, demand);
            }
        }
    }

    /// Whether a core has anything to do, and its service is there to do it.
    fn may_step(&self, core: usize) -> bool {
        self.cores[core].is_due(self.now) && !self.breaking.conditions.no_transfer
    }

    fn step_core(&mut self, core: usize, demand: &mut dyn Demand) {
        let pause = self.breaking.conditions.decisions;
        let place = &mut self.cores[core];
        if let Some(pause) = pause {
            place.held_until = self.now + pause;
            self.events.add(place.held_until, Event::Wake(core as u32));
        }
        if place.wake.take_if(|at| *at <= self.now).is_some() {
            place.inputs.push(Input::Timer);
        }
        let mut inputs = std::mem::take(&mut place.inputs);
        let mut effects = std::mem::take(&mut self.effects);
        self.probe.within(Part::Scheduling, || {
            place.core.step(self.now, &inputs, &mut effects);
        });
        inputs.clear();
        place.inputs = inputs;
        for effect in effects.drain(..) {
            self.carry_out(core as u32, effect, demand);
        }
        self.effects = effects;
        self.commit(core as u32);
    }

    fn carry_out(&mut self, core: u32, effect: Effect, demand: &mut dyn Demand) {
        match effect {
            Effect::Persist(seq, record) => {
                let follows = self.cores[core as usize].store.take(seq);
                self.checks.persisted(follows, seq);
                if let Record::Submitted(_) = record {
                    self.checks.submitted();
                }
            }
            Effect::Ack(_) => {}
            Effect::Start(op, Op::Copy { .. }) => self.order(core, op),
            Effect::Start(op, _) => {
                let bytes_moved = weir_units::Bytes::ZERO;
                self.tell(
                    core,
                    op,
                    WorldEvent::Ended(weir_world::Outcome::Stopped { bytes_moved }),
                );
            }
            Effect::Stop(op) => self.halt(op),
            Effect::Emit(CoreEvent::Settled { transfer, state }) => self.settle(transfer, state, demand),
            Effect::Emit(CoreEvent::Refused { job, refusal }) => self.checks.refused(&format!("{job}: {refusal}")),
            Effect::WakeAt(at) => self.wake(core, at),
        }
    }

    fn wake(&mut self, core: u32, at: Timestamp) {
        let place = &mut self.cores[core as usize];
        if place.wake.is_none_or(|wish| at < wish) {
            place.wake = Some(at);
            self.events.add(at, Event::Wake(core));
        }
    }

    /// A core orders a copy.
    fn order(&mut self, core: u32, op: OpId) {
        let found = self.files.find(op.transfer);
        let file = found.and_then(|key| self.files.get(key));
        if let Some(violation) = File::order(op, core, file) {
            self.checks.violate(self.now, &violation);
            return self.tell(core, op, WorldEvent::Lost);
        }
        if let Some(key) = found {
            self.start(core, op, key);
        }
    }

    fn halt(&mut self, op: OpId) {
        let file = self.files.find(op.transfer).and_then(|key| self.files.get(key));
        let Some(key) = file.and_then(|file| file.attempt) else {
            return;
        };
        if self.attempts.get(key).is_some_and(|attempt| attempt.op == op) {
            self.stop(key);
        }
    }

    /// A transfer has ended, durably.
    fn settle(&mut self, transfer: TransferId, state: Settled, demand: &mut dyn Demand) {
        let Some(key) = self.files.find(transfer) else {
            return self
                .checks
                .violate(self.now, &format!("transfer {transfer} ended twice, or never was"));
        };
        let Some(mut file) = self.files.remove(key) else { return };
        if let Some(attempt) = file.attempt {
            self.checks
                .violate(self.now, &format!("transfer {transfer} ended while an attempt runs"));
            self.stop(attempt);
        }
        if (state == Settled::Finished) != file.delivered {
            let violation = format!("transfer {transfer} is {state:?}, but delivered: {}", file.delivered);
            self.checks.violate(self.now, &violation);
        }
        if file.attempts == 0 {
            file.ended = self.now;
        }
        if file.delivered || (state == Settled::Failed && file.late.is_none()) {
            let link = self.scene.asks[file.ask as usize].link;
            self.book.recorded(link, (file.ended, self.now));
        }
        let row = file.row(state);
        self.checks.settled(&row);
        demand.settled(self, &row);
        self.rows.push(row);
    }

    /// Has a link's transfer report how far it is.
    fn watch(&mut self, link: u32, key: Key) {
        if self.marker_interval.is_zero() {
            return;
        }
        match self.watched[link as usize] {
            Some(old) if self.attempts.get(old).is_some() => return,
            Some(_) => {} // it has ended: the next report is this one's
            None => self.events.add(self.now + self.marker_interval, Event::Marker(link)),
        }
        self.watched[link as usize] = Some(key);
    }

    fn marker(&mut self, link: u32) {
        let Some(key) = self.watched[link as usize].take() else {
            return;
        };
        let Some(attempt) = self.attempts.get(key).filter(|attempt| attempt.flow.is_some()) else {
            return;
        };
        let (core, op) = (attempt.core, attempt.op);
        let moved = self.moved(key);
        self.tell(core, op, WorldEvent::Progress(moved));
        self.watch(link, key);
    }
}

/// The number of each link, by source and destination.
fn numbers(scene: &Scene) -> BTreeMap<(usize, usize), usize> {
    let links = scene.links.iter().enumerate();
    links.map(|(at, link)| ((link.source, link.destination), at)).collect()
}

/// The source of files in the world, which is informed of their ends.
pub trait Demand {
    /// A workload may inject the files that are due.
    fn inject(&mut self, world: &mut World, workload: usize);
    /// The injections on a link of a workload are submitted.
    fn submit(&mut self, world: &mut World, ask: usize);
    /// A transfer has ended.
    fn settled(&mut self, world: &mut World, row: &Row);
    /// The catalogue has something to do.
    fn catalog(&mut self, world: &mut World);
    /// The asked rates of links change.
    fn targets(&mut self, world: &mut World);
    /// Counts are sampled.
    fn sample(&mut self, world: &mut World);
    /// Unfinished transfers are withdrawn.
    fn withdraw(&mut self, world: &mut World);
}

/// No demand: files come from the owner of the world.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDemand;

impl Demand for NoDemand {
    fn inject(&mut self, _world: &mut World, _workload: usize) {}
    fn submit(&mut self, _world: &mut World, _ask: usize) {}
    fn settled(&mut self, _world: &mut World, _row: &Row) {}
    fn catalog(&mut self, _world: &mut World) {}
    fn targets(&mut self, _world: &mut World) {}
    fn sample(&mut self, _world: &mut World) {}
    fn withdraw(&mut self, _world: &mut World) {}
}
