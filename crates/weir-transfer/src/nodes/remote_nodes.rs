//! The scheduler's side of other nodes: their operations, their submissions and their requests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;
use weir_sched::Op;
use weir_store::{Term, blocking, postgres::Peer};
use weir_units::Bytes;
use weir_world::{OpId, Outcome, Waits, WorldEvent};

use super::Membership;
use weir_executor::{
    Executor, Life, Target,
    clock::{AttemptWaits, ServerTimes},
    timeline::Timeline,
};

use crate::{
    driver::{Driver, FeedSender, Gate, OtherNodes},
    events::{Events, Notice},
    opening::host_of,
    store::{
        LiveJob, Restored, StoreError,
        postgres::{self, Asked, LEASES, Lease, PostgresStore},
    },
};

/// Interval at which the scheduler looks without a notification.
const LOOK: Duration = Duration::from_secs(1);

/// How often progress of other nodes is read.
const PROGRESS: Duration = Duration::from_secs(5);

/// Requests of other nodes that are answered at the same time.
const ANSWERING_MAX: usize = 256;

/// The operation of a lease.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Order {
    pub op: Op,
    pub life: Life,
}

/// How an operation ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OperationReport {
    pub event: WorldEvent,
    /// How its time went, if it copied.
    #[serde(default)]
    pub times: Option<Timeline>,
    /// The time that it spent in each state.
    #[serde(default)]
    pub waits: Option<Box<Waits>>,
    /// The part that is about the source.
    #[serde(default)]
    pub at_source: Option<Box<Waits>>,
    /// The parts that are about servers of silent storages.
    #[serde(default)]
    pub servers: ServerTimes,
}

impl OperationReport {
    pub(super) fn lost() -> Self {
        Self {
            event: WorldEvent::Lost,
            times: None,
            waits: None,
            at_source: None,
            servers: ServerTimes::default(),
        }
    }
}

enum NodeCommand {
    Lend(Lease),
    Recall(OpId),
}

/// A node that may be given operations.
#[derive(Debug, Clone)]
struct NodeSlots {
    /// As clients write it.
    host: Arc<str>,
    slots: u32,
    load: u32,
}

/// An operation that runs elsewhere.
struct RemoteOperation {
    node: Uuid,
    host: Arc<str>,
    /// Its destination, once known: no other transfer writes there meanwhile, here or at any other node.
    target: Option<Target>,
}

/// One scheduler's other nodes. Clones share them.
#[derive(Clone)]
pub(crate) struct RemoteNodes {
    shared: Arc<Shared>,
}

struct Shared {
    membership: Arc<Membership>,
    epoch: u64,
    /// This node's own.
    host: Arc<str>,
    executor: Executor,
    /// Operations this node carries out itself; 0: only if no other does.
    slots: u32,
    places: Mutex<BTreeMap<Uuid, NodeSlots>>,
    /// Operations that run elsewhere, with their nodes.
    remote: Mutex<HashMap<OpId, RemoteOperation>>,
    commands: UnboundedSender<NodeCommand>,
    /// Jobs that came in elsewhere and are known, but may still be told of.
    known: Mutex<BTreeSet<u64>>,
}

/// A heading and a body.
type Answered = BoxFuture<'static, (String, Vec<u8>)>;

/// The parts of the scheduling node that other nodes' reports and requests go to.
pub(crate) struct Scheduling {
    pub(crate) driver: Driver,
    pub(crate) events: Events,
    /// Answers a request that came in at another node: heading and body.
    pub(crate) answer: Box<dyn Fn(Asked) -> Answered + Send + Sync>,
}

/// The input of [`RemoteNodes::run`].
pub(crate) struct NodeCommands(UnboundedReceiver<NodeCommand>);

impl RemoteNodes {
    pub(crate) fn new(membership: Arc<Membership>, epoch: u64, executor: Executor, slots: u32) -> (Self, NodeCommands) {
        // No limit of its own. Its bound: a lease and a recall for each operation that other nodes carry out, and their slots bound the
        // operations.
        let (commands, to_do) = unbounded_channel();
        let shared = Shared {
            host: host_of(&membership.node().url).into(),
            membership,
            epoch,
            executor,
            slots,
            places: Mutex::default(),
            remote: Mutex::default(),
            commands,
            known: Mutex::default(),
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            NodeCommands(to_do),
        )
    }
}

impl OtherNodes for RemoteNodes {
    fn term(&self) -> Arc<Term> {
        self.shared.membership.term().clone()
    }

    fn takes(&self, id: OpId, op: Op, here: usize) -> bool {
        let shared = &self.shared;
        let order = Order {
            op,
            life: shared.executor.life(),
        };
        let Ok(order) = serde_json::to_string(&order) else {
            return false;
        };
        let mut places = shared.places.lock();
        // By the share of its slots that would be used: compared without division.
        let freest = places.iter_mut().min_by(|(_, a), (_, b)| {
            let (a, b) = ((u64::from(a.load) + 1, a.slots), (u64::from(b.load) + 1, b.slots));
            (a.0 * u64::from(b.1)).cmp(&(b.0 * u64::from(a.1)))
        });
        let Some((node, place)) = freest else { return false };
        let there = (u64::from(place.load) + 1) * u64::from(shared.slots);
        if shared.slots > 0 && (here as u64 + 1) * u64::from(place.slots) <= there {
            return false;
        }
        place.load += 1;
        let remote = RemoteOperation {
            node: *node,
            host: place.host.clone(),
            target: None,
        };
        shared.remote.lock().insert(id, remote);
        let _ = shared.commands.send(NodeCommand::Lend(Lease {
            op: id,
            node: *node,
            order,
            stop: false,
        }));
        true
    }

    fn running(&self) -> usize {
        self.shared.remote.lock().len()
    }

    fn recall(&self, id: OpId) {
        if self.shared.remote.lock().contains_key(&id) {
            let _ = self.shared.commands.send(NodeCommand::Recall(id));
        }
    }

    fn over(&self, id: OpId) -> Arc<str> {
        let Some(remote) = self.shared.remote.lock().remove(&id) else {
            return self.shared.host.clone();
        };
        if let Some(place) = self.shared.places.lock().get_mut(&remote.node) {
            place.load = place.load.saturating_sub(1);
        }
        remote.host
    }

    fn gate(&self) -> Gate {
        let this = self.clone();
        Box::new(move |stop, each| {
            let mut waits_for = String::new();
            while !stop.is_cancelled() {
                match this.open(each) {
                    Ok(None) => return true,
                    Ok(Some(peer)) => {
                        if waits_for != peer {
                            tracing::info!(node = peer, "waits until it lets go of what an older scheduler ordered");
                            waits_for = peer;
                        }
                    }
                    Err(StoreError::LeadershipLost) => return false,
                    Err(error) => tracing::warn!(
                        error = weir_auth::error_chain(&error),
                        "could not hear of other nodes; trying again"
                    ),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            false
        })
    }
}

impl RemoteNodes {
    /// Gives the name of a node that has not let go yet.
    fn open(&self, each: &mut dyn FnMut(Box<LiveJob>)) -> Result<Option<String>, StoreError> {
        let (store, epoch) = (&self.shared.membership.store, self.shared.epoch);
        store.end_older_leases(epoch)?;
        let own = self.shared.membership.node().id;
        let behind = |peer: &Peer| peer.node.id != own && peer.node.epoch < epoch && !store.members.is_dead(&peer.name);
        let peers = store.members.peers()?;
        if let Some(peer) = peers.iter().find(|peer| behind(peer)) {
            store.members.ring(LEASES)?;
            return Ok(Some(peer.name.clone()));
        }
        self.place(&peers);
        loop {
            let jobs = store.arrivals()?;
            if jobs.is_empty() {
                return Ok(None);
            }
            store.restore_these(&jobs, &mut |restored| hand_over(restored, &mut |job| each(job)))?;
            store.arrived(epoch, &jobs)?;
        }
    }

    /// Records the nodes that may be given operations.
    fn place(&self, peers: &[Peer]) {
        let own = self.shared.membership.node().id;
        let mut places = self.shared.places.lock();
        let fit = |peer: &&Peer| peer.node.id != own && peer.node.slots > 0 && peer.node.epoch == self.shared.epoch;
        let fit = peers.iter().filter(fit).map(|peer| {
            let load = places.get(&peer.node.id).map_or(0, |place| place.load);
            let (slots, host) = (peer.node.slots, host_of(&peer.node.url).into());
            (peer.node.id, NodeSlots { host, slots, load })
        });
        let now = fit.collect();
        *places = now;
        self.shared.membership.gives_to(places.keys().copied().collect());
    }

    /// Runs until it is stopped, or until it finds that it no longer leads: then it stops all other work of the
    /// scheduler. After this process's term it does nothing: a process that was paused must not even read.
    pub(crate) async fn run(self, scheduling: Scheduling, NodeCommands(mut commands): NodeCommands) {
        let stop = scheduling.driver.stop_token();
        let mut dispatcher = Dispatcher {
            remote_nodes: self.clone(),
            feeds_sender: scheduling.driver.feeds_sender(),
            scheduling,
            to_do: Vec::new(),
            lent: HashSet::new(),
            answering: Arc::default(),
            // The first look finds all existing rows.
            doubt: true,
            looked: Instant::now(),
            read: Instant::now(),
        };
        let term = self.term();
        let work = async {
            loop {
                tokio::select! {
                    Some(command) = commands.recv() => dispatcher.to_do.push(command),
                    () = self.shared.membership.bells().leader.notified() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
                while dispatcher.to_do.len() < 5000
                    && let Ok(command) = commands.try_recv()
                {
                    dispatcher.to_do.push(command);
                }
                match dispatcher.round().await {
                    Ok(()) => {}
                    Err(StoreError::LeadershipLost) => return,
                    Err(error) => {
                        dispatcher.doubt = true;
                        tracing::warn!(
                            error = weir_auth::error_chain(&error),
                            "could not speak with other nodes; trying again"
                        );
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = term.within(work) => stop.cancel(),
        }
    }
}

fn hand_over(restored: Restored, each: &mut dyn FnMut(Box<LiveJob>)) {
    match restored {
        Restored::Job(job) => each(job),
        Restored::Unreadable(row) => tracing::error!(row = row.what, reason = row.reason, "a row cannot be read"),
    }
}

/// One scheduler's dealings with other nodes.
struct Dispatcher {
    remote_nodes: RemoteNodes,
    feeds_sender: FeedSender,
    scheduling: Scheduling,
    to_do: Vec<NodeCommand>,
    /// Leases that are in the database for sure, or were.
    lent: HashSet<OpId>,
    answering: Arc<Mutex<HashSet<i64>>>,
    /// Something was asked of the database and its answer lost: reports among it, maybe.
    doubt: bool,
    looked: Instant,
    read: Instant,
}

impl Dispatcher {
    fn store(&self) -> Arc<PostgresStore> {
        self.remote_nodes.shared.membership.store.clone()
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let epoch = self.remote_nodes.shared.epoch;
        self.commands().await?;
        let store = self.store();
        let reports = blocking(move || store.reports(epoch)).await?;
        self.hear(reports);
        self.arrivals().await?;
        self.answer().await?;
        if self.looked.elapsed() >= LOOK || self.doubt {
            let store = self.store();
            let (reports, peers) = blocking(move || Ok((store.bury(epoch)?, store.members.peers()?))).await?;
            self.hear(reports);
            self.remote_nodes.place(&peers);
            self.tell_holdings().await;
            self.looked = Instant::now();
        }
        if self.read.elapsed() >= PROGRESS || self.doubt {
            self.progress().await?;
            self.read = Instant::now();
        }
        self.doubt = false;
        Ok(())
    }

    /// Lets doors know how much room there is. A scheduler that has no time for it says it later.
    async fn tell_holdings(&self) {
        let look = self
            .scheduling
            .driver
            .look(|core, names, meter| meter.holdings(core, names));
        if let Ok(Some(Some(holdings))) = tokio::time::timeout(LOOK / 4, look).await {
            self.remote_nodes.shared.membership.holds(holdings);
        }
    }

    /// Gives and takes back.
    async fn commands(&mut self) -> Result<(), StoreError> {
        self.enter().await?;
        let (mut leases, mut recalled) = (Vec::new(), Vec::new());
        for command in &self.to_do {
            match command {
                NodeCommand::Lend(lease) => leases.push(lease.clone()),
                NodeCommand::Recall(op) => recalled.push(*op),
            }
        }
        let ops = leases.iter().map(|lease| lease.op).collect::<Vec<_>>();
        let (store, epoch) = (self.store(), self.remote_nodes.shared.epoch);
        blocking(move || {
            if !leases.is_empty() {
                store.lend(epoch, &leases)?;
            }
            if recalled.is_empty() {
                Ok(())
            } else {
                store.recall(epoch, &recalled)
            }
        })
        .await?;
        self.to_do.clear();
        self.lent.extend(ops);
        Ok(())
    }

    /// Reserves the destinations of the operations to hand out. An operation whose destination is taken is not handed
    /// out.
    async fn enter(&mut self) -> Result<(), StoreError> {
        let files = self.to_do.iter().filter_map(|command| match command {
            NodeCommand::Lend(lease) => Some(lease.op.transfer.0),
            NodeCommand::Recall(_) => None,
        });
        let (files, store) = (files.collect::<Vec<_>>(), self.store());
        if files.is_empty() {
            return Ok(());
        }
        let found = blocking(move || store.destinations(&files)).await?;
        let found = found.into_iter().collect::<HashMap<_, _>>();
        let shared = &self.remote_nodes.shared;
        let mut refused = Vec::new();
        self.to_do.retain(|command| {
            let NodeCommand::Lend(Lease { op, .. }) = command else {
                return true;
            };
            let mut all = shared.remote.lock();
            let (Some(remote), Some(destination)) = (all.get_mut(op), found.get(&op.transfer.0)) else {
                return true;
            };
            if remote.target.is_none() {
                match shared.executor.enter_elsewhere(destination) {
                    Ok(target) => remote.target = Some(target),
                    Err(failure) => refused.push((*op, failure)),
                }
            }
            refused.last().is_none_or(|(last, _)| last != op)
        });
        for (op, failure) in refused {
            self.feeds_sender.world(op, WorldEvent::Ended(Outcome::Failed(failure)));
        }
        Ok(())
    }

    fn hear(&mut self, reports: Vec<postgres::LeaseReport>) {
        for (op, report) in reports {
            self.lent.remove(&op);
            if !self.remote_nodes.shared.remote.lock().contains_key(&op) {
                continue;
            }
            let report = report.and_then(|report| serde_json::from_str::<OperationReport>(&report).ok());
            let report = report.unwrap_or_else(OperationReport::lost);
            if let Some(times) = report.times {
                self.scheduling.events.tell(Notice::OverElsewhere(op, times));
            }
            if let Some(waits) = report.waits {
                let waits = AttemptWaits {
                    all: *waits,
                    at_source: report.at_source,
                    servers: report.servers,
                };
                self.feeds_sender.waited(op, waits);
            }
            self.feeds_sender.world(op, report.event);
        }
    }

    /// Jobs that came in at other nodes.
    async fn arrivals(&mut self) -> Result<(), StoreError> {
        loop {
            let (store, remote_nodes, feeds_sender) =
                (self.store(), self.remote_nodes.clone(), self.feeds_sender.clone());
            let epoch = remote_nodes.shared.epoch;
            let n = blocking(move || {
                let jobs = store.arrivals()?;
                if jobs.is_empty() {
                    return Ok(0);
                }
                let known = &mut *remote_nodes.shared.known.lock();
                let fresh = jobs
                    .iter()
                    .copied()
                    .filter(|job| !known.contains(job))
                    .collect::<Vec<_>>();
                // A failed try must not repeat what it has handed over: that may have ended by then.
                let mut found = Vec::new();
                store.restore_these(&fresh, &mut |restored| hand_over(restored, &mut |job| found.push(job)))?;
                known.extend(&fresh);
                found.into_iter().for_each(|job| feeds_sender.arrived(job));
                store.arrived(epoch, &jobs)?;
                known.clear();
                Ok(jobs.len())
            })
            .await?;
            if n < 5000 {
                return Ok(());
            }
        }
    }

    /// Answers requests that only the scheduler can answer, each on its own task.
    async fn answer(&mut self) -> Result<(), StoreError> {
        let answering = self.answering.lock().iter().copied().collect::<Vec<_>>();
        if answering.len() >= ANSWERING_MAX {
            return Ok(());
        }
        let (store, epoch) = (self.store(), self.remote_nodes.shared.epoch);
        for asked in blocking(move || store.asked(epoch, &answering)).await? {
            self.answering.lock().insert(asked.number);
            let (store, answering) = (self.store(), self.answering.clone());
            let (number, answer) = (asked.number, (self.scheduling.answer)(asked));
            let membership = self.remote_nodes.shared.membership.clone();
            tokio::spawn(async move {
                let (response, body) = answer.await;
                match blocking(move || store.answer(epoch, number, &response, &body)).await {
                    // The leader of now answers.
                    Ok(()) | Err(StoreError::LeadershipLost) => {}
                    Err(error) => {
                        tracing::warn!(error = weir_auth::error_chain(&error), "could not answer another node");
                    }
                }
                answering.lock().remove(&number);
                // There may be more than were taken at once.
                membership.bells().leader.notify_one();
            });
        }
        Ok(())
    }

    /// Reads the progress of operations; those whose lease has vanished are lost.
    async fn progress(&mut self) -> Result<(), StoreError> {
        if self.lent.is_empty() {
            return Ok(());
        }
        let (store, epoch) = (self.store(), self.remote_nodes.shared.epoch);
        let there = blocking(move || store.lent(epoch)).await?;
        let mut missing = std::mem::take(&mut self.lent);
        for (op, moved) in there {
            if missing.remove(&op) {
                self.lent.insert(op);
            }
            if let Some(bytes) = moved {
                self.feeds_sender.world(op, WorldEvent::Progress(Bytes(bytes)));
            }
        }
        for op in missing {
            if self.remote_nodes.shared.remote.lock().contains_key(&op) {
                self.feeds_sender.world(op, WorldEvent::Lost);
            }
        }
        Ok(())
    }
}
