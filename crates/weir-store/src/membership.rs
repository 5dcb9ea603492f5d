//! This node among the others: it writes heartbeats, and stops its work for a leader when it cannot.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::{
    blocking::blocking,
    error::StoreError,
    postgres::{Members, Node},
    term::Term,
};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(2);

/// After a sign of life that was not taken.
const BEAT_AGAIN: Duration = Duration::from_millis(500);

/// Time after which even a database that stood still has processed earlier statements.
const FORMER_KEPT: Duration = Duration::from_secs(120);

/// The data that a service exchanges with its node's heartbeats.
pub trait Member: Send + Sync + 'static {
    /// The data that this node publishes to all others, while it leads.
    fn tells(&self) -> Option<String> {
        None
    }

    /// Takes the data that the newest leader publishes.
    fn hears(&self, told: &str) {
        let _ = told;
    }

    /// A notification; an empty text: some may have been missed. True: this node should look at once whether it has a new leader.
    fn notified(&self, word: &str) -> bool {
        let _ = word;
        false
    }
}

/// Operations that run here for a leader elsewhere. They end together.
#[derive(Debug, Clone, Default)]
pub struct Delegated {
    /// All of it ends, at once and without a report.
    pub leave: CancellationToken,
    /// All of it.
    pub tasks: TaskTracker,
}

impl Delegated {
    async fn let_go(&self) {
        self.leave.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// See the module.
#[derive(Debug)]
pub struct Membership<M> {
    members: Arc<Members>,
    member: M,
    term: Arc<Term>,
    state: Mutex<MembershipState>,
    /// Why the last sign of life was not taken.
    trouble: watch::Sender<Option<String>>,
    beat: Notify,
    stop: CancellationToken,
}

#[derive(Debug)]
struct MembershipState {
    node: Node,
    /// The id was shown in a sign of life, whether that was heard or not.
    shown: bool,
    /// Ids that were given up, and since when: each sign of life takes them back.
    former: Vec<(Uuid, Instant)>,
    delegated: Delegated,
    /// Of the newest leader, as far as is known.
    epoch: u64,
    /// This process leads, or has not let go of everything yet.
    leads: bool,
}

impl<M: Member> Membership<M> {
    /// Of this node, until it is stopped. It does not live before [`Self::pulse`].
    pub fn new(members: Arc<Members>, node: Node, member: M, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            members,
            member,
            term: Arc::new(Term::new()),
            state: Mutex::new(MembershipState {
                node,
                shown: false,
                former: Vec::new(),
                delegated: Delegated::default(),
                epoch: 0,
                leads: false,
            }),
            trouble: watch::Sender::new(None),
            beat: Notify::new(),
            stop,
        })
    }

    /// The service's part.
    pub fn member(&self) -> &M {
        &self.member
    }

    /// How long this node may act.
    pub fn term(&self) -> &Arc<Term> {
        &self.term
    }

    /// This node as it is now.
    pub fn node(&self) -> Node {
        self.state.lock().node.clone()
    }

    /// The node, and the operations that run here for its leader.
    pub fn delegated(&self) -> (Node, Delegated) {
        let state = self.state.lock();
        (state.node.clone(), state.delegated.clone())
    }

    /// The problem that keeps this node from being a member, if there is one: the database is away.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().clone()
    }

    /// Waits for work on the database, at most until the database is known to be away.
    ///
    /// # Errors
    /// Errors of the work, and [`StoreError::Unavailable`].
    pub async fn unless_away<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let mut trouble = self.trouble.subscribe();
        tokio::select! {
            biased;
            Ok(trouble) = trouble.wait_for(Option::is_some) => {
                Err(StoreError::Unavailable(trouble.clone().unwrap_or_default().into()))
            }
            done = work => done,
        }
    }

    /// Lives, until it is stopped.
    pub fn start(self: &Arc<Self>, tasks: &TaskTracker) {
        tasks.spawn(self.clone().live());
        tasks.spawn(self.clone().watch());
        let this = self.clone();
        tasks.spawn_blocking(move || this.listen());
    }

    /// Says that this node lives, once.
    ///
    /// # Errors
    /// The database did not take it.
    pub async fn pulse(&self) -> Result<(), StoreError> {
        let (node, former) = {
            let mut state = self.state.lock();
            state.shown = true;
            let former = state.former.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            (state.node.clone(), former)
        };
        let tells = self.member.tells();
        // Counted from before the database was asked: it may count a little longer, never shorter.
        let begin = Instant::now();
        let (members, asked) = (self.members.clone(), node.clone());
        let pulse = blocking(move || members.pulse(&asked, &former, tells.as_deref())).await?;
        self.trouble.send_replace(None);
        if let Some(told) = &pulse.holds {
            self.member.hears(told);
        }
        let mut state = self.state.lock();
        state.former.retain(|(_, since)| since.elapsed() < FORMER_KEPT);
        state.epoch = state.epoch.max(pulse.epoch);
        if state.node.id == node.id {
            self.term.renew(begin + pulse.term);
        }
        Ok(())
    }

    async fn live(self: Arc<Self>) {
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
                () = self.beat.notified() => {}
            }
        }
    }

    /// There is a newer leader: operations of older ones end here. True: that should be reported.
    async fn follow(&self) -> bool {
        let (epoch, delegated) = {
            let mut state = self.state.lock();
            // A deposed leader stops its own operations first.
            if state.leads || state.node.epoch >= state.epoch {
                return false;
            }
            (state.epoch, std::mem::take(&mut state.delegated))
        };
        delegated.let_go().await;
        self.state.lock().node.epoch = epoch;
        true
    }

    /// This process leads in this epoch: nothing of older ones runs here.
    pub async fn begin_leading(&self, epoch: u64) {
        let delegated = {
            let mut state = self.state.lock();
            state.epoch = state.epoch.max(epoch);
            state.leads = true;
            std::mem::take(&mut state.delegated)
        };
        delegated.let_go().await;
        self.state.lock().node.epoch = epoch;
    }

    /// This process no longer leads, and has stopped all work of the leader.
    pub fn end_leading(&self) {
        self.state.lock().leads = false;
        self.beat.notify_one();
    }

    /// Stops the operations when the term is over; then continues under another id, so that no other node takes it for
    /// the former one.
    async fn watch(self: Arc<Self>) {
        loop {
            let pause = if self.term.is_over() {
                let delegated = {
                    let mut state = self.state.lock();
                    // An abandoned heartbeat may still be executed, by a database that stood still.
                    if std::mem::take(&mut state.shown) {
                        let id = std::mem::replace(&mut state.node.id, Uuid::new_v4());
                        state.former.push((id, Instant::now()));
                    }
                    std::mem::take(&mut state.delegated)
                };
                if !delegated.tasks.is_empty() {
                    tracing::warn!("this node could not write its heartbeat: it stops its operations for the leader");
                }
                delegated.let_go().await;
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

    fn listen(self: Arc<Self>) {
        while !self.stop.is_cancelled() {
            let this = self.clone();
            let heard = move |word: &str| {
                if this.member.notified(word) {
                    this.beat.notify_one();
                }
            };
            if let Err(error) = self.members.listen(&self.stop, heard) {
                tracing::warn!(
                    error = weir_auth::error_chain(&error),
                    "could not listen to other nodes; looking once a second"
                );
            }
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end && !self.stop.is_cancelled() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Leaves: lets go of everything, and says so.
    pub async fn leave(&self) {
        let (node, delegated) = {
            let mut state = self.state.lock();
            (state.node.clone(), std::mem::take(&mut state.delegated))
        };
        delegated.let_go().await;
        let members = self.members.clone();
        if let Err(error) = blocking(move || members.leave(node.id)).await {
            tracing::warn!(
                error = weir_auth::error_chain(&error),
                "could not say that this node leaves; others find out in some seconds"
            );
        }
    }
}
