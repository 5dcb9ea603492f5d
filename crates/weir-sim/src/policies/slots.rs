//! A scheduler that hands out slots in cycles: FTS's, and one with a fixed number per link.
//!
//! In every cycle (2 s in FTS, plus the database's time for each link) it goes through the links that have files
//! waiting, in random order. Each gets the free slots of its own limit and of the limits of its two storage elements:
//! first come, first served. Of the files of a link only those of the highest priority count. Each slot goes to an
//! activity drawn by its share, and in it to the file that came first. So a link that comes first fills its
//! destination, whatever the throughput of its transfers. (`fts3` 3.14, the MySQL scheduler.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_plan::stream;
use weir_sched::{
    ActivityId, Command, Effect, End, Event, Input, JobSpec, Link, Next, Op, Record, SeId, Settled, Terms,
    TransferSpec, Work,
};
use weir_units::{Bytes, Timestamp};
use weir_world::{Core, OpId, Retry, Seq, TransferId, WorldEvent};

use super::fts::{LinkLoad, Optimizer};
use crate::draw;
use crate::hash::NumberMap;
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::terms;

/// How a scheduler of slots is set up.
#[derive(Debug)]
pub struct SlotsConfig {
    seed: u64,
    rule: ActiveLimit,
    interval: Duration,
    /// Time that a cycle takes for each link with files that wait.
    per_link: Duration,
    /// Pause before a new attempt, where a job asks for none.
    retry_delay: Duration,
    /// Transfers at once in all.
    most: u32,
    inbound: BTreeMap<SeId, u32>,
    outbound: BTreeMap<SeId, u32>,
    /// For each link its own configured limit, and the general one.
    links: BTreeMap<Link, (Option<u32>, u32)>,
    /// Transfers through each group that has a limit; which of them each link passes.
    groups: Vec<u32>,
    groups_of: BTreeMap<Link, Vec<usize>>,
    shares: BTreeMap<ActivityId, f64>,
}

/// How many transfers a link may run.
#[derive(Debug)]
enum ActiveLimit {
    Fixed(u32),
    Optimizer(Box<Optimizer>),
}

fn config(plan: &SimPlan, scene: &Scene, rule: ActiveLimit, se_most: u32) -> SlotsConfig {
    let fts = &plan.sim.fts;
    // The default limit of FTS applies where none is configured; the grid's limit holds in any case.
    let most = |own: Option<u32>, limit: u32| own.unwrap_or_else(|| limit.min(se_most));
    let storages = || (0..).map(SeId).zip(&scene.storages);
    let inbound = storages().map(|(se, storage)| (se, most(storage.model.max_active_in, storage.max_active[0])));
    let outbound = storages().map(|(se, storage)| (se, most(storage.model.max_active_out, storage.max_active[1])));
    let ends = |link: &crate::scene::LinkScene| Link {
        source: SeId(link.source as u32),
        destination: SeId(link.destination as u32),
    };
    let share = |workload: &weir_plan::Workload| {
        let number = ActivityId(terms::activity(plan, workload.activity()));
        (number, plan.sim.activity(workload.activity()).share)
    };
    SlotsConfig {
        seed: plan.seed,
        rule,
        interval: fts.scheduler_interval,
        per_link: fts.scheduler_per_link,
        retry_delay: fts.retry_delay,
        most: fts.url_copy_max,
        inbound: inbound.collect(),
        outbound: outbound.collect(),
        links: scene
            .links
            .iter()
            .map(|link| (ends(link), (plan.sim.link(&link.link).max_active, link.max_active)))
            .collect(),
        groups: scene
            .groups
            .iter()
            .map(|group| group.max_active.unwrap_or(u32::MAX))
            .collect(),
        groups_of: scene
            .links
            .iter()
            .map(|link| (ends(link), link.groups.clone()))
            .collect(),
        shares: plan.workloads.iter().map(share).collect(),
    }
}

/// FTS, as the plan sets it up.
pub(crate) fn fts_config(plan: &SimPlan, scene: &Scene) -> SlotsConfig {
    let optimizer = Optimizer::new(plan.sim.fts.clone(), plan.seed);
    config(
        plan,
        scene,
        ActiveLimit::Optimizer(Box::new(optimizer)),
        plan.sim.fts.se_max,
    )
}

/// The same scheduler without an optimizer, within the limits of the grid.
pub(crate) fn fixed_config(plan: &SimPlan, scene: &Scene, active: u32) -> SlotsConfig {
    let grid = &plan.grid.transfer;
    SlotsConfig {
        most: u32::MAX,
        per_link: Duration::ZERO,
        retry_delay: grid.retry_delay,
        ..config(plan, scene, ActiveLimit::Fixed(active), u32::MAX)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// Its job is on its way to the store.
    New,
    Queued,
    Delayed(Timestamp),
    /// The record of its start is on its way to the store.
    Starting,
    Running,
}

#[derive(Debug)]
struct SlotTransfer {
    spec: TransferSpec,
    terms: Terms,
    pair: usize,
    state: SlotState,
    attempt: u32,
    failures: u8,
    started: Timestamp,
    stopping: bool,
}

/// A link with its waiting files.
#[derive(Debug)]
struct Pair {
    link: Link,
    /// By priority, then activity; may hold files that wait no longer.
    queues: BTreeMap<(u8, ActivityId), VecDeque<TransferId>>,
    queued: u64,
    active: u32,
    own_most: Option<u32>,
    most: u32,
    groups: Vec<usize>,
}

/// The consequence of a record, once it is durable.
#[derive(Debug)]
enum Then {
    Admit(Arc<JobSpec>),
    Acknowledge {
        settled: Vec<TransferId>,
        stop: Vec<TransferId>,
    },
    Start(TransferId),
    Settle(TransferId, Settled),
}

/// A scheduler of slots; see the module.
#[derive(Debug)]
pub struct Slots {
    config: SlotsConfig,
    begun: bool,
    now: Timestamp,
    files: NumberMap<TransferId, SlotTransfer>,
    pairs: Vec<Pair>,
    by_link: BTreeMap<Link, usize>,
    /// Active transfers into and out of each storage element.
    inbound: BTreeMap<SeId, u32>,
    outbound: BTreeMap<SeId, u32>,
    /// Active transfers through each group.
    in_groups: Vec<u32>,
    active: u32,
    queued: u64,
    due: BTreeSet<(Timestamp, TransferId)>,
    last: Seq,
    outbox: VecDeque<(Seq, Then)>,
    /// Links whose turn in the cycle has not come yet.
    line: Vec<usize>,
    /// Links whose turn has come.
    served: usize,
    begun_at: Timestamp,
    next_cycle: Timestamp,
    next_look: Timestamp,
    armed: Option<Timestamp>,
    random: ChaCha8Rng,
}

impl Slots {
    /// An empty scheduler.
    pub fn new(config: SlotsConfig) -> Self {
        Self {
            random: stream(config.seed, "slots"),
            in_groups: vec![0; config.groups.len()],
            config,
            begun: false,
            now: Timestamp(0),
            files: NumberMap::default(),
            pairs: Vec::new(),
            by_link: BTreeMap::new(),
            inbound: BTreeMap::new(),
            outbound: BTreeMap::new(),
            active: 0,
            queued: 0,
            due: BTreeSet::new(),
            last: Seq(0),
            outbox: VecDeque::new(),
            line: Vec::new(),
            served: 0,
            begun_at: Timestamp(0),
            next_cycle: Timestamp(0),
            next_look: Timestamp(0),
            armed: None,
        }
    }

    fn persist(&mut self, record: Record, then: Option<Then>, effects: &mut Vec<Effect>) {
        self.last = self.last.next();
        self.outbox.extend(then.map(|then| (self.last, then)));
        effects.push(Effect::Persist(self.last, record));
    }

    fn pair(&mut self, link: Link) -> usize {
        let next = self.pairs.len();
        let at = *self.by_link.entry(link).or_insert(next);
        if at == next {
            let (own_most, most) = self.config.links.get(&link).copied().unwrap_or((None, u32::MAX));
            self.pairs.push(Pair {
                link,
                queues: BTreeMap::new(),
                queued: 0,
                active: 0,
                own_most,
                most,
                groups: self.config.groups_of.get(&link).cloned().unwrap_or_default(),
            });
        }
        at
    }

    fn command(&mut self, command: &Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Begin => self.begun = true,
            Command::Submit(job) => self.submit(job, effects),
            Command::Cancel { ticket, transfers } => {
                let (settled, stopping) = self.cancel(transfers);
                let record = Record::Cancelled {
                    ticket: *ticket,
                    settled: settled.clone(),
                    stopping: stopping.clone(),
                    released: Vec::new(),
                };
                let then = Then::Acknowledge {
                    settled,
                    stop: stopping,
                };
                self.persist(record, Some(then), effects);
            }
            // FTS applies new settings to new jobs; limits come with the configuration.
            _ => {}
        }
    }

    fn submit(&mut self, job: &Arc<JobSpec>, effects: &mut Vec<Effect>) {
        for spec in &job.transfers {
            let pair = self.pair(spec.link());
            let file = SlotTransfer {
                spec: *spec,
                terms: job.terms,
                pair,
                state: SlotState::New,
                attempt: 0,
                failures: 0,
                started: self.now,
                stopping: false,
            };
            self.files.insert(spec.id, file);
        }
        self.persist(
            Record::Submitted(Arc::clone(job)),
            Some(Then::Admit(Arc::clone(job))),
            effects,
        );
    }

    /// Splits transfers into those that end at once and the ones that must be stopped.
    fn cancel(&mut self, transfers: &[TransferId]) -> (Vec<TransferId>, Vec<TransferId>) {
        let (mut settled, mut stopping) = (Vec::new(), Vec::new());
        for id in transfers {
            let Some(file) = self.files.get_mut(id) else { continue };
            match file.state {
                SlotState::Starting | SlotState::Running => {
                    file.stopping = true;
                    stopping.push(*id);
                    continue;
                }
                SlotState::Queued => {
                    self.pairs[file.pair].queued -= 1;
                    self.queued -= 1;
                }
                SlotState::Delayed(at) => drop(self.due.remove(&(at, *id))),
                SlotState::New => {}
            }
            self.files.remove(id);
            settled.push(*id);
        }
        (settled, stopping)
    }

    fn enqueue(&mut self, id: TransferId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        file.state = SlotState::Queued;
        let pair = &mut self.pairs[file.pair];
        let key = (file.terms.priority.get(), file.spec.activity);
        pair.queues.entry(key).or_default().push_back(id);
        pair.queued += 1;
        self.queued += 1;
    }

    fn persisted(&mut self, durable: Seq, effects: &mut Vec<Effect>) {
        while self.outbox.front().is_some_and(|(seq, _)| *seq <= durable) {
            let Some((seq, then)) = self.outbox.pop_front() else {
                return;
            };
            match then {
                Then::Admit(job) => {
                    effects.push(Effect::Ack(seq));
                    job.transfers.iter().for_each(|spec| self.enqueue(spec.id));
                }
                Then::Acknowledge { settled, stop } => {
                    effects.push(Effect::Ack(seq));
                    effects.extend(settled.into_iter().map(|id| settle(id, Settled::Cancelled)));
                    let running = |id: &TransferId| self.files.get(id).filter(|file| file.state == SlotState::Running);
                    let ops = stop.iter().filter_map(running).map(op_of);
                    effects.extend(ops.map(Effect::Stop));
                }
                Then::Start(id) => self.start(id, effects),
                Then::Settle(id, state) => effects.push(settle(id, state)),
            }
        }
    }

    /// Starts an attempt whose record is durable, unless it was cancelled meanwhile.
    fn start(&mut self, id: TransferId, effects: &mut Vec<Effect>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        file.state = SlotState::Running;
        file.started = self.now;
        let op = op_of(file);
        if file.stopping {
            let bytes_moved = Bytes::ZERO;
            return self.end(op, End::Stopped { bytes_moved }, effects);
        }
        let order = Op::Copy {
            link: file.spec.link(),
            resume: false,
            failures: file.failures,
        };
        effects.push(Effect::Start(op, order));
    }

    fn world(&mut self, op: OpId, event: &WorldEvent, effects: &mut Vec<Effect>) {
        let running = |file: &SlotTransfer| file.state == SlotState::Running && op_of(file) == op;
        if !self.files.get(&op.transfer).is_some_and(running) {
            return;
        }
        let end = match event {
            WorldEvent::Started | WorldEvent::Progress(_) => return,
            WorldEvent::Ended(outcome) => outcome.clone().into(),
            WorldEvent::Lost => End::Lost,
            WorldEvent::Adopted(bytes) => End::Adopted { bytes: *bytes },
        };
        self.end(op, end, effects);
    }

    fn end(&mut self, op: OpId, end: End, effects: &mut Vec<Effect>) {
        let id = op.transfer;
        let Some(file) = self.files.get_mut(&id) else { return };
        let pair = &mut self.pairs[file.pair];
        pair.active -= 1;
        self.active -= 1;
        *self.inbound.entry(pair.link.destination).or_default() -= 1;
        *self.outbound.entry(pair.link.source).or_default() -= 1;
        pair.groups.iter().for_each(|group| self.in_groups[*group] -= 1);
        let recoverable = !matches!(&end, End::Failed(failure) if failure.retry == Retry::Never);
        let finished = matches!(end, End::Done { .. } | End::Adopted { .. });
        if let (ActiveLimit::Optimizer(optimizer), false) = (&mut self.config.rule, file.stopping) {
            let took = self.now.since(file.started);
            optimizer.ended(file.pair, self.now, took, finished, recoverable);
        }
        let next = if finished {
            Next::Finished
        } else if file.stopping {
            Next::Cancelled
        } else if recoverable && i32::from(file.failures) < file.terms.retries {
            file.failures += 1;
            let own = file.terms.retry_delay;
            let not_before = self.now + if own.is_zero() { self.config.retry_delay } else { own };
            file.state = SlotState::Delayed(not_before);
            self.due.insert((not_before, id));
            Next::Queued {
                work: Work::Copy,
                not_before,
                failures: file.failures,
                free_retries: 0,
                resume: false,
            }
        } else {
            Next::Failed
        };
        let then = next.settled().map(|state| Then::Settle(id, state));
        if then.is_some() {
            self.files.remove(&id);
        }
        let record = Record::Ended {
            op,
            end,
            next,
            released: None,
        };
        self.persist(record, then, effects);
    }

    /// Continues the cycle of the optimizer and that of the scheduler.
    fn cycle(&mut self, effects: &mut Vec<Effect>) {
        if let ActiveLimit::Optimizer(optimizer) = &mut self.config.rule {
            let load = |pair: usize| LinkLoad {
                queued: self.pairs[pair].queued,
                active: self.pairs[pair].active,
                own_max: self.pairs[pair].own_most,
            };
            optimizer.run(self.now, self.queued, self.pairs.len(), &load);
        }
        if self.line.is_empty() && self.now >= self.next_cycle {
            // A link costs its time if something waits on it.
            self.line = (0..self.pairs.len()).filter(|at| self.pairs[*at].queued > 0).collect();
            for last in (1..self.line.len()).rev() {
                self.line.swap(last, draw::index(&mut self.random, last + 1));
            }
            self.begun_at = self.now;
            self.served = 0;
            self.next_cycle = self.now + self.config.interval + self.config.per_link * self.line.len() as u32;
        }
        for pair in self.links_due() {
            for _ in 0..self.free_slots(pair) {
                let Some(id) = self.next_file(pair) else { break };
                self.give_slot(id, effects);
            }
        }
    }

    /// The links whose turn in the cycle has come by now.
    fn links_due(&mut self) -> Vec<usize> {
        let each = self.config.per_link.as_nanos();
        let passed = self.now.since(self.begun_at).as_nanos();
        let due = passed.checked_div(each).map_or(usize::MAX, |links| links as usize);
        let n_now = due.saturating_sub(self.served).min(self.line.len());
        self.served += n_now;
        self.line.drain(..n_now).collect()
    }

    /// The free slots of a link: of its own limit, of its ends' limits, of the total.
    fn free_slots(&self, at: usize) -> u32 {
        let pair = &self.pairs[at];
        let own = match &self.config.rule {
            ActiveLimit::Fixed(limit) => *limit,
            ActiveLimit::Optimizer(optimizer) => optimizer.limit(at),
        };
        let own = own.min(pair.most);
        let end = |limits: &BTreeMap<SeId, u32>, counts: &BTreeMap<SeId, u32>, se: SeId| {
            let limit = limits.get(&se).copied().unwrap_or(u32::MAX);
            limit.saturating_sub(counts.get(&se).copied().unwrap_or(0))
        };
        let group = |group: &usize| self.config.groups[*group].saturating_sub(self.in_groups[*group]);
        let groups = pair.groups.iter().map(group).min().unwrap_or(u32::MAX);
        own.saturating_sub(pair.active)
            .min(groups)
            .min(end(&self.config.inbound, &self.inbound, pair.link.destination))
            .min(end(&self.config.outbound, &self.outbound, pair.link.source))
            .min(self.config.most.saturating_sub(self.active))
    }

    /// The file that is next on a link: of the highest priority, of an activity drawn by its share, the first.
    fn next_file(&mut self, at: usize) -> Option<TransferId> {
        loop {
            let pair = &mut self.pairs[at];
            let highest = pair.queues.keys().next_back()?.0;
            let activities: Vec<ActivityId> = pair
                .queues
                .range((highest, ActivityId(0))..)
                .map(|(key, _)| key.1)
                .collect();
            let share = |activity: &ActivityId| self.config.shares.get(activity).copied().unwrap_or(1.0);
            let chosen = if let [only] = activities[..] {
                only
            } else {
                let all: f64 = activities.iter().map(share).sum();
                let drawn = draw::draw(&mut self.random) * all;
                activities[draw::pick(drawn, activities.iter().map(share)).unwrap_or(0)]
            };
            let queue = pair.queues.get_mut(&(highest, chosen))?;
            let id = queue.pop_front();
            if queue.is_empty() {
                pair.queues.remove(&(highest, chosen));
            }
            // Files that were cancelled stay in the queue until they are met.
            if let Some(id) = id.filter(|id| self.files.get(id).is_some_and(|file| file.state == SlotState::Queued)) {
                return Some(id);
            }
        }
    }

    fn give_slot(&mut self, id: TransferId, effects: &mut Vec<Effect>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        file.state = SlotState::Starting;
        file.attempt += 1;
        let op = op_of(file);
        let pair = &mut self.pairs[file.pair];
        pair.queued -= 1;
        pair.active += 1;
        self.queued -= 1;
        self.active += 1;
        *self.inbound.entry(pair.link.destination).or_default() += 1;
        *self.outbound.entry(pair.link.source).or_default() += 1;
        pair.groups.iter().for_each(|group| self.in_groups[*group] += 1);
        self.persist(Record::Started { op, work: Work::Copy }, Some(Then::Start(id)), effects);
    }

    fn wake_due(&mut self) {
        while let Some((_, id)) = self.due.first().copied().filter(|(at, _)| *at <= self.now) {
            self.due.pop_first();
            self.enqueue(id);
        }
    }

    /// Goes on with the cycles if it is time, and asks to be woken for the next one as long as there is anything to do.
    fn tick(&mut self, effects: &mut Vec<Effect>) {
        if self.armed.is_some_and(|at| at <= self.now) {
            self.armed = None;
        }
        self.wake_due();
        if self.now >= self.next_look {
            self.cycle(effects);
            self.next_look = self.now + self.config.interval;
        }
        if self.armed.is_none() && !self.files.is_empty() {
            self.armed = Some(self.next_look);
            effects.push(Effect::WakeAt(self.next_look));
        }
    }
}

fn settle(transfer: TransferId, state: Settled) -> Effect {
    Effect::Emit(Event::Settled { transfer, state })
}

fn op_of(file: &SlotTransfer) -> OpId {
    OpId {
        transfer: file.spec.id,
        attempt: file.attempt,
        epoch: 1,
    }
}

impl Core for Slots {
    type Command = Command;
    type Record = Record;
    type Op = Op;
    type Event = Event;

    fn step(&mut self, now: Timestamp, inputs: &[Input], effects: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        for input in inputs {
            match input {
                Input::Command(command) => self.command(command, effects),
                Input::Persisted(seq) => self.persisted(*seq, effects),
                Input::World(op, event) => self.world(*op, event, effects),
                // Neither happens to a core that lives as long as its world.
                Input::Restored(_) | Input::Refused(_) | Input::Timer => {}
            }
        }
        if self.begun {
            self.tick(effects);
        }
    }
}
