//! Weir's catalogue in virtual time. Decisions come from [`weir_rules`], the order of work and its batch sizes from
//! `weir-catalog`, the times of the database from measurements with PostgreSQL (docs/benchmarks-services.md).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use weir_rules::deletion::{self, Goal, OBSOLETE, Replica};
use weir_rules::ids::DidId;
use weir_rules::lifetime;
use weir_rules::retry::{self, Next, REPAIR_AFTER};
use weir_rules::share;
use weir_sched::Settled;
use weir_units::{Bytes, Timestamp};
use weir_world::Retry;

use super::agenda::Task;
use super::books::{Copy, FileKey, FileState};
use super::state::{Around, CatalogState, Daemons, Order};
use crate::scene::Scene;
use crate::sim_plan::SimPlan;
use crate::slab::Key;
use crate::terms;

/// Locks of one transaction (`weir_catalog::rules::PART`).
const PART: usize = 2_000;
/// Time of the evaluator for a lock, made or released: a rule on 50,000 files in 1.7 s.
const LOCK: Duration = Duration::from_micros(35);
/// Time of one completion: 5,830 each second.
const COMPLETION: Duration = Duration::from_micros(172);
/// Requests of one pass of the submitter (`transfers/submit.rs`).
const REQUESTS: usize = 2_000;
/// Files of one job (`transfers/plan.rs`).
const JOB_FILES: usize = 200;
/// Jobs that are submitted at the same time (`transfers/submit.rs`).
const JOBS: usize = 4;
/// Time of the transfer service to take a job of 200 files: docs/benchmarks-services.md, 16 jobs at a time.
const JOB: Duration = Duration::from_millis(50);
/// Requests that the transfer service has at once (`transfers.in_flight`).
const IN_FLIGHT: u64 = 20_000;
/// How long the submitter waits for an answer (`transfers/fts.rs`).
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the reaper looks for work, and how much it takes at one RSE (`reaper.rs`).
const LOOK: Duration = Duration::from_secs(1);
const CHUNK: usize = 100;
/// Files that are deleted at one RSE at the same time (`deletion.parallel`).
const PARALLEL: usize = 8;

/// The deletions at one storage element.
#[derive(Debug, Default)]
struct WeirReaper {
    waiting: VecDeque<Copy>,
    /// The copies that are being deleted.
    chunk: Vec<Copy>,
    is_awake: bool,
}

/// Requests that are due, in streams: one for each activity and destination storage element.
#[derive(Debug)]
struct Due {
    /// Of each link of a workload, its stream.
    streams: Vec<usize>,
    /// Requests of each stream, the oldest first, with their numbers.
    queues: Vec<VecDeque<(u64, FileKey)>>,
    /// Streams that have requests, by the number of the oldest.
    heads: BTreeSet<(u64, usize)>,
    n_pushed: u64,
    /// Requests of each stream that the transfer service has, and all of them.
    out: Vec<u64>,
    all: u64,
}

impl Due {
    fn new(plan: &SimPlan, scene: &Scene) -> Self {
        let mut known = BTreeMap::new();
        let mut stream = |ask: &crate::scene::Ask| {
            let activity = terms::activity(plan, plan.workloads[ask.workload].activity());
            let n_known = known.len();
            *known
                .entry((activity, scene.links[ask.link].destination))
                .or_insert(n_known)
        };
        let streams: Vec<usize> = scene.asks.iter().map(&mut stream).collect();
        let n_streams = known.len();
        Self {
            streams,
            queues: vec![VecDeque::new(); n_streams],
            heads: BTreeSet::new(),
            n_pushed: 0,
            out: vec![0; n_streams],
            all: 0,
        }
    }

    fn push(&mut self, state: &CatalogState, key: FileKey) {
        let Some(rule) = state.books.rules.get(key.rule) else {
            return;
        };
        let stream = self.streams[rule.ask];
        self.n_pushed += 1;
        if self.queues[stream].is_empty() {
            self.heads.insert((self.n_pushed, stream));
        }
        self.queues[stream].push_back((self.n_pushed, key));
    }

    /// The oldest stream head whose stream has room.
    fn first(&self) -> Option<(u64, usize)> {
        let has_room = |(_, stream): &&(u64, usize)| share::room(self.out[*stream], self.all, IN_FLIGHT) > 0;
        self.heads.iter().find(has_room).copied()
    }

    fn has_one(&self) -> bool {
        self.first().is_some()
    }

    fn pop(&mut self) -> Option<FileKey> {
        let head = self.first()?;
        self.heads.remove(&head);
        let queue = &mut self.queues[head.1];
        let (_, key) = queue.pop_front()?;
        self.heads.extend(queue.front().map(|(number, _)| (*number, head.1)));
        Some(key)
    }

    fn taken(&mut self, ask: usize) {
        self.out[self.streams[ask]] += 1;
        self.all += 1;
    }

    fn returned(&mut self, ask: usize, n: u64) {
        self.out[self.streams[ask]] -= n;
        self.all -= n;
    }
}

/// The daemons; see the module.
#[derive(Debug)]
pub(super) struct Weir {
    /// Rules whose locks are being made, with the number of locks made.
    evaluations: VecDeque<(Key, usize)>,
    /// Rules by their end.
    ends: BTreeMap<Timestamp, Vec<Key>>,
    evaluator_free: Timestamp,
    completer_free: Timestamp,
    /// Requests that the evaluator is making, and when each is there.
    made: VecDeque<(Timestamp, FileKey)>,
    due: Due,
    submitter_free: Timestamp,
    is_submitting: bool,
    n_refusals: u32,
    /// Whether it will be looked for rules that are stuck.
    is_repairing: bool,
    reapers: Vec<WeirReaper>,
}

impl Weir {
    pub(super) fn new(plan: &SimPlan, scene: &Scene) -> Self {
        Self {
            evaluations: VecDeque::new(),
            ends: BTreeMap::new(),
            evaluator_free: Timestamp(0),
            completer_free: Timestamp(0),
            made: VecDeque::new(),
            due: Due::new(plan, scene),
            submitter_free: Timestamp(0),
            is_submitting: false,
            n_refusals: 0,
            is_repairing: false,
            reapers: scene.storages.iter().map(|_| WeirReaper::default()).collect(),
        }
    }

    /// The evaluator works for so many locks; gives when it has done so.
    fn evaluator(&mut self, at: Timestamp, locks: usize) -> Timestamp {
        self.evaluator_free = self.evaluator_free.max(at) + LOCK * u32::try_from(locks).unwrap_or(u32::MAX);
        self.evaluator_free
    }

    /// Makes a part of the locks of the rule that waits longest, and releases rules that have ended.
    fn evaluate(&mut self, at: Timestamp, state: &mut CatalogState) {
        while let Some(entry) = self.ends.first_entry().filter(|entry| *entry.key() <= at) {
            for rule in entry.remove() {
                self.release(at, rule, state);
            }
        }
        let Some((rule, from)) = self.evaluations.pop_front() else {
            return;
        };
        let n_files = state.books.rules.get(rule).map_or(0, |rule| rule.files.len());
        let to = n_files.min(from + PART);
        let done = self.evaluator(at, to.saturating_sub(from));
        for file in from..to {
            let key = FileKey { rule, at: file as u32 };
            if let Some(file) = state.books.file_mut(key) {
                file.requested = done;
            }
            self.made.push_back((done, key));
        }
        state.agenda.add(done, Task::Made(rule));
        if to < n_files {
            self.evaluations.push_back((rule, to));
        }
        if !self.evaluations.is_empty() {
            state.agenda.add(done, Task::Evaluate);
        }
    }

    /// The requests of a part are there.
    fn made(&mut self, at: Timestamp, state: &mut CatalogState) {
        while self.made.front().is_some_and(|(made, _)| *made <= at) {
            if let Some((_, key)) = self.made.pop_front() {
                self.due.push(state, key);
            }
        }
        self.wake_submitter(at, state);
    }

    fn release(&mut self, at: Timestamp, key: Key, state: &mut CatalogState) {
        let Some(rule) = state.books.rules.get(key) else { return };
        debug_assert!(rule.life.is_over(at), "a rule is released before its end");
        let (ask, n_files, destination) = (rule.ask, rule.files.len(), state.books.places[rule.ask].2);
        let done = self.evaluator(at, n_files);
        let left = state.books.release(at, key);
        self.due.returned(ask, left.transfers.len() as u64);
        if !left.transfers.is_empty() {
            state.orders.push(Order::Cancel(left.transfers));
        }
        let reaper = &mut self.reapers[destination];
        reaper.waiting.extend(left.copies);
        if !reaper.waiting.is_empty() && !reaper.is_awake {
            reaper.is_awake = true;
            state.agenda.add(done + LOOK, Task::Reap(destination as u32));
        }
    }

    fn wake_submitter(&mut self, at: Timestamp, state: &mut CatalogState) {
        if !self.is_submitting && self.due.has_one() {
            self.is_submitting = true;
            state.agenda.add(at.max(self.submitter_free), Task::Submit(0));
        }
    }

    /// Hands requests over to the transfer service, those first that wait longest. Requests that no rule wants any more are passed over.
    fn submit(&mut self, at: Timestamp, state: &mut CatalogState, around: &Around<'_>) {
        self.is_submitting = false;
        if around.is_away(at) {
            self.n_refusals += 1;
            self.submitter_free = at + PATIENCE + retry::after_refusal(self.n_refusals, None);
            return self.wake_submitter(at, state);
        }
        self.n_refusals = 0;
        let mut groups: BTreeMap<usize, Vec<FileKey>> = BTreeMap::new();
        let mut taken = 0;
        while taken < REQUESTS {
            let Some(key) = self.due.pop() else { break };
            let Some(rule) = state.books.rules.get(key.rule) else {
                continue;
            };
            let is_due = rule.files[key.at as usize].state == FileState::Queued;
            if is_due && lifetime::is_wanted([rule.life].into_iter(), at) {
                groups.entry(rule.ask).or_default().push(key);
                taken += 1;
                self.due.taken(rule.ask);
            }
        }
        let mut n_jobs = 0;
        for (ask, keys) in groups {
            for files in keys.chunks(JOB_FILES) {
                n_jobs += 1;
                let wants = files
                    .iter()
                    .filter_map(|key| state.books.file(*key))
                    .map(|file| file.want);
                let wants = wants.collect();
                for key in files {
                    if let Some(file) = state.books.file_mut(*key) {
                        file.state = FileState::Submitting;
                    }
                }
                state.orders.push(Order::Submit {
                    ask,
                    files: files.to_vec(),
                    wants,
                });
            }
        }
        self.submitter_free = at + JOB * (n_jobs as usize).div_ceil(JOBS) as u32;
        self.wake_submitter(at, state);
    }

    /// A request failed: it is submitted again, or its file is stuck until the rule is repaired.
    fn failed(&mut self, at: Timestamp, key: FileKey, recoverable: bool, state: &mut CatalogState) {
        let Some(file) = state.books.file_mut(key) else { return };
        file.n_failures += 1;
        match retry::after_failure(file.n_failures, recoverable, false) {
            Next::Again(pause) => state.agenda.add(at + pause, Task::Again(key)),
            Next::Stuck => {
                state.books.stuck(at, key);
                if !std::mem::replace(&mut self.is_repairing, true) {
                    state.agenda.add(at + REPAIR_AFTER, Task::Repair);
                }
            }
        }
    }

    fn again(&mut self, at: Timestamp, key: FileKey, state: &mut CatalogState) {
        state.books.queue_again(key);
        self.due.push(state, key);
        self.wake_submitter(at, state);
    }

    fn repair(&mut self, at: Timestamp, state: &mut CatalogState) {
        let is_due = |rule: &super::books::Rule| rule.stuck_since.is_some_and(|since| since + REPAIR_AFTER <= at);
        let due: Vec<Key> = state
            .books
            .rules
            .iter()
            .filter(|(_, rule)| is_due(rule))
            .map(|(key, _)| key)
            .collect();
        for rule in due {
            for file in state.books.repair(rule) {
                self.again(at, file, state);
            }
        }
        let next = state.books.rules.iter().filter_map(|(_, rule)| rule.stuck_since).min();
        self.is_repairing = next.is_some();
        if let Some(since) = next {
            state.agenda.add(since + REPAIR_AFTER, Task::Repair);
        }
    }

    /// Deletes a chunk at one storage element, each with a worker of its own.
    fn reap(&mut self, at: Timestamp, storage: usize, state: &mut CatalogState, around: &Around<'_>) {
        let reaper = &mut self.reapers[storage];
        for copy in reaper.chunk.drain(..) {
            state.books.deleted(at, &copy);
        }
        let replica = |(copy, at): (&Copy, u64)| Replica {
            file: DidId(at),
            bytes: Bytes(copy.size),
            // Rules of a challenge purge: their files are of no use afterwards.
            tombstone: Some(OBSOLETE),
            n_locks: 0,
            is_source: false,
        };
        let may_go = |copy: &Copy| copy.due + around.deletion_delay;
        let ready = reaper.waiting.iter().take_while(|copy| may_go(copy) <= at);
        let replicas: Vec<Replica> = ready.take(CHUNK).zip(0..).map(replica).collect();
        let n_chosen = deletion::choose(&replicas, Goal::ObsoleteOnly, at, CHUNK).len();
        reaper.chunk.extend(reaper.waiting.drain(..n_chosen));
        reaper.is_awake = n_chosen > 0;
        if n_chosen > 0 {
            let time = (around.delete_time)(storage) * n_chosen.div_ceil(PARALLEL) as u32;
            state.agenda.add(at + time, Task::Reap(storage as u32));
        } else if let Some(first) = reaper.waiting.front().filter(|first| may_go(first) > at) {
            reaper.is_awake = true;
            state.agenda.add(may_go(first), Task::Reap(storage as u32));
        }
    }
}

impl Daemons for Weir {
    fn asked(&mut self, at: Timestamp, key: Key, state: &mut CatalogState) {
        let Some(rule) = state.books.rules.get_mut(key) else {
            return;
        };
        rule.answered = Some(at);
        let ends = rule.ends();
        self.ends.entry(ends).or_default().push(key);
        state.agenda.add(ends, Task::Evaluate);
        self.evaluations.push_back((key, 0));
        state.agenda.add(at.max(self.evaluator_free), Task::Evaluate);
    }

    fn ended(&mut self, at: Timestamp, key: FileKey, state: &mut CatalogState) {
        if let Some(rule) = state.books.rules.get(key.rule) {
            self.due.returned(rule.ask, 1);
        }
        let last = state.books.file(key).and_then(|file| file.last.as_deref());
        let Some(row) = last else { return };
        if row.state == Settled::Finished {
            self.completer_free = self.completer_free.max(at) + COMPLETION;
            let at = self.completer_free;
            if let Some(rule) = state.books.lock_ok(at, key) {
                self.ends.entry(at).or_default().push(rule);
                state.agenda.add(at, Task::Evaluate);
            }
        } else {
            let recoverable = row.failure.as_ref().is_none_or(|failure| failure.retry != Retry::Never);
            self.failed(at, key, recoverable, state);
        }
        self.wake_submitter(at, state);
    }

    fn turn(&mut self, at: Timestamp, task: Task, state: &mut CatalogState, around: &Around<'_>) {
        match task {
            Task::Evaluate => self.evaluate(at, state),
            Task::Submit(_) => self.submit(at, state, around),
            Task::Again(file) => self.again(at, file, state),
            Task::Repair => self.repair(at, state),
            Task::Reap(storage) => self.reap(at, storage as usize, state, around),
            Task::Made(_) => self.made(at, state),
            Task::Throttle | Task::Poll(_) | Task::Finish(_) | Task::Clean(_) => {}
        }
    }
}
