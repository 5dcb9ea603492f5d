//! This node among the others: says that it lives, and lets go when it cannot.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;
use weir_store::Term;

use super::{call, ledger::Ledger};
use crate::{
    driver::Holdings,
    store::{
        StoreError,
        postgres::{DOORS, HANDS, Node, OFFICE, PostgresStore},
    },
};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(2);

/// After a sign of life that was not taken.
const BEAT_AGAIN: Duration = Duration::from_millis(500);

/// A database that stood still has heard by then what was said to it meanwhile.
const FORMER_KEPT: Duration = Duration::from_secs(120);

/// Rings when there may be something to look at.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    pub(super) office: Notify,
    pub(super) hands: Notify,
    /// Those who wait for the scheduler's answer, by the number of their request.
    doors: Mutex<HashMap<i64, Arc<Notify>>>,
    beat: Notify,
}

/// What runs here for a scheduler elsewhere. It ends together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crew {
    /// Everybody leaves, at once and without a word.
    pub(super) leave: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// See the module.
pub(crate) struct Membership {
    pub(crate) store: Arc<PostgresStore>,
    pub(super) bells: Bells,
    pub(crate) term: Arc<Term>,
    state: Mutex<State>,
    /// Why the last sign of life was not taken.
    trouble: watch::Sender<Option<String>>,
    stop: CancellationToken,
}

struct State {
    node: Node,
    /// The id was shown in a sign of life, whether that was heard or not.
    shown: bool,
    /// Ids that were given up, and since when: each sign of life takes them back.
    former: Vec<(Uuid, Instant)>,
    crew: Crew,
    /// Of the newest scheduler, as far as is known.
    epoch: u64,
    /// Whom the scheduler here gives operations.
    given: BTreeSet<Uuid>,
    /// A driver sits here, or has not let go of everything yet.
    in_office: bool,
    /// What is held here, while the scheduler is here.
    holds: Option<Holdings>,
    ledger: Ledger,
}

impl Membership {
    pub(crate) fn new(store: Arc<PostgresStore>, node: Node, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            store,
            bells: Bells::default(),
            term: Arc::new(Term::new()),
            state: Mutex::new(State {
                node,
                shown: false,
                former: Vec::new(),
                crew: Crew::default(),
                epoch: 0,
                given: BTreeSet::new(),
                in_office: false,
                holds: None,
                ledger: Ledger::new(Instant::now()),
            }),
            trouble: watch::Sender::new(None),
            stop,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This node as it is now.
    pub(crate) fn node(&self) -> Node {
        self.lock().node.clone()
    }

    /// Node and crew that belong together.
    pub(super) fn crew(&self) -> (Node, Crew) {
        let state = self.lock();
        (state.node.clone(), state.crew.clone())
    }

    /// What keeps this node from being one, if anything does: the database is away.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Waits for what the database does: not longer than until it is known to be away.
    pub(crate) async fn unless_away<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut trouble = self.trouble.subscribe();
        tokio::select! {
            biased;
            Ok(trouble) = trouble.wait_for(Option::is_some) => {
                Err(StoreError::Unavailable(trouble.clone().unwrap_or_default().into()))
            }
            done = work => done,
        }
    }

    /// The scheduler here gives operations to these nodes.
    pub(super) fn gives_to(&self, nodes: BTreeSet<Uuid>) {
        self.lock().given = nodes;
    }

    /// What the scheduler here holds: other nodes are told with the next sign of life.
    pub(super) fn holds(&self, holds: Holdings) {
        let mut state = self.lock();
        state.holds = state.in_office.then_some(holds);
    }

    /// Whether the scheduler, elsewhere, surely has room for a job of so many transfers that comes in here, so that it need not be asked.
    pub(crate) fn finds_room(
        &self,
        transfers: usize,
        storages: &[String],
        links: &[(String, String)],
        most: Holdings,
    ) -> bool {
        self.lock().ledger.takes(transfers, storages, links, most)
    }

    /// Whether the scheduler here gives operations to this node.
    pub(super) fn is_given(&self, node: Uuid) -> bool {
        let state = self.lock();
        state.in_office && state.given.contains(&node)
    }

    /// Lives: until it is stopped.
    pub(crate) fn start(self: &Arc<Self>, tasks: &TaskTracker) {
        tasks.spawn(self.clone().beat());
        tasks.spawn(self.clone().watch());
        let (this, stop) = (self.clone(), self.stop.clone());
        tasks.spawn_blocking(move || this.listen(&stop));
    }

    /// Says that this node lives, once: whether that was heard.
    pub(crate) async fn pulse(self: &Arc<Self>) -> Result<(), StoreError> {
        let (node, former, holds) = {
            let mut state = self.lock();
            state.shown = true;
            let former = state.former.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            (state.node.clone(), former, state.holds)
        };
        let holds = holds.and_then(|holds| serde_json::to_string(&holds).ok());
        // Counted from before the database was asked: it may count a little longer, never shorter.
        let begin = Instant::now();
        let (store, asked) = (self.store.clone(), node.clone());
        let pulse = call(move || store.pulse(&asked, &former, holds.as_deref())).await?;
        self.trouble.send_replace(None);
        let mut state = self.lock();
        state.former.retain(|(_, since)| since.elapsed() < FORMER_KEPT);
        state.epoch = state.epoch.max(pulse.epoch);
        if let Some(told) = pulse.holds.and_then(|told| serde_json::from_str(&told).ok()) {
            state.ledger.hear(told, Instant::now());
        }
        if state.node.id == node.id {
            self.term.renew(begin + pulse.term);
        }
        Ok(())
    }

    async fn beat(self: Arc<Self>) {
        loop {
            let pause = match self.pulse().await {
                Ok(()) if self.follow().await => Duration::ZERO,
                Ok(()) => BEAT,
                Err(error) => {
                    let text = weir_auth::error_chain(&error);
                    tracing::warn!(error = text, "could not say that this node lives");
                    self.trouble.send_replace(Some(text));
                    BEAT_AGAIN
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.bells.beat.notified() => {}
            }
        }
    }

    /// There is a newer scheduler: what older ones ordered ends here. True: that should be told.
    async fn follow(&self) -> bool {
        let (epoch, crew) = {
            let mut state = self.lock();
            // One that was deposed lets go of its own operations first.
            if state.in_office || state.node.epoch >= state.epoch {
                return false;
            }
            (state.epoch, std::mem::take(&mut state.crew))
        };
        crew.let_go().await;
        self.lock().node.epoch = epoch;
        true
    }

    /// This process is in office in this epoch: nothing of older ones runs here.
    pub(crate) async fn take_office(&self, epoch: u64) {
        let crew = {
            let mut state = self.lock();
            state.epoch = state.epoch.max(epoch);
            state.in_office = true;
            state.given.clear();
            state.holds = None;
            std::mem::take(&mut state.crew)
        };
        crew.let_go().await;
        self.lock().node.epoch = epoch;
    }

    /// This process is not in office any more, and has let go of what it did there.
    pub(crate) fn leave_office(&self) {
        {
            let mut state = self.lock();
            (state.in_office, state.holds) = (false, None);
        }
        self.bells.beat.notify_one();
    }

    /// Lets go when the time is over; then goes on under another name, so that nobody takes it for who it was.
    async fn watch(self: Arc<Self>) {
        loop {
            let pause = if self.term.is_over() {
                let crew = {
                    let mut state = self.lock();
                    // A sign of life that nobody waited for any more may still be heard, by a database that stood still.
                    if std::mem::take(&mut state.shown) {
                        let id = std::mem::replace(&mut state.node.id, Uuid::new_v4());
                        state.former.push((id, Instant::now()));
                    }
                    std::mem::take(&mut state.crew)
                };
                if !crew.tasks.is_empty() {
                    tracing::warn!("this node could not say that it lives: it lets go of what it was copying");
                }
                crew.let_go().await;
                BEAT
            } else {
                self.term.left().max(Duration::from_millis(50))
            };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn listen(self: Arc<Self>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let bells = self.clone();
            let heard = move |word: &str| bells.bells.ring(word);
            if let Err(error) = self.store.listen(stop, heard) {
                tracing::warn!(
                    error = weir_auth::error_chain(&error),
                    "could not listen to other nodes; looking once a second"
                );
            }
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end && !stop.is_cancelled() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Leaves: lets go of everything, and says so.
    pub(crate) async fn leave(&self) {
        let (node, crew) = {
            let mut state = self.lock();
            (state.node.clone(), std::mem::take(&mut state.crew))
        };
        crew.let_go().await;
        let store = self.store.clone();
        if let Err(error) = call(move || store.leave(node.id)).await {
            tracing::warn!(
                error = weir_auth::error_chain(&error),
                "could not say that this node leaves; others find out in some seconds"
            );
        }
    }
}

impl Crew {
    async fn let_go(&self) {
        self.leave.cancel();
        self.tasks.close();
        self.tasks.wait().await;
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
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, word: &str) {
        match (word, word.split_once(' ')) {
            (OFFICE, _) => self.office.notify_one(),
            (HANDS, _) => {
                self.hands.notify_one();
                self.beat.notify_one();
            }
            (_, Some((DOORS, number))) => {
                let number = number.parse().unwrap_or_default();
                if let Some(bell) = self.lock().get(&number) {
                    bell.notify_one();
                }
            }
            // Who knows what was missed.
            _ => {
                self.office.notify_one();
                self.hands.notify_one();
                self.lock().values().for_each(|bell| bell.notify_one());
            }
        }
    }
}

/// A bell that hangs as long as somebody waits.
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
        // Each answer would make everybody ask the database.
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
