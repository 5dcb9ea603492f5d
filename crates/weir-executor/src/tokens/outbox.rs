//! Issuers' tokens on their way to the store: many in one transaction, retried until they are stored.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use weir_store::StoreError;

use crate::{
    job::TokenHash,
    orders::{Orders, Renewal},
};

/// Of one transaction, at most.
const BATCH_MAX: usize = 500;

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);

enum Item {
    Outcome(TokenHash, Option<Renewal>),
    /// The claim is let go, and nothing else.
    Release(TokenHash),
    Written(oneshot::Sender<()>),
}

/// See the module. The task begins with the first outcome, so that a service that renews nothing has none.
pub(super) struct Outbox {
    store: Arc<dyn Orders>,
    task: Mutex<Option<(mpsc::UnboundedSender<Item>, JoinHandle<()>)>>,
}

impl Outbox {
    pub(super) fn new(store: Arc<dyn Orders>) -> Self {
        Self {
            store,
            task: Mutex::default(),
        }
    }

    fn send(&self, item: Item) {
        let mut task = self.task.lock();
        let (items, _) = task.get_or_insert_with(|| {
            // No limit of its own. Its bound: two items for each of FLIGHTS_MAX requests to issuers at one time; none goes out while the
            // store does not answer.
            let (sender, receiver) = mpsc::unbounded_channel();
            (sender, tokio::spawn(run(self.store.clone(), receiver)))
        });
        // It ends only with the process.
        let _ = items.send(item);
    }

    /// To be kept.
    pub(super) fn put(&self, token: TokenHash, outcome: Option<Renewal>) {
        self.send(Item::Outcome(token, outcome));
    }

    /// Nothing came, and others may ask.
    pub(super) fn release(&self, token: TokenHash) {
        self.send(Item::Release(token));
    }

    /// Waits until all that was put is kept.
    pub(super) async fn written(&self) {
        let (tell, told) = oneshot::channel();
        self.send(Item::Written(tell));
        // It goes with the service.
        let _ = told.await;
    }

    /// Ends when everything is kept, or after some seconds: the store may be gone for long.
    pub(super) async fn close(&self) {
        let task = self.task.lock().take();
        if let Some((items, task)) = task {
            drop(items);
            let abort = task.abort_handle();
            if tokio::time::timeout(Duration::from_secs(5), task).await.is_err() {
                tracing::error!("fresh tokens could not be kept; the issuer is asked for them again");
                abort.abort();
            }
        }
    }
}

async fn run(store: Arc<dyn Orders>, mut items: mpsc::UnboundedReceiver<Item>) {
    let mut batch = Vec::new();
    while items.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let (mut outcomes, mut released, mut tell) =
            (Vec::<(TokenHash, Option<Renewal>)>::new(), Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Item::Outcome(token, outcome) => {
                    // Of two for one token the later counts; that nothing new came takes nothing away.
                    let earlier = outcomes.iter().position(|(known, _)| *known == token);
                    match earlier {
                        Some(place) if outcome.is_some() => outcomes[place].1 = outcome,
                        Some(_) => {}
                        None => outcomes.push((token, outcome)),
                    }
                }
                Item::Release(token) => released.push(token),
                Item::Written(told) => tell.push(told),
            }
        }
        write(&store, outcomes, released).await;
        for told in tell {
            let _ = told.send(());
        }
    }
}

async fn write(store: &Arc<dyn Orders>, outcomes: Vec<(TokenHash, Option<Renewal>)>, released: Vec<TokenHash>) {
    let (outcomes, released) = (Arc::new(outcomes), Arc::new(released));
    loop {
        let (store, outcomes, released) = (store.clone(), outcomes.clone(), released.clone());
        let written = tokio::task::spawn_blocking(move || {
            if !outcomes.is_empty() {
                store.renewed(&outcomes)?;
            }
            if !released.is_empty() {
                store.release_renewals(&released)?;
            }
            Ok::<_, StoreError>(())
        });
        match written.await {
            Ok(Ok(())) | Err(_) => return,
            Ok(Err(error)) if error.is_passing() => {
                tracing::warn!(
                    error = weir_auth::error_chain(&error),
                    "fresh tokens could not be kept; trying again"
                );
                tokio::time::sleep(PAUSE).await;
            }
            Ok(Err(error)) => {
                tracing::error!(error = weir_auth::error_chain(&error), "fresh tokens cannot be kept");
                return;
            }
        }
    }
}
