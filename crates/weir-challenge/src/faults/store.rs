//! Holds the database of the transfer service, so that it can record nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Longest wait for the writer's lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two holds, in which the service may record what waits.
const BREATH: Duration = Duration::from_millis(20);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// How the database is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Not at all.
    Free,
    /// For so long at a time.
    Slow(Duration),
    /// All the time.
    Frozen,
}

/// The holder of a database: a thread with a connection of its own. The lock goes with it.
#[derive(Debug)]
pub(super) struct StoreLock {
    path: PathBuf,
    hold: Arc<Mutex<Hold>>,
    is_over: Arc<AtomicBool>,
    held_nanos: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl StoreLock {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            hold: Arc::new(Mutex::new(Hold::Free)),
            is_over: Arc::default(),
            held_nanos: Arc::default(),
            thread: None,
        }
    }

    /// Holds it in another way from now on.
    pub(super) fn set(&mut self, hold: Hold) {
        *self.hold.lock() = hold;
        if hold != Hold::Free && self.thread.is_none() {
            let (path, hold) = (self.path.clone(), self.hold.clone());
            let (is_over, held) = (self.is_over.clone(), self.held_nanos.clone());
            self.thread = Some(std::thread::spawn(move || keep(&path, &hold, &is_over, &held)));
        }
    }

    /// How long it was held so far.
    pub(super) fn held(&self) -> Duration {
        Duration::from_nanos(self.held_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn keep(path: &Path, hold: &Mutex<Hold>, is_over: &AtomicBool, held: &AtomicU64) {
    let connection = rusqlite::Connection::open(path).and_then(|connection| {
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    });
    let connection = match connection {
        Ok(connection) => connection,
        Err(error) => return tracing::error!(%error, "the database of the transfer service cannot be held"),
    };
    while !is_over.load(Ordering::Relaxed) {
        let now = *hold.lock();
        if now == Hold::Free {
            std::thread::sleep(LOOK);
            continue;
        }
        if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
            tracing::warn!(%error, "the database of the transfer service is not held");
            continue;
        }
        let since = Instant::now();
        let lasts = |time: Duration| match *hold.lock() {
            Hold::Free => false,
            Hold::Slow(most) => time < most,
            Hold::Frozen => true,
        };
        while !is_over.load(Ordering::Relaxed) && lasts(since.elapsed()) {
            std::thread::sleep(LOOK);
        }
        let _released = connection.execute_batch("ROLLBACK");
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        held.fetch_add(nanos, Ordering::Relaxed);
        std::thread::sleep(BREATH);
    }
}
