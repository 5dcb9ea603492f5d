//! What this node carries out for a scheduler elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;
use weir_world::{OpId, WorldEvent};

use super::{
    Membership, call,
    fleet::{Order, Report},
    membership::Crew,
};
use crate::{
    executor::{Executor, chain},
    store::{StoreError, Writer, postgres::Lease},
};

/// How often this node looks for orders even if nobody rings.
const LOOK: Duration = Duration::from_secs(1);

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(5);

/// Reports that are written together.
const REPORTS: usize = 1000;

/// An end, and for which of this node's lives.
type Told = (Uuid, OpId, Report);

/// See the module.
pub(crate) struct Hands {
    membership: Arc<Membership>,
    executor: Executor,
    journal: Arc<Writer>,
    running: Arc<Mutex<HashMap<OpId, CancellationToken>>>,
    /// What moved since it was last told.
    moved: Arc<Mutex<HashMap<OpId, u64>>>,
    told: UnboundedSender<Told>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hands {
    /// Works until it is stopped. `journal` takes claims of operations with a lease.
    pub(crate) fn start(
        membership: &Arc<Membership>,
        executor: Executor,
        journal: Arc<Writer>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let (told, tellings) = unbounded_channel();
        let hands = Self {
            membership: membership.clone(),
            executor,
            journal,
            running: Arc::default(),
            moved: Arc::default(),
            told,
        };
        tasks.spawn(tell(membership.clone(), hands.moved.clone(), tellings, stop.clone()));
        tasks.spawn(hands.work(stop.clone()));
    }

    async fn work(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.membership.bells.hands.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Err(error) = self.round().await {
                tracing::warn!(error = chain(&error), "could not look for orders; trying again");
            }
        }
    }

    async fn round(&self) -> Result<(), StoreError> {
        let (node, crew) = self.membership.crew();
        let (me, epoch) = (node.id, node.epoch);
        loop {
            let store = self.membership.store.clone();
            let leases = call(move || store.ordered(me, epoch)).await?;
            let ops = leases.iter().map(|lease| lease.op).collect::<Vec<_>>();
            for lease in &leases {
                self.start_one(lease, &crew);
            }
            let store = self.membership.store.clone();
            if !ops.is_empty() {
                call(move || store.taken(me, &ops)).await?;
            }
            if leases.len() < 5000 {
                break;
            }
        }
        let store = self.membership.store.clone();
        for op in call(move || store.stopped(me)).await? {
            if let Some(stop) = lock(&self.running).get(&op) {
                stop.cancel();
            }
        }
        Ok(())
    }

    fn start_one(&self, lease: &Lease, crew: &Crew) {
        let (me, op) = (lease.node, lease.op);
        let stop = CancellationToken::new();
        if lease.stop {
            stop.cancel();
        }
        {
            let mut running = lock(&self.running);
            if running.contains_key(&op) {
                return;
            }
            running.insert(op, stop.clone());
        }
        let place = RunningHere {
            running: self.running.clone(),
            moved: self.moved.clone(),
            op,
        };
        let Ok(order) = serde_json::from_str::<Order>(&lease.order) else {
            // Of a newer version: the scheduler learns that nobody here could do it.
            let _ = self.told.send((me, op, Report::lost()));
            return;
        };
        let executor = self.executor.in_life(order.life);
        let (journal, tenure, leave) = (self.journal.clone(), self.membership.tenure.clone(), crew.leave.clone());
        let (told, moved) = (self.told.clone(), self.moved.clone());
        let events = executor.events().clone();
        crew.tasks.spawn(async move {
            let _place = place;
            let tell = |event| match event {
                WorldEvent::Progress(bytes) => drop(lock(&moved).insert(op, bytes.0)),
                event if event.is_final() => {
                    let times = events.take_times(op);
                    let _ = told.send((me, op, Report { event, times }));
                }
                _ => {}
            };
            let work = tenure.within(executor.run((op, order.op), stop, &journal, tell));
            tokio::select! {
                biased;
                () = leave.cancelled() => {}
                done = work => if !done {
                    // Should this node be heard of once more in time, the scheduler must not wait for this one.
                    let _ = told.send((me, op, Report::lost()));
                },
            }
        });
    }
}

/// Takes an operation off the list, however it ends.
struct RunningHere {
    running: Arc<Mutex<HashMap<OpId, CancellationToken>>>,
    moved: Arc<Mutex<HashMap<OpId, u64>>>,
    op: OpId,
}

impl Drop for RunningHere {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.op);
        lock(&self.moved).remove(&self.op);
    }
}

/// Writes ends as they come, and progress now and then.
async fn tell(
    membership: Arc<Membership>,
    moved: Arc<Mutex<HashMap<OpId, u64>>>,
    mut tellings: UnboundedReceiver<Told>,
    stop: CancellationToken,
) {
    let mut progress = tokio::time::interval(PROGRESS);
    let mut told = Vec::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            n = tellings.recv_many(&mut told, REPORTS) => if n == 0 { return },
            _ = progress.tick() => {}
        }
        while !told.is_empty() {
            // What an earlier life of this node did is not its own any more.
            let me = membership.node().id;
            let reports = told
                .iter()
                .filter(|(node, ..)| *node == me)
                .filter_map(|(_, op, report)| Some((*op, serde_json::to_string(report).ok()?)))
                .collect::<Vec<_>>();
            let store = membership.store.clone();
            match call(move || store.report(me, &reports)).await {
                Ok(()) => told.clear(),
                Err(error) => {
                    tracing::warn!(error = chain(&error), "could not report; trying again");
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(Duration::from_millis(300)) => {}
                    }
                }
            }
        }
        let news = std::mem::take(&mut *lock(&moved)).into_iter().collect::<Vec<_>>();
        if !news.is_empty() {
            let (store, me) = (membership.store.clone(), membership.node().id);
            if let Err(error) = call(move || store.moved(me, &news)).await {
                tracing::debug!(error = chain(&error), "could not tell how far copies are");
            }
        }
    }
}
