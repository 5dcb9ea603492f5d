//! This node among the others: state shared between the scheduler's node and the doors of other nodes.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Deref,
    sync::Arc,
    time::Instant,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_store::{
    Member,
    postgres::{LEADER, Node},
};

use super::ledger::Ledger;
use crate::{
    driver::Holdings,
    store::postgres::{DOORS, LEASES, PostgresStore},
};

/// Rings when there may be something to look at.
#[derive(Debug, Default)]
pub(super) struct Bells {
    pub(super) leader: Notify,
    pub(super) executor: Notify,
    /// Requests that wait for the scheduler's answer, by number.
    doors: Mutex<HashMap<i64, Arc<Notify>>>,
}

/// The membership of this node; see the module. State shared by all services is behind [`Deref`].
pub struct Membership {
    pub(crate) store: Arc<PostgresStore>,
    node: Arc<weir_store::Membership<Share>>,
}

impl Deref for Membership {
    type Target = Arc<weir_store::Membership<Share>>;

    fn deref(&self) -> &Self::Target {
        &self.node
    }
}

/// Parameters that nodes of a transfer service share.
pub struct Share {
    bells: Bells,
    told: Mutex<Told>,
}

struct Told {
    /// The nodes that the scheduler here gives operations.
    given: BTreeSet<Uuid>,
    /// The scheduler is here, or has not let go of everything yet.
    schedules: bool,
    /// The scheduler's holdings, while it runs here.
    holds: Option<Holdings>,
    ledger: Ledger,
}

impl Share {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock()
    }
}

impl Member for Share {
    fn tells(&self) -> Option<String> {
        let holds = self.lock().holds;
        holds.and_then(|holds| serde_json::to_string(&holds).ok())
    }

    fn hears(&self, told: &str) {
        if let Ok(told) = serde_json::from_str(told) {
            self.lock().ledger.hear(told, Instant::now());
        }
    }

    fn notified(&self, word: &str) -> bool {
        self.bells.ring(word);
        // There may be a new scheduler, which waits for this node to let go.
        word == LEASES
    }
}

impl Membership {
    pub(crate) fn new(store: Arc<PostgresStore>, node: Node, stop: CancellationToken) -> Arc<Self> {
        let share = Share {
            bells: Bells::default(),
            told: Mutex::new(Told {
                given: BTreeSet::new(),
                schedules: false,
                holds: None,
                ledger: Ledger::new(Instant::now()),
            }),
        };
        let node = weir_store::Membership::new(store.members.clone(), node, share, stop);
        Arc::new(Self { store, node })
    }

    pub(super) fn bells(&self) -> &Bells {
        &self.node.member().bells
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.node.member().lock()
    }

    /// The scheduler here gives operations to these nodes.
    pub(super) fn gives_to(&self, nodes: BTreeSet<Uuid>) {
        self.told().given = nodes;
    }

    /// Publishes the holdings of the scheduler here, with the next heartbeat.
    pub(super) fn holds(&self, holds: Holdings) {
        let mut told = self.told();
        told.holds = told.schedules.then_some(holds);
    }

    /// Whether the scheduler, elsewhere, surely has room for a job of so many transfers that comes in here, so that it need not be asked.
    pub fn finds_room(
        &self,
        transfers: usize,
        storages: &[String],
        links: &[(String, String)],
        most: Holdings,
    ) -> bool {
        self.told().ledger.takes(transfers, storages, links, most)
    }

    /// Whether the scheduler here gives operations to this node.
    pub(super) fn is_given(&self, node: Uuid) -> bool {
        let told = self.told();
        told.schedules && told.given.contains(&node)
    }

    /// This process schedules in this epoch: nothing of older ones runs here.
    pub async fn begin_scheduling(&self, epoch: u64) {
        {
            let mut told = self.told();
            (told.schedules, told.holds) = (true, None);
            told.given.clear();
        }
        self.node.begin_leading(epoch).await;
    }

    /// This process no longer schedules, and has stopped all work of the scheduler.
    pub fn end_scheduling(&self) {
        {
            let mut told = self.told();
            (told.schedules, told.holds) = (false, None);
        }
        self.node.end_leading();
    }
}

impl Bells {
    /// Rings when there may be an answer to this request.
    pub(super) fn door(&self, number: i64) -> Door<'_> {
        let bell = Arc::new(Notify::new());
        self.lock().insert(number, bell.clone());
        Door {
            bells: self,
            number,
            bell,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Arc<Notify>>> {
        self.doors.lock()
    }

    fn ring(&self, word: &str) {
        match (word, word.split_once(' ')) {
            (LEADER, _) => self.leader.notify_one(),
            (LEASES, _) => self.executor.notify_one(),
            (_, Some((DOORS, number))) => {
                let number = number.parse().unwrap_or_default();
                if let Some(bell) = self.lock().get(&number) {
                    bell.notify_one();
                }
            }
            // Notifications may have been missed.
            _ => {
                self.leader.notify_one();
                self.executor.notify_one();
                self.lock().values().for_each(|bell| bell.notify_one());
            }
        }
    }
}

/// A registered waiter, which is removed when dropped.
pub(super) struct Door<'a> {
    bells: &'a Bells,
    number: i64,
    bell: Arc<Notify>,
}

impl Door<'_> {
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        self.bells.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn an_answer_wakes_only_who_waits_for_it() {
        // Each answer would make every waiter query the database.
        let bells = Bells::default();
        let (one, two) = (bells.door(1), bells.door(2));
        bells.ring("doors 2");
        bells.ring("doors 3");
        assert!(one.rung().now_or_never().is_none());
        assert!(two.rung().now_or_never().is_some());
        // The line was down for a while.
        bells.ring("");
        assert!(one.rung().now_or_never().is_some() && two.rung().now_or_never().is_some());
        drop((one, two));
        assert!(bells.lock().is_empty());
    }
}
