//! Removes what has lost its name already: large trees go behind the answer to DELETE and MOVE, not before it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    area::Area,
    backend::{Emptied, Grave},
    data::blocking,
};

/// Entries removed before the answer: their room is free when the client hears of it. 1000 × some 20 µs = 20 ms; and
/// entries that the reaper removes in one visit to the disk, after which it can be stopped.
const AT_ONCE: usize = 1000;

/// The disk's rest after each visit: transfers come first.
const PAUSE: Duration = Duration::from_millis(1);

/// Graves of an area that wait to be emptied.
#[derive(Default)]
pub(crate) struct Graves {
    waiting: Mutex<VecDeque<Box<dyn Grave>>>,
    more: Notify,
}

impl Graves {
    /// How many there are, but for the one that is being emptied.
    pub(crate) fn count(&self) -> usize {
        self.waiting().len()
    }

    fn push(&self, grave: Box<dyn Grave>) {
        self.waiting().push_back(grave);
        self.more.notify_one();
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Box<dyn Grave>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Area {
    /// Removes what lost its name: the beginning now, the rest by the reaper. On the blocking pool, without a lock.
    pub(crate) fn lay_to_rest(&self, mut grave: Box<dyn Grave>) {
        if !self.empty(&mut *grave) {
            self.graves.push(grave);
        }
    }

    /// Empties a grave for a while; tells whether that was all.
    fn empty(&self, grave: &mut dyn Grave) -> bool {
        let Emptied { freed, outcome } = grave.empty(AT_ONCE);
        self.freed(freed);
        outcome.unwrap_or_else(|error| {
            tracing::warn!(area = self.name, %error, "what was deleted could not be removed; it is tried again at the next start");
            true
        })
    }
}

/// The reapers of an endpoint's areas. Dropped, they end after what they have in hand.
pub(crate) struct Reapers {
    stop: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

impl Reapers {
    pub(crate) fn start(areas: &[Arc<Area>]) -> Self {
        let (stop, stopped) = watch::channel(());
        let tasks = areas
            .iter()
            .map(|area| tokio::spawn(reap(area.clone(), stopped.clone())))
            .collect();
        Self { stop, tasks }
    }

    /// Ends them; what is left goes at the next start.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

async fn reap(area: Arc<Area>, mut stopped: watch::Receiver<()>) {
    loop {
        // One at a time, and in turn: a small tree does not wait for the end of a large one.
        let next = area.graves.waiting().pop_front();
        let Some(mut grave) = next else {
            tokio::select! {
                _ = stopped.changed() => return,
                () = area.graves.more.notified() => continue,
            }
        };
        if stopped.has_changed().is_err() {
            return;
        }
        let area = area.clone();
        blocking(move || {
            if !area.empty(&mut *grave) {
                area.graves.push(grave);
            }
        })
        .await;
        tokio::time::sleep(PAUSE).await;
    }
}
