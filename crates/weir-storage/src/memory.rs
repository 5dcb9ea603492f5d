//! The memory of data in flight: one budget for the endpoint, of which every transfer has its floor and some have more.
//!
//! Memory of a transfer in this process, per stream. `b` is the batch that it gathers before a write, `k` the size of a
//! read from a file, `c` the bound of its connection ([`weir_http::Buffers`]):
//!
//! | | coming in (PUT, pull) | at the floor | at most | going out (GET, push) | at the floor | at most |
//! |---|---|---|---|---|---|---|
//! | blocks of ours | `b` that fill, `b` on their way to the disk | 64 KiB | 2 MiB | `3 k`: two that hyper has, one ahead | 64 KiB | 768 KiB |
//! | aligned copy, past the page cache | `b` | 0 | 1 MiB | none | | |
//! | hyper's buffer | `c` | 16 KiB | 512 KiB | its heads | | |
//! | bytes before they are decrypted | `c`, 128 KiB at most | 16 KiB | 128 KiB | sealed records: `c` | 32 KiB | 256 KiB |
//! | a record of TLS that is not whole; with TLS 1.2 one more | | 36 KiB | 36 KiB | | 36 KiB | 36 KiB |
//! | connection, task, hashes | | 28 KiB | 28 KiB | | 28 KiB | 28 KiB |
//! | in all | | 160 KiB | 3.7 MiB | | 160 KiB | 1.1 MiB |
//!
//! A file that the kernel sends by itself has no blocks, and still takes its floor: it may have to be read. Socket
//! buffers are the kernel's (`net.ipv4.tcp_mem`), not this process'. A checksum reader holds one block.
//!
//! Memory comes in two kinds. A **floor** is taken with a transfer's place and for each further stream of a pull.
//! Without it the transfer waits in the queue for slots (`admission`), and none begins without it. So no running
//! transfer ever waits for memory, and there is no deadlock. Memory **beyond** the floor is taken and returned as bytes
//! come and go. Each stream holds at most an eighth of the free memory (Choudhury and Hahne, "Dynamic Queue Length
//! Thresholds for Shared-Memory Packet Switches", 1998). Few transfers have all the memory that helps them. `n` of them
//! have an equal share `E / (n + 8)` of the memory beyond the floors, and some is always free for new ones. While a new
//! transfer waits for its floor, no other takes more.
//!
//! The same rule holds for **clients** ([`Client`]): all transfers of one hold at most three times the free memory. So
//! a client alone may have three quarters of the budget, two may have three sevenths each, and a new one finds some. A
//! client that holds nothing may take a floor wherever there is one.
//!
//! With the default of 128 MiB, 20 pulls of one client have all that helps, 40 have 2.2 MiB each beyond their floors,
//! and 614 their floors alone. Of several clients 28 have all that helps, 600 have 57 KiB, and some 800 their floors
//! alone. 128 MiB = 134 MB leave 166 MB of 300 for all else. These are some 20 for the process, 50 kB for each
//! connection that a copy was asked on, and memory that the allocator has not returned. With 160 MiB a process with 600
//! copies was seen at 258 to 295 MB. Blocks for the next reader are kept in the free part of the budget, 32 MiB at
//! most, and freed when it is needed.
//!
//! An attack by heads that never end takes 34 MB more for large ones (`weir_http::ServerLimits::heads`), 16 KiB of each
//! connection, and over TLS a record. Twice that for a client that sends the next head before an answer. A complete
//! large head counts no longer, up to 128 KiB each: if it is refused before authentication, the connection ends within
//! a second. For authenticated clients, and for all where `anonymous_read` is on, `connections` and
//! `connections_per_client` bound it.

mod client;
mod portion;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

pub(crate) use client::Client;
use client::ClientAccounts;
pub(crate) use portion::{Incoming, Outgoing, READING, most_that_fits};

/// Memory of each stream at least; the sum is above.
pub(crate) const FLOOR: usize = 160 << 10;

/// Beyond its floor, one stream may hold one part in so many of the free memory.
const PART: usize = 8;

/// Largest memory of one holder if others hold `others` of `total`: its floor, and its part of the rest.
///
/// Of `free` bytes, with its own not taken, it has `x` such that `x` is an eighth of `free - x`.
fn allowed(total: usize, others: usize) -> usize {
    let free = total.saturating_sub(others).saturating_sub(FLOOR);
    FLOOR + free / (PART + 1)
}

/// The memory of an endpoint for data in flight; clones mean the same.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    total: usize,
    taken: AtomicUsize,
    /// A request found no floor, and waits for one, or has left since.
    wanted: AtomicBool,
    waiting: AtomicUsize,
    /// Streams that come in or go out.
    streams: AtomicUsize,
    clients: ClientAccounts,
    /// Offers floors to waiting requests.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Shrinks the kept blocks to the free memory.
    spare: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

impl Budget {
    pub(crate) fn new(total: usize) -> Self {
        Self(Arc::new(Inner {
            total,
            taken: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            clients: ClientAccounts::default(),
            wake: OnceLock::new(),
            spare: OnceLock::new(),
        }))
    }

    /// Sets the callback for returned memory that a request waits for; it runs on any thread.
    pub(crate) fn on_return(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.wake.set(Box::new(wake));
    }

    /// Has `spare` called with the bytes that are free, on any thread, when they have become fewer.
    pub(crate) fn on_less(&self, spare: impl Fn(usize) + Send + Sync + 'static) {
        let _ = self.0.spare.set(Box::new(spare));
    }

    /// Bytes that are not taken.
    pub(crate) fn free(&self) -> usize {
        self.0.total.saturating_sub(self.0.taken.load(Ordering::Relaxed))
    }

    fn has_less(&self) {
        if let Some(spare) = self.0.spare.get() {
            spare(self.free());
        }
    }

    /// The account of a client, which is the same for all that it does at one time.
    pub(crate) fn client(&self, name: &str) -> Arc<Client> {
        self.0.clients.of(name)
    }

    /// A transfer's floor; if there is none, it is wanted from now on. Without a client it is the endpoint's own.
    ///
    /// # Errors
    /// [`Scarce`]: all memory is taken, or the client's share of it.
    pub(crate) fn floor(&self, client: Option<&Arc<Client>>) -> Result<Arc<Lease>, Scarce> {
        let total = self.0.total;
        let now = || {
            let share = |taken| client.is_none_or(|client| client.may_begin(total, taken));
            self.take(|taken| taken + FLOOR <= total && share(taken))
        };
        let scarce = || {
            let taken = self.0.taken.load(Ordering::SeqCst);
            let is_theirs = client.is_some_and(|client| !client.may_begin(total, taken));
            if is_theirs && taken + FLOOR <= total {
                Scarce::Share
            } else {
                Scarce::All
            }
        };
        let want = |scarce| match (scarce, client) {
            (Scarce::Share, Some(client)) => self.0.clients.want(client),
            _ => self.0.wanted.store(true, Ordering::SeqCst),
        };
        if !now() {
            let why = scarce();
            want(why);
            // Memory returned just before was not announced.
            if !now() {
                return Err(why);
            }
        }
        Ok(self.lease(client.cloned()))
    }

    fn lease(&self, client: Option<Arc<Client>>) -> Arc<Lease> {
        if let Some(client) = &client {
            client.add(FLOOR);
        }
        Arc::new(Lease {
            budget: self.clone(),
            client,
            held: AtomicUsize::new(FLOOR),
        })
    }

    /// Takes a floor if `fits` is true for the amount taken.
    fn take(&self, fits: impl Fn(usize) -> bool) -> bool {
        let take = |taken| fits(taken).then_some(taken + FLOOR);
        let taken = &self.0.taken;
        let fitted = taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        if fitted {
            self.has_less();
        }
        fitted
    }

    fn give(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::SeqCst);
        if self.is_wanted_by_any()
            && let Some(wake) = self.0.wake.get()
        {
            wake();
        }
    }

    /// Whether a request may be waiting for a floor.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::SeqCst)
    }

    /// Whether a request may be waiting for a floor, including one of its own share.
    pub(crate) fn is_wanted_by_any(&self) -> bool {
        self.is_wanted() || self.0.clients.is_wanted()
    }

    /// Clears the mark: all waiting requests are about to be checked.
    pub(crate) fn forget_wanted(&self) {
        self.0.wanted.store(false, Ordering::SeqCst);
        self.0.clients.forget_wanted();
    }

    /// Counts a request that waits for a floor, until the guard is dropped.
    pub(crate) fn count_waiting(&self) -> WaitsForMemory {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        WaitsForMemory(self.clone())
    }

    /// Bytes in all, taken, and how many wait for some.
    pub(crate) fn figures(&self) -> (usize, usize, usize) {
        let Inner {
            total, taken, waiting, ..
        } = &*self.0;
        (*total, taken.load(Ordering::Relaxed), waiting.load(Ordering::Relaxed))
    }
}

/// Why there is no floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scarce {
    /// All memory is taken, but for less than a floor.
    All,
    /// The client holds its share.
    Share,
}

/// A request that waits for a floor.
pub(crate) struct WaitsForMemory(Budget);

impl Drop for WaitsForMemory {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that moves, until this is dropped.
pub(crate) struct Moving(Budget);

impl Moving {
    /// How many there are, this one included.
    pub(crate) fn all(&self) -> usize {
        self.0.0.streams.load(Ordering::Relaxed)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory of one stream: its floor, and more. Returned when its last reference ends.
pub(crate) struct Lease {
    budget: Budget,
    /// Its client; `None`: the endpoint's own.
    client: Option<Arc<Client>>,
    held: AtomicUsize,
}

impl Lease {
    /// Counts its stream as a moving one.
    pub(crate) fn moves(&self) -> Moving {
        self.budget.0.streams.fetch_add(1, Ordering::Relaxed);
        Moving(self.budget.clone())
    }

    /// Floors for up to `count` further streams of the same transfer; fewer where memory is scarce, none where a
    /// request waits.
    pub(crate) fn further(&self, count: usize) -> Vec<Arc<Lease>> {
        let budget = &self.budget;
        let each = (1..=count).map_while(|number| {
            let beyond = number * FLOOR;
            // All memory beyond its own floor, as for every other.
            let fits = |taken: usize| {
                let theirs = self.client.as_ref();
                beyond <= budget.0.total.saturating_sub(taken + FLOOR) / PART
                    && theirs.is_none_or(|client| client.may_begin(budget.0.total, taken))
            };
            (!self.is_waited_for() && budget.take(fits)).then(|| budget.lease(self.client.clone()))
        });
        each.collect()
    }

    /// Takes the first of these sizes, from large to small, that it may hold, and returns its index. The last one must
    /// not be above [`FLOOR`]. Memory given up must be free already.
    pub(crate) fn fit(&self, sizes: &(impl Iterator<Item = usize> + Clone)) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        let Inner { total, taken, .. } = &*self.budget.0;
        let wanted = self.is_waited_for();
        let mut chosen = (0, held);
        let mut choose = |now: usize| {
            let most = if wanted {
                FLOOR
            } else {
                self.most(*total, now - held, held)
            };
            chosen = most_that_fits(sizes.clone(), most);
            (chosen.1 != held).then(|| now - held + chosen.1)
        };
        let before = taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, &mut choose);
        self.held.store(chosen.1, Ordering::Relaxed);
        if let Some(client) = &self.client {
            client.change(held, chosen.1);
        }
        if before.is_ok() && chosen.1 < held {
            // Announced like returned memory.
            self.budget.give(0);
        } else if chosen.1 > held {
            self.budget.has_less();
        }
        chosen.0
    }

    /// As [`Self::fit`], and never less than now: the memory may be in use.
    pub(crate) fn grow(&self, sizes: impl Iterator<Item = usize> + Clone) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        self.fit(&sizes.take_while(move |size| *size >= held))
    }

    /// Largest memory of this one, which holds `held`, if others hold `others`.
    fn most(&self, total: usize, others: usize, held: usize) -> usize {
        let share = self.client.as_ref().map(|client| client.most(total, others, held));
        allowed(total, others).min(share.unwrap_or(usize::MAX).max(FLOOR))
    }

    /// Whether a request waits for memory that this one may have beyond its floor.
    fn is_waited_for(&self) -> bool {
        self.budget.is_wanted() || self.client.as_ref().is_some_and(|client| client.is_wanted())
    }

    /// Whether it holds more than the floor while another request waits for its own.
    pub(crate) fn is_pressed(&self) -> bool {
        self.held.load(Ordering::Relaxed) > FLOOR && self.is_waited_for()
    }

    /// Whether others have come since, so that less should be held.
    pub(crate) fn is_above(&self) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        let Inner { total, taken, .. } = &*self.budget.0;
        let others = taken.load(Ordering::Relaxed).saturating_sub(held);
        held > FLOOR && (self.is_waited_for() || held > self.most(*total, others, held))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let held = *self.held.get_mut();
        if let Some(client) = &self.client {
            client.change(held, 0);
        }
        self.budget.give(held);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_have_all_that_helps_and_many_share_alike() {
        let total = 192 << 20;
        // Alone, or with others that hold all that helps.
        assert!(allowed(total, 0) >= Incoming::sizes(true).next().unwrap());
        assert!(allowed(total, 10 * Incoming::sizes(true).next().unwrap()) > 4 << 20);
        // Where 600 hold an equal share, each of them may hold just that.
        let share = (total - 600 * FLOOR) / 608;
        let mine = allowed(total, 599 * (FLOOR + share));
        assert!((FLOOR + share).abs_diff(mine) < 1024, "{mine} of {share}");
        assert_eq!(allowed(total, total), FLOOR);
    }

    /// A stream that holds on to more than it may while others wait keeps them waiting for as long as its peer likes.
    #[test]
    fn waiters_come_before_holders() {
        let budget = Budget::new(4 << 20);
        let woken = Arc::new(AtomicUsize::new(0));
        budget.on_return({
            let woken = woken.clone();
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        });
        let first = budget.floor(None).unwrap();
        first.fit(&[400 << 10, FLOOR].into_iter());
        let mut floors: Vec<_> = std::iter::from_fn(|| budget.floor(None).ok()).collect();
        assert!(budget.is_wanted() && first.is_pressed());
        assert_eq!(first.fit(&[400 << 10, FLOOR].into_iter()), 1);
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert!(!first.is_pressed());
        assert!(first.further(3).is_empty());
        floors.push(budget.floor(None).unwrap());
        budget.forget_wanted();
        drop(floors);
        assert_eq!(budget.figures(), (4 << 20, FLOOR, 0));
        assert_eq!(first.further(3).len(), 2, "two of them are an eighth of what is left");
    }

    proptest! {
        /// One byte too many breaks the memory promise, a lost one is lost until the next restart, and a transfer that
        /// could never begin starves.
        #[test]
        fn never_over_and_all_given_back(total in FLOOR..40 * FLOOR, steps in prop::collection::vec((0..5_u8, any::<prop::sample::Index>(), 0..40_usize), 1..300)) {
            let budget = Budget::new(total);
            let mut held: Vec<Arc<Lease>> = Vec::new();
            let sum = |held: &[Arc<Lease>]| held.iter().map(|lease| lease.held.load(Ordering::Relaxed)).sum::<usize>();
            for (step, which, size) in steps {
                match step {
                    0 => held.extend(budget.floor(None)),
                    1 if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                    2 if !held.is_empty() => {
                        let further = held[which.index(held.len())].further(size);
                        prop_assert!(further.len() <= size);
                        held.extend(further);
                    }
                    3 if !held.is_empty() => {
                        let sizes = [size * FLOOR, size * FLOOR / 2, FLOOR];
                        let lease = &held[which.index(held.len())];
                        let chosen = lease.fit(&sizes.into_iter());
                        prop_assert_eq!(lease.held.load(Ordering::Relaxed), sizes[chosen].max(FLOOR));
                    }
                    _ => budget.forget_wanted(),
                }
                let (_, taken, _) = budget.figures();
                prop_assert_eq!(taken, sum(&held));
                prop_assert!(taken <= total);
            }
            // A holder of more frees it at its next step if a request waits: floors alone never keep others out.
            while budget.floor(None).is_err() {
                prop_assert!(!held.is_empty());
                held.pop();
            }
            held.clear();
            prop_assert_eq!(budget.figures().1, 0);
        }
    }

    /// The same by several threads at once.
    #[test]
    fn threads_never_take_more_than_there_is() {
        let budget = Budget::new(20 * FLOOR);
        std::thread::scope(|scope| {
            for seed in 0..4_usize {
                let budget = budget.clone();
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..20_000 {
                        match (round * 7 + seed) % 5 {
                            0 | 1 => held.extend(budget.floor(None)),
                            2 => drop(held.pop()),
                            _ => {
                                if let Some(lease) = held.last() {
                                    lease.fit(&[3 * FLOOR, 2 * FLOOR, FLOOR].into_iter());
                                }
                            }
                        }
                        assert!(budget.figures().1 <= 20 * FLOOR);
                        if round % 64 == 0 {
                            held.clear();
                            budget.forget_wanted();
                        }
                    }
                });
            }
        });
        assert_eq!(budget.figures().1, 0);
    }
}
