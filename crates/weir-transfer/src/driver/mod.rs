//! The driver: the real world of the core. It consists of a task that steps the core, a thread that writes, and tasks
//! that copy.
//!
//! Requests come in through a bounded channel; a full one becomes 503 at the door. Records of the core go to the
//! [`Writer`], its orders to the [`Executor`](weir_executor::Executor). The driver decides nothing.

mod bounds;
mod clock;
mod depth;
mod inbox;
mod learned;
mod meter;
mod other_nodes;
mod pending_answers;
mod records;
mod request;
mod restore;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use weir_sched::{Command, Event, Names, Op, Record, Scheduler};
use weir_world::Core;

pub use bounds::Holdings;
pub use depth::{QueueDepth, Room};
pub(crate) use inbox::FeedSender;
pub use meter::{LinkMeter, Meter, Sizes};
pub(crate) use other_nodes::{Gate, OtherNodes};
pub use pending_answers::{Forcing, NotTaken};
#[cfg(test)]
pub(crate) use records::live as restored;
pub(crate) use run::last_life_ended;

pub(crate) use pending_answers::Answer;

use restore::Restoration;

use crate::{
    config::LimitsConfig,
    store::{Store, StoreError, Writer},
};
use request::REQUESTS_MAX;
pub use request::{Look, Request, TransferCore};

impl<C: Core<Command = Command, Record = Record, Op = Op, Event = Event> + Send + 'static> TransferCore for C {}

/// The door's handle on the driver. Clones share it.
pub struct Driver<C = Scheduler> {
    requests: mpsc::Sender<Request<C>>,
    shared: Arc<DriverState>,
}

struct DriverState {
    /// Counts rounds in which transfers came to their end.
    settled: watch::Receiver<u64>,
    writer: Arc<Writer>,
    restoration: Arc<Restoration>,
    feeds_sender: FeedSender,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl<C> Clone for Driver<C> {
    fn clone(&self) -> Self {
        Self {
            requests: self.requests.clone(),
            shared: self.shared.clone(),
        }
    }
}

/// The contents of the store that a driver needs before it begins.
pub struct Beginning {
    /// The first id of a file that this life may give.
    below: u64,
    /// Learned values of earlier lives, as written.
    learned: Vec<(String, String)>,
}

impl Beginning {
    /// Blocks.
    pub fn read(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self {
            below: store.next_file_id()?,
            learned: store.settings(learned::PREFIX)?,
        })
    }
}

impl<C: TransferCore> Driver<C> {
    /// Where other nodes' news go in.
    pub(crate) fn feeds_sender(&self) -> FeedSender {
        self.shared.feeds_sender.clone()
    }

    /// Cancelled when the driver ends.
    pub fn stop_token(&self) -> CancellationToken {
        self.shared.stop.clone()
    }

    /// Whether it has been told to end, or was deposed.
    pub fn is_stopped(&self) -> bool {
        self.shared.stop.is_cancelled()
    }

    /// Returns when it has been told to end, was deposed, or has ended by a defect.
    pub async fn stopped(&self) {
        self.shared.stop.cancelled().await;
    }

    /// Hands a request over and waits for its answer.
    pub async fn ask(&self, make: impl FnOnce(oneshot::Sender<Answer>) -> Request<C>) -> Answer {
        if let Some(trouble) = self.trouble() {
            return Err(NotTaken::Busy(trouble));
        }
        let (reply, answer) = oneshot::channel();
        self.requests
            .try_send(make(reply))
            .map_err(|_| NotTaken::Busy("too many requests wait".into()))?;
        answer
            .await
            .unwrap_or_else(|_| Err(NotTaken::Busy("the service is stopping".into())))
    }

    /// Looks at the core between two steps.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&C, &Names, &Meter) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Look(Box::new(move |core: &C, names: &Names, meter: &Meter| {
            let _ = reply.send(look(core, names, meter));
        }));
        self.requests.send(request).await.ok()?;
        answer.await.ok()
    }

    /// Sets how much may wait, and be remembered.
    pub async fn limit(&self, limits: &LimitsConfig) {
        let _ = self
            .requests
            .send(Request::Limits(limits.queues, Holdings::of(limits)))
            .await;
    }

    /// Changes whenever transfers have come to their end, durably.
    pub fn settled(&self) -> watch::Receiver<u64> {
        self.shared.settled.clone()
    }

    /// The problem that keeps the service from working, if there is one.
    pub fn trouble(&self) -> Option<String> {
        let writing = self.shared.writer.trouble();
        if self.requests.is_closed() {
            let stopped =
                "the scheduler has stopped; another begins in some seconds, and nothing that was acknowledged is lost";
            return writing.or_else(|| Some(stopped.into()));
        }
        writing.or_else(|| self.shared.restoration.trouble())
    }

    /// How long the store has been at work on the batch at hand.
    pub fn busy_for(&self) -> std::time::Duration {
        self.shared.writer.busy_for()
    }

    /// Rows of the store that were passed over when the service started, for people.
    pub fn unreadable(&self) -> Vec<String> {
        self.shared.restoration.unreadable()
    }

    /// Changes that the store would not take, in this life.
    pub fn set_aside(&self) -> u64 {
        self.shared.writer.set_aside()
    }

    /// Stops the driver: nothing starts any more. Running copies are abandoned (a storage stops when its client
    /// disconnects), and resumed at the next start. Returns when everything handed to the writer is durable.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        // A loop that a defect ended did not come to it.
        let writer = self.shared.writer.clone();
        let _ = tokio::task::spawn_blocking(move || writer.close()).await;
    }

    #[cfg(test)]
    pub(crate) fn command(&self, command: Command) {
        assert!(
            self.requests.try_send(Request::Raw(command)).is_ok(),
            "the driver takes commands"
        );
    }
}
