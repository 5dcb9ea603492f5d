//! Limits on concurrent connections.
//!
//! A full server closes the connection that has been idle longest for a new one, so that idle clients do not block it.
//! Only if all are at work does the new one wait. A limit per client bounds the share of one address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::slow_reader::CutShort;

/// A connection that has just fallen idle is likely to be used again at once.
const LEAST_IDLE: Duration = Duration::from_millis(200);

/// How long a newcomer waits for a seat before one more idle connection is given up.
const PATIENCE: Duration = Duration::from_millis(50);

/// Number of connections, and counters of those that found no free slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Connections that are open now, those in a TLS handshake included.
    pub open: usize,
    /// Idle connections that were closed for newcomers, since the start.
    pub given_up: u64,
    /// Newcomers that were refused because their address had its share, since the start.
    pub refused: u64,
    /// Connections that were cut because the client took too little of an answer, since the start.
    pub too_slow: u64,
    /// Connections that were cut, with a large head that had not ended or an idle one's memory, for others' heads, since the start.
    pub heads_cut: u64,
}

/// All seats of a server.
pub(crate) struct ConnectionSlots {
    most: AtomicUsize,
    per_client: AtomicUsize,
    start: Instant,
    taken: Mutex<Taken>,
    freed: Notify,
    given_up: AtomicU64,
    refused: AtomicU64,
    too_slow: AtomicU64,
}

/// Counts a connection at its end if it was cut.
pub(crate) struct CountsSlow<'a> {
    slots: &'a ConnectionSlots,
    cut_short: CutShort,
}

impl Drop for CountsSlow<'_> {
    fn drop(&mut self) {
        if self.cut_short.why().is_some() {
            self.slots.too_slow.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Taken {
    next: u64,
    slots: HashMap<u64, Arc<ConnectionSlot>>,
    /// Seats of each client.
    by_client: HashMap<IpAddr, usize>,
}

/// One connection's seat, as its tasks see it.
pub(crate) struct ConnectionSlot {
    client: IpAddr,
    start: Instant,
    /// Since when nothing is asked for, in milliseconds after `start` and at least 1; 0: at work.
    idle_since: AtomicU64,
    leave: CancellationToken,
}

impl ConnectionSlot {
    fn new(client: IpAddr, start: Instant) -> Arc<Self> {
        let slot = Self {
            client,
            start,
            idle_since: AtomicU64::new(0),
            leave: CancellationToken::new(),
        };
        // A connection without a request yet is idle too, or slow clients would hold all slots.
        slot.rest();
        Arc::new(slot)
    }

    /// A request has come.
    pub(crate) fn work(&self) {
        self.idle_since.store(0, Ordering::Relaxed);
    }

    /// The answer is out.
    pub(crate) fn rest(&self) {
        let since = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.idle_since.store(since.max(1), Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle_since.load(Ordering::Relaxed) != 0
    }

    /// Ends when the slot is wanted for another connection.
    pub(crate) async fn wanted(&self) {
        self.leave.cancelled().await;
    }
}

/// A seat for as long as this lives.
pub(crate) struct Admitted {
    slots: Arc<ConnectionSlots>,
    number: u64,
    pub(crate) slot: Arc<ConnectionSlot>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.slots.remove(&self.number);
        taken.forget(self.slot.client);
        drop(taken);
        self.slots.freed.notify_one();
    }
}

impl Taken {
    fn forget(&mut self, client: IpAddr) {
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }

    /// Asks the connection that has been idle longest to leave, of one client or of all. Returns whether there was one.
    fn give_up(&mut self, of: Option<IpAddr>, before: u64) -> bool {
        let idle = self.slots.values().filter(|slot| {
            let since = slot.idle_since.load(Ordering::Relaxed);
            since != 0 && since <= before && of.is_none_or(|client| client == slot.client) && !slot.leave.is_cancelled()
        });
        let oldest = idle.min_by_key(|slot| slot.idle_since.load(Ordering::Relaxed)).cloned();
        let Some(oldest) = oldest else { return false };
        oldest.leave.cancel();
        true
    }

    /// The slots that a client keeps: connections that were asked to leave end soon, unless they are at work again.
    fn kept_by(&self, client: IpAddr) -> usize {
        let kept =
            |slot: &&Arc<ConnectionSlot>| slot.client == client && !(slot.leave.is_cancelled() && slot.is_idle());
        self.slots.values().filter(kept).count()
    }
}

impl ConnectionSlots {
    pub(crate) fn new(most: usize, per_client: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            most: AtomicUsize::new(most),
            per_client: AtomicUsize::new(per_client.unwrap_or(usize::MAX)),
            start: Instant::now(),
            taken: Mutex::default(),
            freed: Notify::new(),
            given_up: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            too_slow: AtomicU64::new(0),
        })
    }

    /// Takes a seat and waits for one if it must; `None`: the client has its share, and all of it is at work.
    pub(crate) async fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Admitted> {
        let client = client(peer);
        if !self.within_share(client) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        loop {
            if let Some(admitted) = self.sit(client) {
                return Some(admitted);
            }
            let given_up = self.taken.lock().give_up(None, self.long_idle());
            self.given_up.fetch_add(given_up.into(), Ordering::Relaxed);
            let _ = timeout(PATIENCE, self.freed.notified()).await;
        }
    }

    /// Changes the limits for later connections; existing ones stay.
    pub(crate) fn adjust(&self, most: usize, per_client: Option<usize>) {
        self.most.store(most, Ordering::Relaxed);
        self.per_client
            .store(per_client.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.freed.notify_one();
    }

    pub(crate) fn count_slow(&self, cut_short: CutShort) -> CountsSlow<'_> {
        CountsSlow { slots: self, cut_short }
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        Occupancy {
            open: self.taken.lock().slots.len(),
            given_up: self.given_up.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            too_slow: self.too_slow.load(Ordering::Relaxed),
            heads_cut: 0,
        }
    }

    fn within_share(&self, client: IpAddr) -> bool {
        let per_client = self.per_client.load(Ordering::Relaxed);
        let mut taken = self.taken.lock();
        let few = taken.by_client.get(&client).is_none_or(|count| *count < per_client);
        if few || taken.kept_by(client) < per_client {
            return true;
        }
        let given_up = taken.give_up(Some(client), self.long_idle());
        self.given_up.fetch_add(given_up.into(), Ordering::Relaxed);
        given_up
    }

    fn sit(self: &Arc<Self>, client: IpAddr) -> Option<Admitted> {
        let mut taken = self.taken.lock();
        if taken.slots.len() >= self.most.load(Ordering::Relaxed) {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let slot = ConnectionSlot::new(client, self.start);
        taken.slots.insert(number, slot.clone());
        *taken.by_client.entry(client).or_default() += 1;
        Some(Admitted {
            slots: self.clone(),
            number,
            slot,
        })
    }

    /// The longest allowed idle mark: a connection idle since before it may be closed.
    fn long_idle(&self) -> u64 {
        let since = self.start.elapsed().saturating_sub(LEAST_IDLE);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The client of an address: an IPv6 host has a network of 2^64 addresses.
fn client(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    async fn pass(milliseconds: u64) {
        tokio::time::advance(Duration::from_millis(milliseconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_one_leaves_for_a_newcomer() {
        let slots = ConnectionSlots::new(2, None);
        let old = slots.take(HERE).await.unwrap();
        pass(10).await;
        let young = slots.take(HERE).await.unwrap();
        pass(1000).await;
        let newcomer = tokio::spawn({
            let slots = slots.clone();
            async move { slots.take(THERE).await.unwrap() }
        });
        old.slot.wanted().await;
        assert!(!young.slot.leave.is_cancelled());
        drop(old);
        let newcomer = newcomer.await.unwrap();
        assert_eq!(slots.occupancy().open, 2);
        drop((young, newcomer));
        assert_eq!(
            slots.occupancy(),
            Occupancy {
                open: 0,
                given_up: 1,
                refused: 0,
                too_slow: 0,
                heads_cut: 0
            }
        );
        assert!(slots.taken.lock().by_client.is_empty());
    }

    /// Cutting a transfer for a stranger would be worse than letting the stranger wait.
    #[tokio::test(start_paused = true)]
    async fn active_connections_are_not_closed() {
        let slots = ConnectionSlots::new(1, None);
        let working = slots.take(HERE).await.unwrap();
        working.slot.work();
        pass(60_000).await;
        let waited = timeout(Duration::from_secs(10), slots.take(THERE)).await;
        assert!(waited.is_err());
        assert!(!working.slot.leave.is_cancelled());
        working.slot.rest();
        let newcomer = tokio::spawn({
            let slots = slots.clone();
            async move { slots.take(THERE).await.is_some() }
        });
        working.slot.wanted().await;
        drop(working);
        assert!(newcomer.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_its_share_and_no_more() {
        let slots = ConnectionSlots::new(100, Some(2));
        let first = slots.take(HERE).await.unwrap();
        let second = slots.take(HERE).await.unwrap();
        first.slot.work();
        second.slot.work();
        assert!(slots.take(HERE).await.is_none());
        assert!(slots.take(THERE).await.is_some());
        assert_eq!(slots.occupancy().refused, 1);
        // One of its own that is idle leaves for it.
        second.slot.rest();
        pass(1000).await;
        let third = slots.take(HERE).await.unwrap();
        assert!(second.slot.leave.is_cancelled());
        drop((first, second, third));
        assert!(slots.taken.lock().by_client.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
