//! The world of the model: store, executors and destinations, and the checks on what the core does to them.

mod busy;
mod checks;
mod executors;
mod heal;
mod routes;
mod shape;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_sched::{
    ActivityId, Command, Config, Direction, Effect, End, Event, GroupId, Input, JobId, JobSpec, Link, LiveState, Mode,
    Next, Op, Priority, Record, Resource, RetryPolicy, RouteKind, Scheduler, SeId, Setting, Settings, Settled, Staging,
    Tape, Terms, Ticket, TransferSpec, VoId, Work,
};
use weir_units::{BitRate, Bytes, Timestamp};
use weir_world::{Core, OpId, Seq, TransferId, WorldEvent};

use crate::common::{ModelStore, Row};
use crate::moves::{Move, Part, Together};
use executors::pick;
use routes::link_of;
pub(crate) use shape::{Shape, shape};

const SIZE: Bytes = Bytes(1_000_000);
/// Storage elements of the model.
pub(crate) const SES: u32 = 4;
/// The store refuses every job whose number this divides.
const REFUSED: u128 = 7;

/// The destination's part of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copied {
    #[default]
    Nothing,
    Part,
    Whole,
}

/// An operation as the world sees it.
#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Running(Op),
    Ended(WorldEvent),
}

pub(crate) struct World {
    shape: Shape,
    core: Scheduler,
    epoch: u64,
    begun: bool,
    now: Timestamp,
    limits: Settings,
    limits_changed: bool,
    /// Parts that fail every copy, by the storage element that they belong to.
    broken: BTreeSet<(Part, SeId)>,
    inbox: VecDeque<Input>,
    /// The rest to restore, and the word that restoring is over: given in order, among everything else.
    restoring: VecDeque<Input>,
    /// The request of each cancellation.
    cancellations: Vec<Arc<[TransferId]>>,
    /// Issued, and not durable.
    pending: VecDeque<(Seq, Record)>,
    store: ModelStore,
    /// Durable in this life, and the greatest number that the core was told.
    durable: Seq,
    told: Seq,
    /// The record of this life that started each operation.
    started: BTreeMap<OpId, Seq>,
    /// All records of this life.
    issued: BTreeMap<Seq, Record>,
    operations: BTreeMap<OpId, Operation>,
    destinations: BTreeMap<TransferId, Copied>,
    /// Transfers that hold slots: the core's own, and those of an earlier life that may still run.
    held: BTreeMap<TransferId, Link>,
    /// Operations among them that are the core's own.
    own: BTreeSet<TransferId>,
    links: BTreeMap<TransferId, Link>,
    /// All transfers of the route that a transfer belongs to, in order.
    routes: BTreeMap<TransferId, (RouteKind, Arc<[TransferId]>)>,
    tapes: BTreeMap<TransferId, Tape>,
    /// Files that were brought online, and copies that are on tape.
    online: BTreeSet<TransferId>,
    on_tape: BTreeSet<TransferId>,
    /// Files that this core has brought online now.
    staging: BTreeMap<TransferId, SeId>,
    acknowledged: BTreeSet<TransferId>,
    announced: BTreeMap<TransferId, Settled>,
    issued_terminal: BTreeSet<TransferId>,
    cleanups: checks::CleanUps,
    waited: waits::Waited,
    /// Forced, and not started since.
    forced: BTreeSet<TransferId>,
    ever_forced: bool,
    woken: Option<Timestamp>,
    next_transfer: u64,
    next_job: u128,
}

impl World {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut world = Self {
            shape,
            core: Scheduler::new(Config::default()),
            epoch: 0,
            begun: false,
            now: Timestamp(0),
            limits: shape.settings(),
            limits_changed: false,
            broken: BTreeSet::new(),
            inbox: VecDeque::new(),
            restoring: VecDeque::new(),
            cancellations: Vec::new(),
            pending: VecDeque::new(),
            store: ModelStore::default(),
            durable: Seq(0),
            told: Seq(0),
            started: BTreeMap::new(),
            issued: BTreeMap::new(),
            operations: BTreeMap::new(),
            destinations: BTreeMap::new(),
            held: BTreeMap::new(),
            own: BTreeSet::new(),
            links: BTreeMap::new(),
            routes: BTreeMap::new(),
            tapes: BTreeMap::new(),
            online: BTreeSet::new(),
            on_tape: BTreeSet::new(),
            staging: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            announced: BTreeMap::new(),
            issued_terminal: BTreeSet::new(),
            cleanups: checks::CleanUps::default(),
            waited: waits::Waited::default(),
            forced: BTreeSet::new(),
            ever_forced: false,
            woken: None,
            next_transfer: 1,
            next_job: 1,
        };
        world.begin(false);
        world
    }

    /// A new life, from what the store has.
    fn begin(&mut self, from_log: bool) {
        self.epoch += 1;
        self.begun = false;
        let initial = self.shape.settings();
        let retry = RetryPolicy {
            retries: 2,
            delay: Duration::from_secs(10),
            ..RetryPolicy::default()
        };
        let config = Config {
            epoch: self.epoch,
            settings: initial.clone(),
            retry,
            starts_per_step: self.shape.starts_per_step,
            ..Config::default()
        };
        self.core = Scheduler::new(config);
        self.waited = waits::Waited::default();
        self.limits = initial;
        let records = if from_log {
            self.store.log.clone()
        } else {
            self.store.restore()
        };
        for record in &records {
            if let Record::SettingsChanged { changes, .. } = record {
                changes.iter().for_each(|change| self.limits.apply(*change));
            }
        }
        self.forced = self.store.forced();
        self.restoring = records.into_iter().map(Input::Restored).collect();
        self.restoring.push_back(Input::Command(Command::Begin));
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each move")]
    pub(crate) fn make(&mut self, what: &Move) {
        match *what {
            Move::Submit {
                source,
                destination,
                files,
                priority,
                retries,
                together,
                tape,
            } => {
                let links = (0..files as u32).map(|n| link_of(together, n, source, destination));
                let terms = Terms {
                    priority: Priority::new(priority),
                    retries,
                    ..Terms::default()
                };
                self.submit(&links.collect::<Vec<_>>(), terms, together, tape);
            }
            Move::Cancel { which, many } => {
                let ticket = Ticket(self.cancellations.len() as u64);
                let transfers: Arc<[TransferId]> = (0..many).filter_map(|n| self.some_transfer(which + n)).collect();
                self.cancellations.push(Arc::clone(&transfers));
                self.inbox
                    .push_back(Input::Command(Command::Cancel { ticket, transfers }));
            }
            Move::Restore { records } => {
                for _ in 0..records {
                    let Some(input) = self.restoring.pop_front() else { break };
                    self.step(&[input]);
                }
            }
            Move::SetPriority { which, priority } => {
                let transfers = self.some_transfer(which).into_iter().collect();
                let priority = Priority::new(priority);
                self.inbox.push_back(Input::Command(Command::SetPriority {
                    ticket: Ticket(2),
                    transfers,
                    priority,
                }));
            }
            Move::Force { which, many } => {
                let transfers = (0..many).filter_map(|n| self.some_transfer(which + n)).collect();
                self.inbox.push_back(Input::Command(Command::Force {
                    ticket: Ticket(5),
                    transfers,
                }));
            }
            Move::SetLimit { which, se, limit } => {
                self.limits_changed = true;
                let se = SeId(se % SES);
                let (vo, group) = (VoId(0), GroupId(0));
                let link = Link {
                    source: se,
                    destination: SeId((se.0 + 1) % SES),
                };
                let rate = BitRate(u64::from(limit) * 4_000_000);
                let change = match which % 15 {
                    12 => Setting::Slots(Resource::Staging(se), Some(limit)),
                    13 => Setting::Slots(Resource::VoStaging(se, vo), (limit > 0).then_some(limit)),
                    0 => Setting::EveryLink(limit),
                    1 => Setting::Slots(Resource::Inbound(se), Some(limit)),
                    2 => Setting::Slots(Resource::Outbound(se), Some(limit)),
                    3 => Setting::Slots(Resource::VoInbound(se, vo), (limit > 0).then_some(limit)),
                    4 => Setting::Member(group, se, Direction::In, limit % 2 == 0),
                    5 => Setting::Member(group, se, Direction::Out, limit % 2 == 0),
                    6 => Setting::Slots(Resource::Group(group), (limit > 0).then_some(1 + limit)),
                    7 => Setting::Rate(Resource::Outbound(se), (limit > 0).then_some(rate)),
                    8 => Setting::Target(link, Some(rate)),
                    9 => Setting::LinkOptimiser(link, Some(Mode::Fixed(1 + limit))),
                    11 => Setting::Hold(limit % 2 == 0),
                    10 => Setting::Optimiser(if limit == 0 { Mode::Off } else { Mode::Auto }),
                    _ => Setting::Ageing((limit > 0).then(|| Duration::from_secs(limit.into()))),
                };
                let changes = Arc::new([change]);
                self.inbox.push_back(Input::Command(Command::Set {
                    ticket: Ticket(3),
                    changes,
                }));
            }
            Move::Commit { records } => self.commit(records),
            Move::TellDurable => self.inbox.push_back(Input::Persisted(self.durable)),
            Move::End { which, fate } => self.end_some(which, fate),
            Move::Progress { which } => {
                if let Some(op) = pick(&self.running(), which) {
                    self.inbox.push_back(Input::World(op, WorldEvent::Progress(Bytes(1))));
                }
            }
            Move::Deliver { which, keep } => self.deliver(which, keep),
            Move::DeliverAll { reversed } => self.deliver_all(reversed),
            Move::Lose { which } => self.lose(which),
            Move::Wait { millis } => self.wait(Duration::from_millis(millis)),
            Move::Crowd {
                source,
                destination,
                files,
                delay_secs,
                rounds,
                banned,
            } => {
                self.crowd(source, destination, files, delay_secs);
                self.work(rounds, false);
                if banned > 0 {
                    self.ban((Part::Source, SeId(source % SES)), true);
                    self.work(banned, false);
                }
            }
            Move::Break { what, se, on } => self.break_part((what, SeId(se)), on),
            Move::Ban { what, se, on } => self.ban((what, SeId(se)), on),
            Move::Work { rounds, all } => self.work(rounds, all),
            Move::Crash { records, from_log } => self.crash(records, from_log),
        }
    }

    fn submit(&mut self, links: &[Link], terms: Terms, together: Together, tape: u8) {
        let tape = match tape {
            0 => (Staging::First, false),
            1 => (Staging::Only, false),
            2 => (Staging::No, true),
            3 => (Staging::First, true),
            _ => (Staging::No, false),
        };
        let tape = Tape {
            stage: tape.0,
            archive: tape.1,
        };
        let transfers = (self.next_transfer..).zip(links).map(|(id, link)| {
            let id = TransferId(id);
            self.links.insert(id, *link);
            self.tapes.insert(id, tape);
            TransferSpec {
                id,
                source: link.source,
                destination: link.destination,
                size: SIZE,
                activity: ActivityId(0),
                tape,
            }
        });
        let transfers: Vec<TransferSpec> = transfers.collect();
        self.next_transfer += transfers.len() as u64;
        let spec = JobSpec {
            job: JobId(self.next_job),
            terms,
            routes: self.routes_of(&transfers, together),
            transfers,
        };
        self.next_job += 1;
        self.inbox.push_back(Input::Command(Command::Submit(Arc::new(spec))));
    }

    fn some_transfer(&self, which: usize) -> Option<TransferId> {
        let all = self.next_transfer - 1;
        (all > 0).then(|| TransferId(1 + which as u64 % all))
    }

    fn commit(&mut self, records: usize) {
        for _ in 0..records.min(self.pending.len()) {
            let (seq, record) = self.pending.pop_front().unwrap();
            self.durable = seq;
            if let Record::Submitted(spec) = &record
                && spec.job.0.is_multiple_of(REFUSED)
            {
                self.refuse(seq, spec);
                continue;
            }
            self.store.commit(&record);
            if let Record::Ended {
                op,
                next: Next::Finished,
                ..
            } = record
            {
                let tape = self.tapes[&op.transfer];
                let copied = self.destinations.get(&self.place(op.transfer)) == Some(&Copied::Whole);
                assert_eq!(copied, tape.stage != Staging::Only, "{op} finished without a file");
                assert_eq!(
                    self.on_tape.contains(&op.transfer),
                    tape.archive,
                    "{op} finished without tape"
                );
            }
        }
    }

    /// The job was there already, says the store, and says it at once.
    fn refuse(&mut self, seq: Seq, spec: &JobSpec) {
        for transfer in &spec.transfers {
            self.store.refused.insert(transfer.id);
            self.own.remove(&transfer.id);
            self.staging.remove(&transfer.id);
            self.held.remove(&transfer.id);
            self.forced.remove(&transfer.id);
        }
        self.step(&[Input::Refused(seq)]);
    }

    /// All at once. Commands keep their order among themselves; messages of the world may come in any.
    fn deliver_all(&mut self, reversed: bool) {
        let is_command = |input: &Input| matches!(input, Input::Command(_));
        let (commands, mut inputs): (Vec<Input>, Vec<Input>) = self.inbox.drain(..).partition(is_command);
        if reversed {
            inputs.reverse();
        }
        inputs.extend(commands);
        inputs.extend(self.restoring.drain(..));
        self.step(&inputs);
    }

    fn deliver(&mut self, which: usize, keep: bool) {
        if self.inbox.is_empty() {
            return;
        }
        let mut index = which % self.inbox.len();
        // Commands are given once and in order: take the first of them.
        if matches!(self.inbox[index], Input::Command(_)) {
            index = self
                .inbox
                .iter()
                .position(|input| matches!(input, Input::Command(_)))
                .unwrap();
        }
        let input = self.inbox.remove(index).unwrap();
        if keep && !matches!(input, Input::Command(_)) {
            self.inbox.push_back(input.clone());
        }
        self.step(&[input]);
    }

    fn lose(&mut self, which: usize) {
        if self.inbox.is_empty() {
            return;
        }
        let index = which % self.inbox.len();
        if !matches!(self.inbox[index], Input::Command(_)) {
            self.inbox.remove(index);
        }
    }

    fn crash(&mut self, records: usize, from_log: bool) {
        self.commit(records);
        self.pending.clear();
        self.durable = Seq(0);
        self.told = Seq(0);
        self.started.clear();
        self.issued.clear();
        self.own.clear();
        self.staging.clear();
        self.woken = None;
        // Clients of unanswered commands see a broken connection; messages about operations may still come.
        self.inbox.retain(|input| matches!(input, Input::World(..)));
        // Slots that were given, but not used before the crash.
        let running: BTreeSet<TransferId> = self.running().iter().map(|op| op.transfer).collect();
        self.held.retain(|transfer, _| running.contains(transfer));
        self.begin(from_log);
    }

    fn step(&mut self, inputs: &[Input]) {
        for input in inputs {
            match input {
                Input::Persisted(seq) => self.told = self.told.max(*seq),
                Input::Command(Command::Begin) => self.begun = true,
                Input::Command(Command::Set { changes, .. }) => {
                    changes.iter().for_each(|change| self.limits.apply(*change));
                }
                _ => {}
            }
        }
        self.woken = self.woken.filter(|at| *at > self.now);
        let mut effects = Vec::new();
        self.waited.pass(&self.core, self.now);
        self.core.step(self.now, inputs, &mut effects);
        self.waited.check(&self.core, self.now);
        for effect in effects {
            self.carry_out(effect);
        }
        self.check_work_conserving();
        self.check_alarms();
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Persist(seq, record) => {
                let last = self.pending.back().map_or(self.durable, |(seq, _)| *seq);
                assert_eq!(seq, last.next(), "records are numbered without gaps");
                self.issue(seq, &record);
                self.pending.push_back((seq, record));
            }
            Effect::Ack(seq) => {
                assert!(
                    seq <= self.told,
                    "answered {seq} while the core knew only {} to be durable",
                    self.told
                );
                let record = self.issued[&seq].clone();
                self.answered(&record);
            }
            Effect::Start(op, order) => self.start(op, order),
            Effect::Stop(op) => self.stop(op),
            Effect::Emit(Event::Settled { transfer, state }) => {
                assert_eq!(self.announced.insert(transfer, state), None, "{transfer} settled twice");
                assert_eq!(
                    self.store.rows.get(&transfer),
                    Some(&Row::Settled(state)),
                    "announced before it was durable"
                );
            }
            Effect::Emit(Event::Refused { job, refusal }) => panic!("job {job} was refused: {refusal}"),
            Effect::WakeAt(at) => self.woken = Some(self.woken.map_or(at, |woken| woken.min(at))),
        }
    }

    fn answered(&mut self, record: &Record) {
        match record {
            Record::Submitted(spec) => {
                assert!(
                    !spec.job.0.is_multiple_of(REFUSED),
                    "a job was acknowledged that the store refused"
                );
                self.acknowledged
                    .extend(spec.transfers.iter().map(|transfer| transfer.id));
            }
            Record::Cancelled { ticket, .. } => {
                for transfer in self.cancellations[ticket.0 as usize].iter() {
                    let row = self.store.rows.get(transfer);
                    let goes_on = matches!(row, Some(Row::Live(live)) if live.state != LiveState::Stopping)
                        && !self.is_unused(*transfer);
                    assert!(
                        !goes_on,
                        "{transfer} was cancelled, the client was told so, and it is {row:?}"
                    );
                }
            }
            _ => {}
        }
    }

    fn issue(&mut self, seq: Seq, record: &Record) {
        self.issued.insert(seq, record.clone());
        match record {
            Record::Started { op, work } => {
                assert_eq!(op.epoch, self.epoch);
                self.started.insert(*op, seq);
                let forced = self.forced.remove(&op.transfer);
                match work {
                    // It cleans up, and takes no slot.
                    Work::Copy if self.is_stopping(op.transfer) => {}
                    Work::Copy => self.hold(op.transfer, forced),
                    Work::Stage => self.hold_tape(op.transfer),
                    Work::Archive => {}
                }
            }
            Record::Forced { transfers, .. } => {
                self.ever_forced = true;
                for transfer in transfers {
                    assert!(self.forced.insert(*transfer), "{transfer} is forced twice");
                }
            }
            Record::Cancelled { settled, .. } => {
                for transfer in settled {
                    self.forced.remove(transfer);
                }
            }
            Record::Ended { op, end, next, .. } => {
                self.held_no_more(op.transfer, next.settled().is_some());
                self.staging.remove(&op.transfer);
                self.cleanups.check(*op, end, *next);
                let good = matches!(end, End::Done { .. } | End::Adopted { .. } | End::Ready);
                let goes_on = matches!(end, End::Ready) || self.tapes[&op.transfer].archive;
                let to_another = matches!(
                    (end, next),
                    (End::Ready, Next::Queued { work: Work::Copy, .. })
                        | (
                            End::Done { .. } | End::Adopted { .. },
                            Next::Queued {
                                work: Work::Archive,
                                ..
                            }
                        )
                );
                assert!(
                    match next {
                        Next::Finished => good,
                        // A cancelled transfer is not done with all that was asked of it.
                        Next::Cancelled => !good || goes_on,
                        _ => !good || to_another,
                    },
                    "{op} ended with {end:?}, and is {next:?}"
                );
                if next.settled().is_some() {
                    assert!(
                        self.issued_terminal.insert(op.transfer) || self.is_live(op.transfer),
                        "{op} ended twice"
                    );
                }
            }
            _ => {}
        }
    }
}
