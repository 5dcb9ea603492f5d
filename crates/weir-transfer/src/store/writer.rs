//! Group commit: one thread that makes whatever has gathered durable in one transaction.
//!
//! What the store will never take must not hold up the rest: a batch that fails by itself is halved until the one behind the failure is
//! alone, and that one is set aside. Nobody was told that it is durable.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use weir_world::Seq;

use super::{Change, Store, StoreError};
use crate::time;

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
    /// This one will never be: its job exists already, or the store cannot take it.
    Refused(Seq, StoreError),
    /// The store cannot take what this one says of files. They have failed instead, as far as the store takes that.
    SetAside {
        /// The record.
        seq: Seq,
        /// The files.
        files: Vec<u64>,
        /// What was written in its place.
        instead: Vec<Change>,
        /// Why.
        error: StoreError,
    },
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
    /// Since when the batch at hand is written.
    begun: Mutex<Option<Instant>>,
    closing: AtomicBool,
    set_aside: AtomicU64,
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

    /// How long the batch at hand has been written for. The largest takes a second.
    pub(crate) fn busy_for(&self) -> Duration {
        lock(&self.state.begun).map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    /// Changes that were set aside, since the start.
    pub(crate) fn set_aside(&self) -> u64 {
        self.state.set_aside.load(Ordering::Relaxed)
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
        let last = batch.iter().rev().find_map(|item| item.seq);
        let mut desk = Desk { store, state, tell };
        *lock(&state.begun) = Some(Instant::now());
        let written = desk.write(batch);
        *lock(&state.begun) = None;
        match written {
            Ok(()) => drop(last.map(|last| tell(Durable::UpTo(last)))),
            Err(StoreError::Deposed) => return tell(Durable::Deposed),
            // The writer closes; nothing is said.
            Err(_) => {}
        }
    }
}

fn weight(changes: &[Change]) -> usize {
    let rows = |change: &Change| match change {
        Change::Submit(submission) => submission.files.len() + 1,
        Change::Cancel { settled, stopping, .. } => settled.len() + stopping.len() + 1,
        Change::Requested { files, .. } | Change::Unpinned { files } | Change::Force { files } => files.len(),
        _ => 1,
    };
    changes.iter().map(rows).sum()
}

/// What the thread works with.
struct Desk<'a, T> {
    store: &'a Apply,
    state: &'a State,
    tell: &'a T,
}

/// A part of a batch: its record, its place among the changes, who waits for it.
type Part = (Option<Seq>, std::ops::Range<usize>, Option<oneshot::Sender<()>>);

impl<T: Fn(Durable)> Desk<'_, T> {
    /// An error: the writer closes, or has no right to write any more.
    fn write(&mut self, batch: Vec<Item>) -> Result<(), StoreError> {
        let (mut changes, mut parts) = (Vec::new(), Vec::new());
        for item in batch {
            let first = changes.len();
            changes.extend(item.changes);
            parts.push((item.seq, first..changes.len(), item.done));
        }
        self.write_parts(&changes, &mut parts)
    }

    fn write_parts(&mut self, changes: &[Change], parts: &mut [Part]) -> Result<(), StoreError> {
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
    fn refuse(&mut self, seq: Seq, changes: &[Change], error: StoreError) -> Result<(), StoreError> {
        let files = changes.iter().flat_map(Change::set_aside_with).collect::<Vec<_>>();
        if error.is_refusal() || files.is_empty() {
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
            ?files,
            error = weir_auth::error_chain(&error),
            "the store will not take what happened to files; they fail"
        );
        let mut instead = Vec::new();
        for change in changes {
            let (own, plain) = (std::slice::from_ref(change), change.in_place(time::now()));
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
            files,
            instead,
            error,
        });
        Ok(())
    }

    /// Tries until it works, or the writer closes. What is wrong with the changes themselves is given back at once: everything else may
    /// pass, and nothing may be said to be durable that is not.
    fn persist(&self, changes: &[Change]) -> Result<(), StoreError> {
        let (store, state) = (self.store, self.state);
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
                Err(error) if error.is_of_one() => {
                    show(None);
                    return Err(error);
                }
                Err(error @ StoreError::Deposed) => {
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

/// A defect on the way into the store is one of what was to be written. Were the thread to end, nobody would ever be answered.
fn apply(store: &Apply, changes: &[Change]) -> Result<(), StoreError> {
    let applied = catch_unwind(AssertUnwindSafe(|| store(changes)));
    applied.unwrap_or_else(|_| Err(StoreError::Broken("the store panicked, see the log".into())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::sync::mpsc;

    use super::*;
    use crate::{
        model::FileState,
        store::{
            MemoryStore,
            suite::{begin, end, submission},
        },
    };

    #[test]
    fn what_the_store_will_never_take_holds_nothing_up() {
        // One value that the database cannot hold once stopped everything, and again after each restart.
        let store = Arc::new(MemoryStore::new());
        let (tell, told) = mpsc::channel();
        let (inner, tries) = (store.clone(), AtomicU64::new(0));
        let picky = move |changes: &[Change]| {
            // First the disk is full: that passes, and costs nothing.
            if tries.fetch_add(1, Ordering::Relaxed) < 2 {
                return Err(StoreError::Unavailable("disk full".into()));
            }
            for change in changes {
                match change {
                    Change::Begin { file: 2, .. } => return Err(StoreError::Broken("no such value".into())),
                    Change::End { file: 3, result, .. } if result.filesize.is_some() => panic!("on purpose"),
                    Change::Release { file: 4 } | Change::Metadata { .. } | Change::Priority { .. } => {
                        return Err(StoreError::Broken("no such value".into()));
                    }
                    _ => {}
                }
            }
            inner.apply(changes)
        };
        let writer = Writer::through(picky, move |durable| tell.send(durable).unwrap()).unwrap();
        let metadata = serde_json::value::RawValue::from_string("{}".into()).unwrap();
        let priority = Change::Priority {
            job: uuid::Uuid::from_u128(1),
            priority: 5,
        };
        writer.push(Seq(1), vec![Change::Submit(Box::new(submission(1, 1, 6)))]);
        writer.push(Seq(2), vec![begin(1, 1)]);
        writer.push(Seq(3), vec![begin(2, 1)]);
        writer.push(Seq(4), vec![begin(3, 1), end(3, FileState::Finished)]);
        writer.note(Change::Metadata { file: 1, metadata });
        writer.push(Seq(5), vec![end(5, FileState::Failed), Change::Release { file: 4 }]);
        writer.push(Seq(6), vec![priority]);
        writer.push(Seq(7), vec![begin(6, 1)]);
        let (mut refused, mut aside, mut up_to) = (Vec::new(), Vec::new(), Seq(0));
        while up_to < Seq(7) {
            match told.recv().unwrap() {
                Durable::UpTo(seq) => up_to = seq,
                Durable::Refused(seq, _) => refused.push(seq),
                Durable::SetAside {
                    seq, files, instead, ..
                } => aside.push((seq, files, instead.len())),
                Durable::Deposed => unreachable!(),
            }
        }
        assert_eq!(refused, [Seq(6)]);
        let expected = [(Seq(3), vec![2], 1), (Seq(4), vec![3, 3], 2), (Seq(5), vec![5, 4], 2)];
        assert_eq!(aside, expected);
        let states = store.files(uuid::Uuid::from_u128(1)).unwrap();
        let states = states.iter().map(|file| file.state.as_str()).collect::<Vec<_>>();
        assert_eq!(states, ["ACTIVE", "FAILED", "FINISHED", "FAILED", "FAILED", "ACTIVE"]);
        assert_eq!((writer.set_aside(), writer.trouble()), (5, None));
    }

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
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(refused, [Seq(2)]);
        assert!(store.job(uuid::Uuid::from_u128(3)).unwrap().is_some());
    }
}
