//! Operations that this node runs for a scheduler elsewhere.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_service::tasks::Tasks;
use weir_store::{Delegated, blocking};
use weir_world::WorldEvent;

use super::{
    Membership,
    at_work::{AtWork, WorkPlace},
    remote_nodes::{OperationReport, Order},
};
use weir_executor::{
    Executor,
    clock::{AttemptClock, AttemptWaits},
};

use crate::events::Events;
use crate::store::journal::Notes;
use crate::store::{StoreError, Writer, postgres::Lease};

/// Interval at which this node looks for orders without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(5);

/// Reports that are written together.
const REPORTS: usize = 1000;

/// An end, and for which of this node's lives. The place is kept until it is written.
type Told = (Uuid, WorkPlace, OperationReport);

/// See the module.
pub(crate) struct RemoteExecutor {
    membership: Arc<Membership>,
    executor: Executor,
    events: Events,
    journal: Arc<Writer>,
    at_work: AtWork,
    told: UnboundedSender<Told>,
}

impl RemoteExecutor {
    /// Works until it is stopped. `journal` takes claims of operations with a lease.
    pub(crate) fn start(
        membership: &Arc<Membership>,
        (executor, events): (Executor, Events),
        journal: Arc<Writer>,
        tasks: &Tasks,
    ) {
        // No limit of its own. Its bound: the end of each operation, once, and this node's slots bound the operations.
        let (told, tellings) = unbounded_channel();
        let executor_here = Self {
            membership: membership.clone(),
            executor,
            events,
            journal,
            at_work: AtWork::default(),
            told,
        };
        let stop = tasks.stop();
        tasks.tracker().spawn(tell(
            membership.clone(),
            executor_here.at_work.clone(),
            tellings,
            stop.clone(),
        ));
        tasks.tracker().spawn(executor_here.work(stop.clone()));
    }

    async fn work(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.membership.bells().executor.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            if let Err(error) = self.round().await {
                tracing::warn!(
                    error = weir_auth::error_chain(&error),
                    "could not look for orders; trying again"
                );
            }
        }
    }

    async fn round(&self) -> Result<(), StoreError> {
        let (node, crew) = self.membership.delegated();
        let (me, epoch) = (node.id, node.epoch);
        loop {
            self.at_work.look_anew();
            let store = self.membership.store.clone();
            let leases = blocking(move || store.ordered(me, epoch)).await?;
            let ops = leases.iter().map(|lease| lease.op).collect::<Vec<_>>();
            for lease in &leases {
                self.start_one(lease, &crew);
            }
            let store = self.membership.store.clone();
            if !ops.is_empty() {
                blocking(move || store.taken(me, &ops)).await?;
            }
            if leases.len() < 5000 {
                break;
            }
        }
        let store = self.membership.store.clone();
        for op in blocking(move || store.stopped(me)).await? {
            self.at_work.stop(op);
        }
        Ok(())
    }

    fn start_one(&self, lease: &Lease, crew: &Delegated) {
        let (me, op) = (lease.node, lease.op);
        let stop = CancellationToken::new();
        if lease.stop {
            stop.cancel();
        }
        let Some(place) = self.at_work.begin(op, stop.clone()) else {
            return;
        };
        let Ok(order) = serde_json::from_str::<Order>(&lease.order) else {
            // An order of a newer version: the scheduler learns that this node cannot run it.
            let _ = self.told.send((me, place, OperationReport::lost()));
            return;
        };
        let executor = self.executor.in_life(order.life);
        let (journal, term, leave) = (
            Notes(self.journal.clone()),
            self.membership.term().clone(),
            crew.leave.clone(),
        );
        let told = self.told.clone();
        let events = self.events.clone();
        crew.tasks.spawn(async move {
            let (last, clock) = (Mutex::new(None), AttemptClock::start());
            let tell = |event| match event {
                WorldEvent::Progress(bytes) => place.moved(bytes.0),
                event if event.is_final() => {
                    let times = events.take_times(op);
                    let AttemptWaits {
                        all,
                        at_source,
                        servers,
                    } = clock.waits();
                    *last.lock() = Some(OperationReport {
                        event,
                        times,
                        waits: Some(Box::new(all)),
                        at_source,
                        servers,
                    });
                }
                _ => {}
            };
            let work = term.within(executor.run((op, order.op), stop, (&journal, &clock), tell));
            tokio::select! {
                biased;
                () = leave.cancelled() => return,
                _ = work => {}
            }
            // Cut off: should this node be heard of once more in time, the scheduler must not wait for this one.
            let last = last.into_inner();
            let _ = told.send((me, place, last.unwrap_or_else(OperationReport::lost)));
        });
    }
}

/// Writes ends as they come, and progress now and then.
async fn tell(
    membership: Arc<Membership>,
    at_work: AtWork,
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
            // Operations of an earlier life of this node are not its own any more.
            let me = membership.node().id;
            let reports = told
                .iter()
                .filter(|(node, ..)| *node == me)
                .filter_map(|(_, place, report)| Some((place.op(), serde_json::to_string(report).ok()?)))
                .collect::<Vec<_>>();
            let store = membership.store.clone();
            match blocking(move || store.report(me, &reports)).await {
                Ok(()) => told.clear(),
                Err(error) => {
                    tracing::warn!(error = weir_auth::error_chain(&error), "could not report; trying again");
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(Duration::from_millis(300)) => {}
                    }
                }
            }
        }
        let news = at_work.news();
        if !news.is_empty() {
            let (store, me) = (membership.store.clone(), membership.node().id);
            if let Err(error) = blocking(move || store.moved(me, &news)).await {
                tracing::debug!(
                    error = weir_auth::error_chain(&error),
                    "could not tell how far copies are"
                );
            }
        }
    }
}
