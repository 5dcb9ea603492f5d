//! Group commit: one thread that makes whatever has gathered durable in one transaction.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;
use weir_world::Seq;

use super::{Change, Store, StoreError};
use crate::executor::chain;

/// Rows in one transaction at most. A commit costs one sync (0.1 to 5 ms); 10,000 rows some 50 ms: beyond that waiting for
/// the batch costs more than the sync saves.
const BATCH_ROWS: usize = 10_000;

/// Changes that become durable together.
struct Item {
    /// The record behind them; none of the core's if there is no number.
    seq: Option<Seq>,
    changes: Vec<Change>,
    /// Who waits for them.
    done: Option<oneshot::Sender<()>>,
}

/// What the writer tells.
#[derive(Debug)]
pub(crate) enum Durable {
    /// Everything up to this number is on disk, or was refused.
    UpTo(Seq),
    /// This one will never be: its job exists already.
    Refused(Seq, StoreError),
    /// Another scheduler has taken over: nothing will ever be durable again from here.
    Deposed,
}

/// The writing side of a store.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Mutex<Option<Sender<Item>>>,
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct State {
    trouble: Mutex<Option<String>>,
    closing: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Starts the thread. `tell` is called from it, in order.
    pub(crate) fn start(store: Arc<dyn Store>, tell: impl Fn(Durable) + Send + 'static) -> std::io::Result<Self> {
        Self::through(move |changes| store.apply(changes), tell)
    }

    /// As [`Self::start`], for what is written in another way than by [`Store::apply`], with the same promises.
    pub(crate) fn through(
        apply: impl Fn(&[Change]) -> Result<(), StoreError> + Send + 'static,
        tell: impl Fn(Durable) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, work) = channel();
        let state = Arc::new(State::default());
        let shared = state.clone();
        let thread = std::thread::Builder::new()
            .name("weir-store".into())
            .spawn(move || run(&apply, &work, &shared, &tell))?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            state,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands over changes. They become durable together, after all that were handed over before.
    pub(crate) fn push(&self, seq: Seq, changes: Vec<Change>) {
        self.hand_over(Item {
            seq: Some(seq),
            changes,
            done: None,
        });
    }

    /// Hands over a change that no record stands for.
    pub(crate) fn note(&self, change: Change) {
        self.hand_over(Item {
            seq: None,
            changes: vec![change],
            done: None,
        });
    }

    /// As [`Self::note`], and waits until it is durable. False: the writer has closed, and it may never be.
    pub(crate) async fn make_durable(&self, change: Change) -> bool {
        let (done, durable) = oneshot::channel();
        self.hand_over(Item {
            seq: None,
            changes: vec![change],
            done: Some(done),
        });
        durable.await.is_ok()
    }

    fn hand_over(&self, item: Item) {
        if let Some(queue) = lock(&self.queue).as_ref() {
            // The thread ends only when this sender is dropped.
            let _ = queue.send(item);
        }
    }

    /// What keeps the store from writing, if anything does.
    pub(crate) fn trouble(&self) -> Option<String> {
        lock(&self.state.trouble).clone()
    }

    /// Writes what was handed over, once, and ends the thread. Blocks. What cannot be written was never said to be durable.
    pub(crate) fn close(&self) {
        self.state.closing.store(true, Ordering::Relaxed);
        lock(&self.queue).take();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// How a batch is written.
type Apply = dyn Fn(&[Change]) -> Result<(), StoreError>;

fn run(store: &Apply, work: &Receiver<Item>, state: &State, tell: &(impl Fn(Durable) + Send)) {
    while let Ok(first) = work.recv() {
        let mut rows = weight(&first.changes);
        let mut batch = vec![first];
        while rows < BATCH_ROWS {
            let Ok(next) = work.try_recv() else { break };
            rows += weight(&next.changes);
            batch.push(next);
        }
        if let Err(StoreError::Deposed) = write(store, batch, state, tell) {
            tell(Durable::Deposed);
            return;
        }
    }
}

fn weight(changes: &[Change]) -> usize {
    let rows = |change: &Change| match change {
        Change::Submit(submission) => submission.files.len() + 1,
        _ => 1,
    };
    changes.iter().map(rows).sum()
}

/// An error: the writer closes, or has no right to write any more, and nothing is said.
fn write(store: &Apply, batch: Vec<Item>, state: &State, tell: &(impl Fn(Durable) + Send)) -> Result<(), StoreError> {
    let last = batch.iter().rev().find_map(|item| item.seq);
    let (mut changes, mut waiting) = (Vec::new(), Vec::new());
    for item in batch {
        waiting.push((item.seq, item.changes.len(), item.done));
        changes.extend(item.changes);
    }
    let whole = persist(store, &changes, state);
    let whole = match whole {
        Ok(()) => true,
        // One of them cannot be written: each for itself, so that only that one is refused.
        Err(error) if error.is_refusal() => {
            tracing::debug!(%error, "a batch was refused");
            false
        }
        Err(error) => return Err(error),
    };
    let mut rest = changes.as_slice();
    for (seq, n, done) in waiting {
        let (own, others) = rest.split_at(n);
        rest = others;
        let outcome = if whole { Ok(()) } else { persist(store, own, state) };
        match (outcome, seq) {
            (Ok(()), _) => drop(done.map(|done| done.send(()))),
            (Err(error), _) if !error.is_refusal() => return Err(error),
            (Err(error), Some(seq)) => tell(Durable::Refused(seq, error)),
            (Err(error), None) => tracing::error!(%error, "a note was refused"),
        }
    }
    if let Some(last) = last {
        tell(Durable::UpTo(last));
    }
    Ok(())
}

/// Tries until it works, or the writer closes. A duplicate is given back at once: everything else may pass, and nothing may
/// be said to be durable that is not.
fn persist(store: &Apply, changes: &[Change], state: &State) -> Result<(), StoreError> {
    let show = |text: Option<String>| *lock(&state.trouble) = text;
    let mut pause = Duration::from_millis(50);
    let mut failed = false;
    loop {
        match apply(store, changes) {
            Ok(()) => {
                if failed {
                    tracing::info!("the store works again");
                    show(None);
                }
                return Ok(());
            }
            Err(error) if error.is_refusal() => return Err(error),
            Err(error @ StoreError::Deposed) => {
                tracing::error!("{error}");
                show(Some(error.to_string()));
                return Err(error);
            }
            Err(error) if state.closing.load(Ordering::Relaxed) => {
                tracing::error!(error = chain(&error), "could not write to the store before the end");
                return Err(error);
            }
            Err(error) => {
                let text = chain(&error);
                tracing::error!(error = text, "could not write to the store; trying again");
                show(Some(text));
                failed = true;
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
    }
}

/// A defect on the way into the store is a trouble like any other: shown, and tried again. Were the thread to end, nobody would
/// ever be answered.
fn apply(store: &Apply, changes: &[Change]) -> Result<(), StoreError> {
    let applied = catch_unwind(AssertUnwindSafe(|| store(changes)));
    applied.unwrap_or_else(|_| Err(StoreError::Broken("the store panicked, see the log".into())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::sync::mpsc;

    use super::*;
    use crate::store::{MemoryStore, suite::submission};

    #[test]
    fn a_duplicate_is_refused_alone() {
        // Otherwise one client's repetition would take its neighbours' jobs along.
        let store = Arc::new(MemoryStore::new());
        let (tell, told) = mpsc::channel();
        let writer = Writer::start(store.clone(), move |durable| tell.send(durable).unwrap()).unwrap();
        let submit = |job: u128, first: u64| vec![Change::Submit(Box::new(submission(job, first, 1)))];
        store.apply(&submit(1, 1)).unwrap();
        writer.push(Seq(1), submit(2, 2));
        writer.push(Seq(2), submit(1, 3));
        writer.push(Seq(3), submit(3, 4));
        let (mut refused, mut up_to) = (Vec::new(), Seq(0));
        while up_to < Seq(3) {
            match told.recv().unwrap() {
                Durable::UpTo(seq) => up_to = seq,
                Durable::Refused(seq, _) => refused.push(seq),
                Durable::Deposed => unreachable!("nobody else is there"),
            }
        }
        assert_eq!(refused, [Seq(2)]);
        assert!(store.job(uuid::Uuid::from_u128(3)).unwrap().is_some());
    }
}
