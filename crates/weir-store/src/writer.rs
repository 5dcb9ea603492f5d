//! Group commit: one thread that writes all pending changes in one transaction.
//!
//! Changes that the store will never take must not block the rest. A batch that fails by itself is halved until the
//! change behind the failure is alone, and that one is set aside. It was never reported as durable.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_world::Seq;

use crate::error::StoreError;

/// Rows in one transaction at most. A commit costs one sync (0.1 to 5 ms); 10,000 rows some 50 ms: beyond that waiting for
/// the batch costs more than the sync saves.
const BATCH_ROWS: usize = 10_000;

/// A durable change of a service.
pub trait Change: Clone + Send + 'static {
    /// Its kind, for the log: a change itself may hold secrets.
    fn name(&self) -> &'static str;

    /// How many rows it writes, about.
    fn rows(&self) -> usize {
        1
    }

    /// The numbers of the objects that depend on it. Empty: it is refused alone, and its caller is told.
    fn concerns(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The changes to write in its place if the store will never take it, so that dependent objects come to an end.
    fn in_place(&self) -> Vec<Self> {
        Vec::new()
    }
}

/// Changes that become durable together.
struct Item<C> {
    /// The record behind them; none of the core's if there is no number.
    seq: Option<Seq>,
    changes: Vec<C>,
    /// The waiting caller.
    done: Option<oneshot::Sender<()>>,
}

/// A report of the writer.
#[derive(Debug)]
pub enum Durable<C> {
    /// Everything up to this number is on disk, or was refused.
    UpTo(Seq),
    /// This one will never be: the service refuses it, or the store cannot take it.
    Refused(Seq, StoreError),
    /// The store cannot take this one. The changes in its place are written, as far as the store takes them.
    SetAside {
        /// The record.
        seq: Seq,
        /// The objects that depend on it.
        concerns: Vec<u64>,
        /// The changes written in its place.
        instead: Vec<C>,
        /// Why.
        error: StoreError,
    },
    /// Another process has taken over: nothing will ever be durable again from here.
    LeadershipLost,
}

/// The writing side of a store: a thread, and a queue before it. Callers do not wait for the disk: they must limit the
/// changes on their way themselves, since the queue is unbounded.
#[derive(Debug)]
pub struct Writer<C> {
    queue: Mutex<Option<Sender<Item<C>>>>,
    state: Arc<WriterState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct WriterState {
    trouble: Mutex<Option<String>>,
    /// Since when the batch at hand is written.
    begun: Mutex<Option<Instant>>,
    closing: AtomicBool,
    set_aside: AtomicU64,
}

impl<C: Change> Writer<C> {
    /// Starts the thread. `apply` makes a batch durable, all of it or nothing, and blocks; after an error that passes it is given the very
    /// same batch again. `tell` is called from the thread, in order.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        mut apply: impl FnMut(&[C]) -> Result<(), StoreError> + Send + 'static,
        tell: impl Fn(Durable<C>) + Send + 'static,
    ) -> std::io::Result<Self> {
        // Not bounded: see the type.
        let (queue, work) = channel();
        let state = Arc::new(WriterState::default());
        let shared = state.clone();
        let thread = std::thread::Builder::new()
            .name("weir-store".into())
            .spawn(move || run(&mut apply, &work, &shared, &tell))?;
        Ok(Self {
            queue: Mutex::new(Some(queue)),
            state,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands over changes. They become durable together, after all that were handed over before.
    pub fn push(&self, seq: Seq, changes: Vec<C>) {
        self.hand_over(Item {
            seq: Some(seq),
            changes,
            done: None,
        });
    }

    /// Hands over a change that no record stands for.
    pub fn note(&self, change: C) {
        self.hand_over(Item {
            seq: None,
            changes: vec![change],
            done: None,
        });
    }

    /// As [`Self::note`], and waits until it is durable. False: the writer has closed, and it may never be.
    pub async fn make_durable(&self, change: C) -> bool {
        let (done, durable) = oneshot::channel();
        self.hand_over(Item {
            seq: None,
            changes: vec![change],
            done: Some(done),
        });
        durable.await.is_ok()
    }

    fn hand_over(&self, item: Item<C>) {
        if let Some(queue) = self.queue.lock().as_ref() {
            // The thread ends only when this sender is dropped.
            let _ = queue.send(item);
        }
    }

    /// The problem that keeps the store from writing, if there is one.
    pub fn trouble(&self) -> Option<String> {
        self.state.trouble.lock().clone()
    }

    /// How long the batch at hand has been written for. The largest takes a second.
    pub fn busy_for(&self) -> Duration {
        self.state.begun.lock().map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// Changes that were set aside, since the start.
    pub fn set_aside(&self) -> u64 {
        self.state.set_aside.load(Ordering::Relaxed)
    }

    /// Writes all pending changes, once, and ends the thread. Blocks. Changes that cannot be written were never
    /// reported as durable.
    pub fn close(&self) {
        self.end();
    }
}

impl<C> Writer<C> {
    fn end(&self) {
        self.state.closing.store(true, Ordering::Relaxed);
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl<C> Drop for Writer<C> {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a batch is written.
type Apply<C> = dyn FnMut(&[C]) -> Result<(), StoreError>;

fn run<C: Change>(
    store: &mut Apply<C>,
    work: &Receiver<Item<C>>,
    state: &WriterState,
    tell: &(impl Fn(Durable<C>) + Send),
) {
    while let Ok(first) = work.recv() {
        let mut rows = weight(&first.changes);
        let mut batch = vec![first];
        while rows < BATCH_ROWS {
            let Ok(next) = work.try_recv() else { break };
            rows += weight(&next.changes);
            batch.push(next);
        }
        let last = batch.iter().rev().find_map(|item| item.seq);
        let mut thread = Thread {
            store: &mut *store,
            state,
            tell,
        };
        *state.begun.lock() = Some(Instant::now());
        let written = thread.write(batch);
        *state.begun.lock() = None;
        match written {
            Ok(()) => drop(last.map(|last| tell(Durable::UpTo(last)))),
            Err(StoreError::LeadershipLost) => return tell(Durable::LeadershipLost),
            // The writer closes; nothing is said.
            Err(_) => {}
        }
    }
}

fn weight<C: Change>(changes: &[C]) -> usize {
    changes.iter().map(Change::rows).sum()
}

/// The state of the thread.
struct Thread<'a, C, T> {
    store: &'a mut Apply<C>,
    state: &'a WriterState,
    tell: &'a T,
}

/// A part of a batch: its record, its range among the changes, its waiting caller.
type Part = (Option<Seq>, std::ops::Range<usize>, Option<oneshot::Sender<()>>);

impl<C: Change, T: Fn(Durable<C>)> Thread<'_, C, T> {
    /// An error: the writer closes, or has no right to write any more.
    fn write(&mut self, batch: Vec<Item<C>>) -> Result<(), StoreError> {
        let (mut changes, mut parts) = (Vec::new(), Vec::new());
        for item in batch {
            let first = changes.len();
            changes.extend(item.changes);
            parts.push((item.seq, first..changes.len(), item.done));
        }
        self.write_parts(&changes, &mut parts)
    }

    fn write_parts(&mut self, changes: &[C], parts: &mut [Part]) -> Result<(), StoreError> {
        let (Some((_, first, _)), Some((_, last, _))) = (parts.first(), parts.last()) else {
            return Ok(());
        };
        match self.persist(&changes[first.start..last.end]) {
            Ok(()) => {
                for done in parts.iter_mut().filter_map(|(.., done)| done.take()) {
                    let _ = done.send(());
                }
                Ok(())
            }
            Err(error) if !error.is_of_one() => Err(error),
            Err(error) if parts.len() > 1 => {
                tracing::debug!(error = weir_auth::error_chain(&error), "a batch was refused");
                let (left, right) = parts.split_at_mut(parts.len() / 2);
                self.write_parts(changes, left)?;
                self.write_parts(changes, right)
            }
            Err(error) => match &mut parts[0] {
                (Some(seq), place, _) => self.refuse(*seq, &changes[place.clone()], error),
                (None, place, done) => {
                    if !error.is_refusal() {
                        self.state.set_aside.fetch_add(1, Ordering::Relaxed);
                    }
                    let change = changes.get(place.start).map(Change::name);
                    tracing::error!(change, error = weir_auth::error_chain(&error), "a note was refused");
                    drop(done.take());
                    Ok(())
                }
            },
        }
    }

    /// One record that the store will not take.
    fn refuse(&mut self, seq: Seq, changes: &[C], error: StoreError) -> Result<(), StoreError> {
        let concerns = changes.iter().flat_map(Change::concerns).collect::<Vec<_>>();
        if error.is_refusal() || concerns.is_empty() {
            if !error.is_refusal() {
                self.state.set_aside.fetch_add(1, Ordering::Relaxed);
                let change = changes.first().map(Change::name);
                tracing::error!(
                    change,
                    error = weir_auth::error_chain(&error),
                    "the store will not take a change; it is refused"
                );
            }
            (self.tell)(Durable::Refused(seq, error));
            return Ok(());
        }
        self.state.set_aside.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            ?concerns,
            error = weir_auth::error_chain(&error),
            "the store will not take a change; another is written in its place"
        );
        let mut instead = Vec::new();
        for change in changes {
            let (own, plain) = (std::slice::from_ref(change), change.in_place());
            for tried in [own, &plain] {
                match self.persist(tried) {
                    Ok(()) => {
                        instead.extend_from_slice(tried);
                        break;
                    }
                    Err(error) if error.is_of_one() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        (self.tell)(Durable::SetAside {
            seq,
            concerns,
            instead,
            error,
        });
        Ok(())
    }

    /// Tries until it works, or the writer closes. An error of the changes themselves is returned at once. Any other
    /// error may be temporary, and nothing may be reported as durable that is not.
    fn persist(&mut self, changes: &[C]) -> Result<(), StoreError> {
        let (store, state) = (&mut *self.store, self.state);
        let show = |text: Option<String>| *state.trouble.lock() = text;
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
                Err(error) if error.is_of_one() => {
                    show(None);
                    return Err(error);
                }
                Err(error @ StoreError::LeadershipLost) => {
                    tracing::error!("{error}");
                    show(Some(error.to_string()));
                    return Err(error);
                }
                Err(error) if state.closing.load(Ordering::Relaxed) => {
                    tracing::error!(
                        error = weir_auth::error_chain(&error),
                        "could not write to the store before the end"
                    );
                    return Err(error);
                }
                Err(error) => {
                    let text = weir_auth::error_chain(&error);
                    tracing::error!(error = text, "could not write to the store; trying again");
                    show(Some(text));
                    failed = true;
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
            }
        }
    }
}

/// A panic on the way into the store counts as an error of the changes. If the thread ended, no caller would ever be
/// answered.
fn apply<C>(store: &mut Apply<C>, changes: &[C]) -> Result<(), StoreError> {
    let applied = catch_unwind(AssertUnwindSafe(|| store(changes)));
    applied.unwrap_or_else(|_| Err(StoreError::Broken("the store panicked, see the log".into())))
}
