//! The state machine: from inputs to records and orders.

mod commands;
mod ends;
mod force;
mod forced;
mod ids;
mod operations;
mod outbox;
mod restore;
mod route_table;
mod routes;
pub(crate) mod table;
mod tape;
pub(crate) mod terms;
mod view;

use std::collections::BTreeSet;
use std::time::Duration;

use weir_units::Timestamp;
use weir_world::{Core, OpId, Seq, TransferId, WorldEvent};

use crate::policy::{Join, LEVELS, Policy, RESUMED, level_of};
use crate::retry::RetryPolicy;
use crate::settings::Settings;
use crate::stats::Counts;
use crate::{Command, Event, Op, Record, Work};
use forced::Forced;
use operations::Operations;
use outbox::{Outbox, Then};
use route_table::Routes;
use table::{State, Table};
use tape::{Tapes, Whose};
use terms::TermsTable;

/// Shortest interval between records of the optimiser's state: a crash costs a few minutes of learning.
const LEARNED_EVERY: Duration = Duration::from_secs(300);

/// An input of the scheduler.
pub type Input = weir_world::Input<Command, Record>;
/// An effect of the scheduler.
pub type Effect = weir_world::Effect<Record, Op, Event>;

/// How a scheduler is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The epoch of this core: greater than that of every core before it that used the same store.
    pub epoch: u64,
    /// The settings before any [`Command::Set`].
    pub settings: Settings,
    /// When to try again.
    pub retry: RetryPolicy,
    /// The most transfers that one step starts; the rest follow in the next step, which is asked for at once.
    pub starts_per_step: usize,
    /// The most transfers held at once, beyond which jobs are refused.
    pub transfers_max: u64,
}

impl Default for Config {
    /// Epoch 1; 1,000 starts per step (a step of about a millisecond); 10 million transfers (0.6 GB).
    fn default() -> Self {
        Self {
            epoch: 1,
            settings: Settings::default(),
            retry: RetryPolicy::default(),
            starts_per_step: 1_000,
            transfers_max: 10_000_000,
        }
    }
}

/// The transfer service's core. The [crate's page](crate) lists its invariants.
#[derive(Debug)]
pub struct Scheduler {
    epoch: u64,
    retry: RetryPolicy,
    starts_per_step: usize,
    transfers_max: u64,
    now: Timestamp,
    /// Restoring is over.
    begun: bool,
    /// Commands that have to wait until it is.
    deferred: Vec<Command>,
    table: Table,
    terms: TermsTable,
    operations: Operations,
    routes: Routes,
    policy: Policy,
    tapes: Tapes,
    forced: Forced,
    outbox: Outbox,
    /// Delayed transfers, by the time at which they may be queued again.
    due: BTreeSet<(Timestamp, TransferId)>,
    /// The wake that was asked for and has not come.
    armed: Option<Timestamp>,
    /// When the optimiser's knowledge was recorded last.
    recorded: Timestamp,
    totals: Counts,
}

impl Scheduler {
    /// An empty scheduler. It starts nothing before [`Command::Begin`].
    pub fn new(config: Config) -> Self {
        Self {
            epoch: config.epoch,
            retry: config.retry,
            starts_per_step: config.starts_per_step.max(1),
            transfers_max: config.transfers_max,
            now: Timestamp(0),
            begun: false,
            deferred: Vec::new(),
            table: Table::default(),
            terms: TermsTable::default(),
            operations: Operations::default(),
            routes: Routes::default(),
            policy: Policy::new(config.settings),
            tapes: Tapes::default(),
            forced: Forced::default(),
            outbox: Outbox::default(),
            due: BTreeSet::new(),
            armed: None,
            recorded: Timestamp(0),
            totals: Counts::default(),
        }
    }

    /// Prefetches the rows of all inputs. They are seldom in the cache, and independent loads overlap: a fifth of the
    /// time of 200 ends on 10,000 links.
    fn fetch(&self, inputs: &[Input]) {
        let mut seen = 0;
        for input in inputs {
            if let Input::World(op, _) = input
                && let Some(row) = self.table.find(op.transfer)
            {
                seen ^= self.policy.touch(self.table[row].lane);
            }
        }
        std::hint::black_box(seen);
    }

    fn take(&mut self, input: &Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Command(command) => self.command(command, effects),
            Input::Restored(record) => self.restore(record),
            Input::Persisted(seq) => self.persisted(*seq, effects),
            Input::Refused(seq) => self.refused(*seq),
            Input::World(op, event) => self.world(*op, event, effects),
            Input::Timer => {}
        }
    }

    /// Issues a record. Its consequences wait for [`Scheduler::persisted`].
    fn persist(&mut self, record: Record, then: Then, effects: &mut Vec<Effect>) {
        let seq = self.outbox.put(then);
        effects.push(Effect::Persist(seq, record));
    }

    /// Records up to here are durable: carries out their consequences, in order.
    fn persisted(&mut self, durable: Seq, effects: &mut Vec<Effect>) {
        while let Some((seq, then)) = self.outbox.take(durable) {
            match then {
                Then::Nothing => {}
                Then::Admit(_) => effects.push(Effect::Ack(seq)),
                Then::Acknowledge { stop } => {
                    effects.push(Effect::Ack(seq));
                    self.stop(&stop, effects);
                }
                Then::Start { transfer, attempt, row } => self.start(transfer, attempt, row, effects),
                Then::Settle(transfer, state) => effects.push(Effect::Emit(Event::Settled { transfer, state })),
            }
        }
    }

    /// Orders an operation whose record is durable, unless it was cancelled meanwhile.
    fn start(&mut self, transfer: TransferId, attempt: u32, row: u32, effects: &mut Vec<Effect>) {
        let entry = &self.table[row];
        if entry.id != transfer || entry.state != State::Starting || entry.attempt != attempt {
            return;
        }
        let op = self.op_id(row);
        let link = self.policy.key(self.table[row].lane);
        self.policy.start_waits(self.table[row].lane, -1, self.now);
        let operation = self.operations.insert(row, self.now);
        let row = &mut self.table[row];
        row.state = State::Running;
        row.set_operation(operation);
        let order = match (row.stopping(), row.resume()) {
            (true, true) if row.work() == Work::Copy => {
                if !row.cleaning() {
                    // From now on it counts clean-ups that failed.
                    row.free_retries = 0;
                }
                row.set_cleaning();
                Op::Cleanup { link }
            }
            (true, _) => {
                return self.end(
                    op,
                    crate::End::Stopped {
                        bytes_moved: weir_units::Bytes(0),
                    },
                    effects,
                );
            }
            (false, resume) => match row.work() {
                Work::Copy => Op::Copy {
                    link,
                    resume,
                    failures: row.failures,
                },
                Work::Stage => Op::Stage { link },
                Work::Archive => Op::Archive { link },
            },
        };
        effects.push(Effect::Start(op, order));
    }

    /// Stops the operations of these transfers that still run.
    fn stop(&mut self, transfers: &[TransferId], effects: &mut Vec<Effect>) {
        for transfer in transfers {
            let Some(row) = self.table.find(*transfer) else {
                continue;
            };
            if self.table[row].state == State::Running && !self.table[row].cleaning() {
                effects.push(Effect::Stop(self.op_id(row)));
            }
        }
    }

    fn world(&mut self, op: OpId, event: &WorldEvent, effects: &mut Vec<Effect>) {
        let Some(row) = self.running(op) else { return };
        match event {
            WorldEvent::Progress(bytes) if !self.table[row].is_apart() => self.progress(row, *bytes),
            WorldEvent::Started | WorldEvent::Progress(_) => {}
            WorldEvent::Ended(outcome) => self.end(op, outcome.clone().into(), effects),
            WorldEvent::Lost => self.end(op, crate::End::Lost, effects),
            WorldEvent::Adopted(bytes) => self.end(op, crate::End::Adopted { bytes: *bytes }, effects),
        }
    }

    /// The row of an operation that this core has running. Reports about any other operation are repeated, late, or
    /// from another epoch.
    fn running(&self, op: OpId) -> Option<u32> {
        let row = self.table.find(op.transfer)?;
        let found = &self.table[row];
        (op.epoch == self.epoch && op.attempt == found.attempt && found.state == State::Running).then_some(row)
    }

    fn op_id(&self, row: u32) -> OpId {
        let row = &self.table[row];
        OpId {
            transfer: row.id,
            attempt: row.attempt,
            epoch: self.epoch,
        }
    }

    /// Puts a transfer into its queue, or lets it wait for its time. It must be in neither.
    fn enqueue(&mut self, row: u32, level: usize, join: Join, not_before: Timestamp) {
        if not_before <= self.now {
            self.table[row].state = State::Queued;
            self.table[row].settle_apart();
            if self.table[row].is_apart() {
                let whose = self.whose(row);
                self.table[row].set_level(level);
                return self
                    .tapes
                    .enqueue(&mut self.table, row, whose, join, self.policy.settings());
            }
            let shared = *self.terms.get(self.table[row].terms);
            self.policy
                .enqueue(&mut self.table, row, &shared, level, join, self.now);
            return;
        }
        let entry = &mut self.table[row];
        entry.state = State::Delayed;
        entry.set_level(level);
        entry.set_due(not_before);
        self.due.insert((not_before, entry.id));
        let (lane, size) = (entry.lane, entry.size);
        let counts = self.policy.counts(lane);
        counts.delayed += 1;
        counts.delayed_bytes += size;
        self.policy.delay(lane, 1, self.now);
    }

    /// Cancels a transfer that may have a running operation. A transfer that waits for its turn moves to the queue of
    /// clean-ups.
    fn stop_later(&mut self, row: u32) {
        if self.table[row].state != State::Queued {
            return self.table[row].set_stopping();
        }
        let level = self.table[row].level();
        self.dequeue(row);
        self.table[row].set_stopping();
        self.enqueue(row, level, Join::Back, self.now);
    }

    /// Puts a transfer that never was there into its queue.
    fn enter(&mut self, row: u32, join: Join) {
        self.enqueue(row, self.level(row), join, self.now);
    }

    /// Takes a transfer out of wherever it waits, if it waits.
    fn dequeue(&mut self, row: u32) {
        match self.table[row].state {
            State::Queued if self.table[row].is_apart() => {
                let whose = self.whose(row);
                self.tapes.dequeue(&mut self.table, row, whose, self.policy.settings());
            }
            State::Queued => self.policy.dequeue(&mut self.table, row, self.now),
            State::Delayed => {
                let entry = &self.table[row];
                self.due.remove(&(entry.due(), entry.id));
                let (lane, size) = (entry.lane, entry.size);
                let counts = self.policy.counts(lane);
                counts.delayed -= 1;
                counts.delayed_bytes -= size;
                self.policy.delay(lane, -1, self.now);
            }
            State::Vacant | State::Loose | State::Held | State::Starting | State::Running => return,
        }
        self.table[row].state = State::Loose;
    }

    /// Gives back the slot of a transfer, which was taken to move at this rate, if it reported any.
    fn free(&mut self, row: u32, reported: Option<f64>) {
        if self.table[row].is_apart() {
            let whose = self.whose(row);
            self.tapes.release(whose, self.policy.settings());
        } else {
            self.policy.release(self.table[row].lane, reported, self.now);
        }
    }

    /// The tape queue, or clean-up queue, of a transfer.
    fn whose(&self, row: u32) -> Whose {
        let entry = &self.table[row];
        let link = self.policy.key(entry.lane);
        Whose {
            work: entry.work(),
            se: if entry.work() == Work::Stage {
                link.source
            } else {
                link.destination
            },
            vo: self.terms.get(entry.terms).terms.vo,
        }
    }

    /// Queues transfers whose delay is over.
    fn wake_due(&mut self) {
        while let Some((_, transfer)) = self.due.first().copied().filter(|(at, _)| *at <= self.now) {
            let row = self
                .table
                .find(transfer)
                .expect("a transfer leaves the list of delayed ones before it is forgotten");
            self.dequeue(row);
            self.enqueue(row, self.table[row].level(), Join::Front, self.now);
        }
    }

    /// Gives slots to transfers by turn, within the budget of a step.
    fn start_what_may(&mut self, effects: &mut Vec<Effect>) {
        if self.policy.holds() {
            return;
        }
        for _ in 0..self.starts_per_step {
            let Some(row) = self.tapes.pick(&mut self.table, self.policy.settings()) else {
                break;
            };
            self.begin_attempt(row, effects);
        }
        for _ in 0..self.starts_per_step {
            // Transfers that were active when the service stopped get slots before any is forced past the limits.
            let next = self.policy.pick(&mut self.table, RESUMED + 1, self.now);
            let next = next.or_else(|| self.next_forced());
            let next = next.or_else(|| self.policy.pick(&mut self.table, LEVELS, self.now));
            let Some(row) = next else { return };
            self.begin_attempt(row, effects);
        }
    }

    fn begin_attempt(&mut self, row: u32, effects: &mut Vec<Effect>) {
        self.forced.remove(self.table[row].id);
        let entry = &mut self.table[row];
        entry.state = State::Starting;
        entry.attempt += 1;
        let (transfer, attempt, work) = (entry.id, entry.attempt, entry.work());
        let op = self.op_id(row);
        self.policy.start_waits(self.table[row].lane, 1, self.now);
        let then = Then::Start { transfer, attempt, row };
        self.persist(Record::Started { op, work }, then, effects);
    }

    /// Records the optimiser's state, at most every [`LEARNED_EVERY`].
    fn record_learned(&mut self, effects: &mut Vec<Effect>) {
        if self.policy.has_learned() && self.now >= self.recorded + LEARNED_EVERY {
            self.recorded = self.now;
            let learned = self.policy.take_learned(self.now);
            self.persist(Record::Learned(learned.into()), Then::Nothing, effects);
        }
    }

    /// Requests a wake-up for the next due time, unless it is already requested.
    fn arm(&mut self, effects: &mut Vec<Effect>) {
        if self.armed.is_some_and(|at| at <= self.now) {
            self.armed = None;
        }
        let waits = self.policy.has_turns() || self.tapes.has_turns() || self.forced.has_turns();
        let turns = (waits && !self.policy.holds()).then_some(self.now);
        let looks = self
            .due
            .first()
            .map(|(at, _)| *at)
            .into_iter()
            .chain(self.policy.next_look());
        let wish = turns.or_else(|| looks.min());
        let Some(at) = wish else { return };
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            effects.push(Effect::WakeAt(at));
        }
    }

    /// The level of the queue for a transfer that is neither resumed nor starving.
    fn level(&self, row: u32) -> usize {
        level_of(self.terms.get(self.table[row].terms).terms.priority)
    }
}

impl Core for Scheduler {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn step(&mut self, now: Timestamp, inputs: &[Input], effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.fetch(inputs);
        for input in inputs {
            self.take(input, effects);
        }
        if self.begun {
            self.wake_due();
            self.policy.run_due_alarms(self.now);
            self.start_what_may(effects);
            self.record_learned(effects);
            self.arm(effects);
        }
        self.policy.read_reasons();
    }
}
