//! A model of Rucio's daemons, made after the source of Rucio 41.5.1: Rucio itself does not run.
//!
//! | daemon | modelled behaviour |
//! |---|---|
//! | injector and judge (`add_rule`) | locks and requests of a rule are one transaction, in the process that asks |
//! | throttler | lets requests out into a destination while less than 80 % of its limit are |
//! | submitter | takes the oldest requests, groups them by rule, and submits one job after the other |
//! | poller | polls the requests that were polled longest ago, and records each that has ended |
//! | finisher | makes locks OK in transactions of 100 files, or requests files again at once, four times in all |
//! | cleaner | deletes a rule that has ended in one transaction, in which it has each transfer cancelled by a call |
//! | repairer | requests the files of stuck rules again after 1,800 s |
//! | reaper | threads go through the RSEs in an order drawn anew, and delete a chunk of copies at each, one after the other |
//!
//! The cleaner's transaction holds the rows of its rule: other daemons wait for it. The cleaner itself does not wait:
//! it skips a rule for 10 to 40 minutes while the finisher holds rows of it. Daemons divide rules among their threads
//! by number, as Rucio does by hash. A chunk that a reaper has not deleted within the window is given to the next
//! thread that comes by, which deletes it again (issue 6512).

mod conveyor;
mod judge;
mod reaper;
mod threads;

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use weir_plan::stream;
use weir_units::Timestamp;

use super::agenda::Task;
use super::books::FileKey;
use super::state::{Around, CatalogState, Daemons};
use crate::scene::Scene;
use crate::slab::Key;
use crate::spec::RucioModel;
use threads::{Cleaner, Finisher, Poller, Reaper, Submitter, UnwantedCopies};

/// The daemons; see the module.
#[derive(Debug)]
pub(super) struct Rucio {
    model: RucioModel,
    random: ChaCha8Rng,
    /// Requests that the throttler holds back, by destination.
    held: Vec<VecDeque<FileKey>>,
    /// Requests into each destination that are out.
    out: Vec<u32>,
    /// Requests that are due, the oldest first.
    queued: VecDeque<FileKey>,
    submitters: Vec<Submitter>,
    /// Requests that the transfer service has, by the time at which they were last asked for.
    submitted: VecDeque<(Timestamp, FileKey)>,
    pollers: Vec<Poller>,
    finishers: Vec<Finisher>,
    cleaners: Vec<Cleaner>,
    storages: Vec<UnwantedCopies>,
    reapers: Vec<Reaper>,
}

impl Rucio {
    pub(super) fn new(model: &RucioModel, scene: &Scene, seed: u64) -> Self {
        let n_storages = scene.storages.len();
        Self {
            model: model.clone(),
            random: stream(seed, "rucio"),
            held: vec![VecDeque::new(); n_storages],
            out: vec![0; n_storages],
            queued: VecDeque::new(),
            submitters: (0..model.submitters).map(|_| Submitter::default()).collect(),
            submitted: VecDeque::new(),
            pollers: (0..model.pollers).map(|_| Poller::default()).collect(),
            finishers: (0..model.finishers).map(|_| Finisher::default()).collect(),
            cleaners: (0..model.cleaners).map(|_| Cleaner::default()).collect(),
            storages: (0..n_storages).map(|_| UnwantedCopies::default()).collect(),
            reapers: (0..model.reapers).map(|_| Reaper::default()).collect(),
        }
    }

    /// Starts every daemon, when the first rule is there.
    fn start(&mut self, at: Timestamp, state: &mut CatalogState) {
        type Thread = fn(u32) -> Task;
        let threads: [(u32, Thread); 5] = [
            (self.model.submitters, Task::Submit),
            (self.model.pollers, Task::Poll),
            (self.model.finishers, Task::Finish),
            (self.model.cleaners, Task::Clean),
            (self.model.reapers, Task::Reap),
        ];
        for (n_threads, task) in threads {
            (0..n_threads).for_each(|thread| state.agenda.add(at, task(thread)));
        }
        state.agenda.add(at, Task::Repair);
        if self.model.throttler_max.is_some() {
            state.agenda.add(at, Task::Throttle);
        }
    }
}

impl Daemons for Rucio {
    fn asked(&mut self, at: Timestamp, key: Key, state: &mut CatalogState) {
        if state.books.is_first() {
            self.start(at, state);
        }
        let n_files = state.books.rules.get(key).map_or(0, |rule| rule.files.len());
        let made = at + self.model.rule_per_file * n_files as u32;
        state.agenda.add(made, Task::Made(key));
    }

    fn ended(&mut self, _at: Timestamp, _file: FileKey, _desk: &mut CatalogState) {
        // Ends are not reported to it: the poller asks.
    }

    fn turn(&mut self, at: Timestamp, task: Task, state: &mut CatalogState, around: &Around<'_>) {
        match task {
            Task::Made(rule) => self.made(at, rule, state),
            Task::Throttle => self.throttle(at, state),
            Task::Submit(thread) => self.submit(at, thread, state, around),
            Task::Poll(thread) => self.poll(at, thread, state, around),
            Task::Finish(thread) => self.finish(at, thread, state),
            Task::Clean(thread) => self.clean(at, thread, state, around),
            Task::Repair => self.repair(at, state),
            Task::Reap(thread) => self.reap(at, thread, state, around),
            Task::Evaluate | Task::Again(_) => {}
        }
    }
}
