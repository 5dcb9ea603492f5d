//! Memory for large heads: one budget for all connections of a server.
//!
//! A small head needs no budget. For a larger one the connection takes a slot, which is large enough for the longest
//! head. Where all slots are taken, the connection stops reading until it gets one; received bytes wait in the kernel
//! meanwhile. A waiting connection evicts the longest holder, so that endless heads keep no client out. A slot is
//! returned when the head is complete, or with the connection's buffers, but never just because its holder was told to
//! leave. A connection that has had a large head keeps its buffer: it takes a slot again while it is idle, and ends
//! with its answer where slots are scarce.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

/// Bytes of a head that need no budget: enough for nearly all heads, with a token of 4 KiB for each of two storages.
///
/// 4,096 connections so hold 32 MiB. hyper reserves as much again for the following bytes, and as much again for
/// clients that send a head before the answer to the one before, which is not counted. The limit is one byte less than
/// hyper reserves: a read that fills the reserve doubles it for all later reads.
pub(crate) const FREE: usize = (8 << 10) - 1;

/// hyper's buffer doubles as it grows, so that a head may be in one of nearly twice its size.
const GROWTH: usize = 2;

/// Shortest time for which a holder keeps its slot, however many wait. The rest of an honest head of 64 KiB takes two
/// round trips, and few are longer than a quarter of a second.
const LEAST: Duration = Duration::from_millis(500);

/// Time for an evicted holder to leave before the next one is evicted.
const PATIENCE: Duration = Duration::from_millis(50);

/// Unit of the budget, in bytes.
const UNIT: usize = 1 << 10;

/// All places of a server.
pub(crate) struct Heads {
    units: u32,
    room: Arc<Semaphore>,
    /// Held by the next waiter: later ones do not overtake, and only one evicts holders.
    turn: tokio::sync::Mutex<()>,
    /// By their numbers: the first has held its place longest.
    holders: Mutex<BTreeMap<u64, Holder>>,
    next: AtomicU64,
    cut: AtomicU64,
}

struct Holder {
    since: Instant,
    notice: Arc<Notice>,
}

/// How the holder of a place is told to leave.
#[derive(Default)]
struct Notice {
    given: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Notice {
    fn give(&self) {
        self.given.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A place for the longest head, until it is dropped.
pub(crate) struct Place {
    heads: Arc<Heads>,
    number: u64,
    notice: Arc<Notice>,
    _room: OwnedSemaphorePermit,
}

impl Place {
    /// Whether it is to be given back with its connection; if not, the task is woken when it is.
    pub(crate) fn is_wanted(&self, cx: &Context<'_>) -> bool {
        let mut waker = self.notice.waker.lock();
        *waker = Some(cx.waker().clone());
        drop(waker);
        self.notice.given.load(Ordering::SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.heads.holders.lock().remove(&self.number);
    }
}

impl Heads {
    /// With room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        Arc::new(Self {
            units,
            room: Arc::new(Semaphore::new(units as usize)),
            turn: tokio::sync::Mutex::default(),
            holders: Mutex::default(),
            next: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        })
    }

    /// How many were told to leave for others, since the start.
    pub(crate) fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Whether a connection waits, or soon may: more than half is taken.
    pub(crate) fn are_scarce(&self) -> bool {
        self.room.available_permits() < self.units as usize / 2 || self.turn.try_lock().is_err()
    }

    /// A slot for so many bytes, if there is one at once and none waits.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Place> {
        let _turn = self.turn.try_lock().ok()?;
        let room = self.room.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(self.place(room))
    }

    /// A place for so many bytes, in the order in which it is asked for.
    pub(crate) async fn wait(self: Arc<Self>, bytes: usize) -> Place {
        let _turn = self.turn.lock().await;
        let mut room = std::pin::pin!(self.room.clone().acquire_many_owned(self.units_of(bytes)));
        let mut pause = Duration::ZERO;
        loop {
            match timeout(pause, room.as_mut()).await {
                Ok(Ok(room)) => return self.place(room),
                // The semaphore is never closed.
                Ok(Err(_)) => std::future::pending().await,
                Err(_) => pause = self.ask_for_one(Instant::now()),
            }
        }
    }

    /// Evicts the holder with the longest time among those that may be evicted, and returns the time to wait.
    fn ask_for_one(&self, now: Instant) -> Duration {
        let holders = self.holders.lock();
        let mut staying = holders
            .values()
            .filter(|holder| !holder.notice.given.load(Ordering::SeqCst));
        let Some(oldest) = staying.next() else { return PATIENCE };
        let held = now.duration_since(oldest.since);
        if held < LEAST {
            return PATIENCE.min(LEAST.saturating_sub(held));
        }
        oldest.notice.give();
        self.cut.fetch_add(1, Ordering::Relaxed);
        PATIENCE
    }

    fn place(self: &Arc<Self>, room: OwnedSemaphorePermit) -> Place {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let notice = Arc::<Notice>::default();
        let holder = Holder {
            since: Instant::now(),
            notice: notice.clone(),
        };
        self.holders.lock().insert(number, holder);
        Place {
            heads: self.clone(),
            number,
            notice,
            _room: room,
        }
    }

    /// Units of a head of so many bytes; a head longer than all slots together takes all of them.
    fn units_of(&self, bytes: usize) -> u32 {
        u32::try_from((bytes * GROWTH).div_ceil(UNIT))
            .unwrap_or(u32::MAX)
            .clamp(1, self.units)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    const HEAD: usize = 64 << 10;

    fn is_wanted(place: &Place) -> bool {
        place.is_wanted(&Context::from_waker(Waker::noop()))
    }

    /// A place that counts as free when its holder has merely been told to leave is memory that is held twice.
    #[tokio::test(start_paused = true)]
    async fn the_longest_holder_leaves_and_only_then_is_its_place_free() {
        let heads = Heads::new(2 * GROWTH * HEAD);
        let old = heads.take(HEAD).unwrap();
        tokio::time::advance(Duration::from_millis(300)).await;
        assert!(!heads.are_scarce());
        let young = heads.take(HEAD).unwrap();
        assert!(heads.take(1).is_none() && heads.are_scarce());
        let waits = tokio::spawn(heads.clone().wait(HEAD));
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(!is_wanted(&old), "it has had less than its time");
        tokio::time::sleep(Duration::from_millis(80)).await;
        assert!(is_wanted(&old) && !is_wanted(&young));
        assert!(!waits.is_finished(), "nobody has left");
        drop(old);
        let newcomer = waits.await.unwrap();
        tokio::time::sleep(10 * LEAST).await;
        assert!(!is_wanted(&young) && !is_wanted(&newcomer), "nobody waits");
        assert_eq!(heads.cut(), 1);
        drop((young, newcomer));
        assert_eq!(heads.room.available_permits(), 256);
        assert!(heads.holders.lock().is_empty());
    }

    /// If newcomers overtook, or a waiter that gives up kept the turn, another one could wait for ever.
    #[tokio::test(start_paused = true)]
    async fn waiters_are_served_in_order() {
        let heads = Heads::new(GROWTH * HEAD);
        let held = heads.take(HEAD).unwrap();
        let first = tokio::spawn(heads.clone().wait(HEAD));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let gives_up = tokio::spawn(heads.clone().wait(HEAD));
        tokio::time::sleep(Duration::from_millis(10)).await;
        let last = tokio::spawn(heads.clone().wait(HEAD));
        tokio::time::sleep(Duration::from_millis(10)).await;
        gives_up.abort();
        drop(held);
        assert!(heads.take(HEAD).is_none(), "others were there before");
        let first = first.await.unwrap();
        drop(first);
        drop(last.await.unwrap());
        assert!(heads.take(5 * HEAD).is_some(), "one that is larger than all has all");
    }
}
