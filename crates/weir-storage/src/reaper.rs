//! The reaper: removes nameless trees and large files after the answer to DELETE, MOVE and PUT, at a bounded rate, and
//! slower while bytes move.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
};

use crate::{
    area::Area,
    backend::{DeferredRemoval, Directory, Effort, Emptied, Usage},
    data::blocking,
    metrics::Metrics,
};

/// Names removed in a second: a disk of one spindle does a tenth of it by itself, a flash disk ten times as much.
const ENTRIES_PER_SECOND: u64 = 10_000;

/// Visits to the disk in a second. After each of them, transfers may go first; and a reaper can be stopped.
const VISITS_PER_SECOND: u64 = 16;

/// While bytes move, removing takes at most one part in so many of its rate, and of the disk's time.
const YIELD: u32 = 4;

/// The disk's rest after each visit, at least.
const PAUSE: Duration = Duration::from_millis(1);

/// Bytes that a reaper gives back in a second.
#[derive(Debug)]
struct RemovalRate(AtomicU64);

impl RemovalRate {
    fn toll(&self) -> Toll {
        Toll {
            entries_per_second: ENTRIES_PER_SECOND,
            bytes_per_second: self.0.load(Ordering::Relaxed).max(1),
        }
    }
}

/// The cost of a removal, in time.
#[derive(Debug, Clone, Copy)]
struct Toll {
    entries_per_second: u64,
    bytes_per_second: u64,
}

impl Toll {
    fn visit(&self) -> Effort {
        Effort {
            entries: (self.entries_per_second / VISITS_PER_SECOND).max(1),
            bytes: (self.bytes_per_second / VISITS_PER_SECOND).max(1),
        }
    }

    /// How long to wait after a visit that `took` so long and did so much.
    fn rest(&self, effort: Effort, took: Duration, busy: bool) -> Duration {
        let entries = effort.entries as f64 / self.entries_per_second as f64;
        let bytes = effort.bytes as f64 / self.bytes_per_second as f64;
        let due = Duration::from_secs_f64(entries.max(bytes));
        let due = if busy { due.max(took) * YIELD } else { due };
        due.saturating_sub(took).max(PAUSE)
    }
}

/// The pause after the first failure to remove something; doubled with each further one.
const AGAIN_FIRST: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(300);

/// Something that has lost its name.
struct Deferred {
    removal: Box<dyn DeferredRemoval>,
    /// Directories that were not flushed when it lost its name. Until they are on the disk, a power cut could bring the name
    /// back, and with it a file cut short.
    unflushed: Vec<Box<dyn Directory>>,
    failures: u32,
    /// When it may be tried again, after a failure.
    not_before: Option<Instant>,
}

impl Deferred {
    /// Whether its time has come.
    fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// Puts off the next try after a failure.
    fn put_off(&mut self, now: Instant) {
        let pause = AGAIN_FIRST.saturating_mul(1 << self.failures.min(20)).min(AGAIN_MAX);
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    fn empty(&mut self, at_most: Effort) -> Emptied {
        while let Some(directory) = self.unflushed.last() {
            if let Err(error) = directory.flush() {
                return Emptied {
                    freed: Usage::default(),
                    effort: Effort::default(),
                    outcome: Err(error),
                };
            }
            self.unflushed.pop();
        }
        self.removal.empty(at_most)
    }
}

/// The nameless objects of an area that are still to be removed.
#[derive(Default)]
pub(crate) struct DeferredRemovals {
    waiting: Mutex<VecDeque<Deferred>>,
    /// Removals in hand.
    open: AtomicUsize,
    /// Requests that wait for room.
    hurry: AtomicUsize,
    more: Notify,
}

impl DeferredRemovals {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.waiting.lock().len() + self.open.load(Ordering::Relaxed)
    }

    /// Whether room may be freed soon: failed removals may fail again.
    pub(crate) fn are_promising(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0 || self.waiting.lock().iter().any(|deferred| deferred.failures == 0)
    }

    /// Has it removed by the reaper, once these directories are on the disk.
    pub(crate) fn push(&self, removal: Box<dyn DeferredRemoval>, unflushed: Vec<Box<dyn Directory>>) {
        self.waiting.lock().push_back(Deferred {
            removal,
            unflushed,
            failures: 0,
            not_before: None,
        });
        self.more.notify_one();
    }

    /// Lets the reaper work without pauses until this is dropped: a request needs the room.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurry.fetch_add(1, Ordering::Relaxed);
        self.more.notify_one();
        Hurry(self)
    }

    /// The next removal that is due, or else the time at which the first will be, if there is any.
    fn pop(&self, now: Instant) -> Result<Deferred, Option<Instant>> {
        let mut waiting = self.waiting.lock();
        let Some(due) = waiting.iter().position(|deferred| deferred.is_due(now)) else {
            return Err(waiting.iter().filter_map(|deferred| deferred.not_before).min());
        };
        self.open.fetch_add(1, Ordering::Relaxed);
        waiting.remove(due).ok_or(None)
    }
}

/// A request that waits for room.
pub(crate) struct Hurry<'a>(&'a DeferredRemovals);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.hurry.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The reapers of an endpoint's areas. Dropped, they end after the removals in hand.
pub(crate) struct Reapers {
    stop: watch::Sender<()>,
    rate: Arc<RemovalRate>,
    tasks: Vec<JoinHandle<()>>,
}

impl Reapers {
    /// One for each area: they may lie on different disks. Each gives back so many bytes a second.
    pub(crate) fn start(areas: &[Arc<Area>], metrics: &Arc<Metrics>, bytes_per_second: u64) -> Self {
        let (stop, stopped) = watch::channel(());
        let rate = Arc::new(RemovalRate(AtomicU64::new(bytes_per_second)));
        let start = |area: &Arc<Area>| {
            let reaper = Reaper {
                area: area.clone(),
                metrics: metrics.clone(),
                rate: rate.clone(),
            };
            tokio::spawn(reaper.run(stopped.clone()))
        };
        let tasks = areas.iter().map(start).collect();
        Self { stop, rate, tasks }
    }

    /// From now on each gives back so many bytes a second.
    pub(crate) fn adjust(&self, bytes_per_second: u64) {
        self.rate.0.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Ends them; the rest is removed at the next start.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        for task in self.tasks {
            let _ = task.await;
        }
    }
}

struct Reaper {
    area: Arc<Area>,
    metrics: Arc<Metrics>,
    rate: Arc<RemovalRate>,
}

impl Reaper {
    async fn run(self, mut stopped: watch::Receiver<()>) {
        let removals = &self.area.removals;
        loop {
            if stopped.has_changed().is_err() {
                return;
            }
            // One at a time, and in turn: a small tree does not wait for the end of a large one.
            let deferred = match removals.pop(Instant::now()) {
                Ok(deferred) => deferred,
                Err(next) => {
                    tokio::select! {
                        _ = stopped.changed() => return,
                        () = removals.more.notified() => continue,
                        () = until(next) => continue,
                    }
                }
            };
            let (toll, area) = (self.rate.toll(), self.area.clone());
            let (effort, took) = blocking(move || visit(&area, deferred, toll.visit())).await;
            let busy = self.metrics.transfers_active() > 0;
            let rested = tokio::time::sleep(toll.rest(effort, took, busy));
            let mut rested = std::pin::pin!(rested);
            while removals.hurry.load(Ordering::Relaxed) == 0 {
                tokio::select! {
                    _ = stopped.changed() => return,
                    () = &mut rested => break,
                    // Another removal, or a request in a hurry.
                    () = removals.more.notified() => {}
                }
            }
        }
    }
}

/// Waits for a time; for ever if there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Goes on with a removal for a while.
fn visit(area: &Area, mut deferred: Deferred, at_most: Effort) -> (Effort, Duration) {
    let begun = Instant::now();
    let Emptied { freed, effort, outcome } = deferred.empty(at_most);
    area.freed(freed);
    match outcome {
        Ok(true) => {}
        Ok(false) => area.removals.waiting.lock().push_back(deferred),
        Err(error) => {
            if deferred.failures == 0 {
                let error = weir_auth::error_chain(&error);
                tracing::warn!(
                    area = area.name,
                    error,
                    "a deleted file could not be removed from the disk; it is tried again and again"
                );
            }
            deferred.put_off(Instant::now());
            area.removals.waiting.lock().push_back(deferred);
        }
    }
    area.removals.open.fetch_sub(1, Ordering::Relaxed);
    (effort, begun.elapsed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOLL: Toll = Toll {
        entries_per_second: 10_000,
        bytes_per_second: 4_000_000_000,
    };

    proptest! {
        /// The rate holds for any split of the work into visits and any speed of the disk. While bytes move, it is a
        /// quarter, and so is the share of the disk's time.
        #[test]
        fn the_rate_holds(
            visits in proptest::collection::vec((0u64..2_000, 0u64..1 << 30, 0u64..200_000), 1..100), busy: bool,
        ) {
            let (mut entries, mut bytes, mut at_work, mut all) = (0, 0, Duration::ZERO, Duration::ZERO);
            for (more, size, micros) in visits {
                let (effort, took) = (Effort { entries: more, bytes: size }, Duration::from_micros(micros));
                let rest = TOLL.rest(effort, took, busy);
                prop_assert!(rest >= PAUSE);
                (entries, bytes) = (entries + more, bytes + size);
                at_work += took;
                all += took + rest;
            }
            let part = if busy { f64::from(YIELD) } else { 1.0 };
            let (slack, seconds) = (1.000_001, all.as_secs_f64());
            prop_assert!(entries as f64 <= 10_000.0 / part * seconds * slack);
            prop_assert!(bytes as f64 <= 4e9 / part * seconds * slack);
            prop_assert!(at_work.as_secs_f64() <= seconds / part * slack);
        }
    }

    /// The slowest rate that can be asked for still removes something at each visit.
    #[test]
    fn every_visit_may_do_something() {
        let toll = Toll {
            entries_per_second: 1,
            bytes_per_second: 1,
        };
        assert_eq!(toll.visit(), Effort { entries: 1, bytes: 1 });
    }
}
