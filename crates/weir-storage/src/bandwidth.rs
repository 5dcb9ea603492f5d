//! Bandwidth limits: for all transfers, for a VO, a client or an area, both directions together.
//!
//! A limit is a [`Bucket`] that all its transfers pay, and a transfer pays every bucket that applies to it. It moves a
//! piece, pays for it, and goes on when its last payment is through. So a limit is shared piece by piece among the
//! transfers with data to move, whatever other limits apply to each. Pieces are worth 20 ms of the lowest rate, a
//! mebibyte at most: a gigabyte costs a thousand payments, and none without limits. A transfer's debt at its end stays
//! with its bucket.

mod bucket;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};
use weir_http::Reloadable;
use weir_units::BitRate;

use crate::{
    admission::Party,
    config::{Limits, Share, ShareKind, share_of},
};
use bucket::Bucket;

/// Largest piece that is moved before it is paid for: the amount given to the kernel at once.
const MOST: u64 = 1 << 20;

/// The least: a TLS record.
const LEAST: u64 = 16 << 10;

/// So many pieces are moved in a second of the lowest rate.
const PIECES: u64 = 50;

/// Buckets of clients and VOs that are remembered before those are forgotten that have nothing to remember.
const REMEMBERED: usize = 1024;

/// Classes of limits in metrics.
pub(crate) const CLASSES: [&str; 4] = ["all", "vo", "client", "area"];

/// The limits of an endpoint; clones share them. Transfers in hand keep the limits that they began with.
#[derive(Clone)]
pub(crate) struct Bandwidth(Reloadable<Inner>);

struct Inner {
    start: Instant,
    all: Option<Arc<Bucket>>,
    shares: Vec<Share>,
    /// Buckets by class and name.
    of_one: Mutex<HashMap<(ShareKind, String), Arc<Bucket>>>,
    /// Nanoseconds that transfers were held back, by class.
    held_back: Arc<[AtomicU64; 4]>,
}

/// Bytes a second.
fn bytes(rate: BitRate) -> u64 {
    rate.0 / 8
}

impl Bandwidth {
    pub(crate) fn new(limits: &Limits, shares: &[Share]) -> Self {
        let inner = Inner::new(limits, shares, Instant::now(), Arc::default());
        Self(Arc::new(inner).into())
    }

    /// Other limits for transfers that begin from now on.
    pub(crate) fn adjust(&self, limits: &Limits, shares: &[Share]) {
        let now = self.0.get();
        let new = Inner::new(limits, shares, now.start, now.held_back.clone());
        let rate = |inner: &Inner| inner.all.as_ref().map(|bucket| bucket.rate());
        // Buckets hold debts: unchanged ones stay.
        if rate(&new) != rate(&now) || new.shares != now.shares {
            self.0.set(Arc::new(new));
        }
    }

    /// The limits on a transfer, or on one of its streams.
    pub(crate) fn throttle(&self, party: &Party) -> Throttle {
        let now = self.0.get();
        let kinds = [(1, ShareKind::Vo), (2, ShareKind::Client), (3, ShareKind::Area)];
        let own = kinds
            .into_iter()
            .filter_map(|(class, kind)| Some((class, now.of_one(kind, party.name(kind)?)?)));
        let all = now.all.iter().map(|all| (0, all.clone()));
        let held_back = HeldBack {
            bandwidth: now.clone(),
            waits: Arc::default(),
        };
        Throttle::new(now.clone(), all.chain(own).collect(), held_back)
    }

    /// Whether anything is limited.
    pub(crate) fn is_limited(&self) -> bool {
        let now = self.0.get();
        now.all.is_some() || !now.shares.is_empty()
    }

    /// Bytes a second that all together may move.
    pub(crate) fn of_all(&self) -> Option<u64> {
        self.0.get().all.as_ref().map(|bucket| bucket.rate())
    }

    /// How long transfers were held back by limits of each of [`CLASSES`], all of them together.
    pub(crate) fn held_back(&self) -> [Duration; 4] {
        let now = self.0.get();
        std::array::from_fn(|class| Duration::from_nanos(now.held_back[class].load(Ordering::Relaxed)))
    }
}

impl Inner {
    fn new(limits: &Limits, shares: &[Share], start: Instant, held_back: Arc<[AtomicU64; 4]>) -> Self {
        let limited = shares.iter().any(|share| share.bandwidth.is_some());
        Self {
            start,
            all: limits.bandwidth.map(|rate| Arc::new(Bucket::new(bytes(rate)))),
            shares: if limited { shares.to_vec() } else { Vec::new() },
            of_one: Mutex::default(),
            held_back,
        }
    }

    fn of_one(&self, kind: ShareKind, name: &str) -> Option<Arc<Bucket>> {
        let rate = share_of(&self.shares, kind, name)?.bandwidth?;
        let mut of_one = self.of_one.lock();
        if of_one.len() >= REMEMBERED {
            let now = self.now();
            of_one.retain(|_, bucket| Arc::strong_count(bucket) > 1 || bucket.free_at() > now);
        }
        let bucket = of_one.entry((kind, name.to_owned()));
        Some(bucket.or_insert_with(|| Arc::new(Bucket::new(bytes(rate)))).clone())
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Holds back one stream of bytes.
pub(crate) struct Throttle {
    bandwidth: Arc<Inner>,
    /// The buckets that it pays, with the class of each.
    buckets: Vec<(usize, Arc<Bucket>)>,
    /// Bytes moved before they are paid for.
    piece: u64,
    owed: u64,
    begun: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    held_back: HeldBack,
}

/// Whether one of a transfer's streams waits for its limit, or has waited since the last question.
#[derive(Clone)]
pub(crate) struct HeldBack {
    bandwidth: Arc<Inner>,
    waits: Arc<Waits>,
}

#[derive(Default)]
struct Waits {
    waited: AtomicBool,
    /// When the last wait that has begun is over, as buckets count.
    until: AtomicU64,
}

impl HeldBack {
    /// Asks, and forgets.
    pub(crate) fn take(&self) -> bool {
        let waits = self.waits.until.load(Ordering::Relaxed) > self.bandwidth.now();
        self.waits.waited.swap(false, Ordering::Relaxed) || waits
    }
}

impl Throttle {
    fn new(bandwidth: Arc<Inner>, buckets: Vec<(usize, Arc<Bucket>)>, held_back: HeldBack) -> Self {
        let lowest = buckets.iter().map(|(_, bucket)| bucket.rate()).min();
        let piece = lowest.map_or(MOST, |rate| (rate / PIECES).clamp(LEAST, MOST));
        Self {
            bandwidth,
            buckets,
            piece,
            owed: 0,
            begun: false,
            sleep: None,
            held_back,
        }
    }

    /// The same for another stream of the same transfer.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.bandwidth.clone(), self.buckets.clone(), self.held_back.clone())
    }

    /// Tells whether one of the transfer's streams has to wait: its peer is not to blame for the silence.
    pub(crate) fn held_back(&self) -> HeldBack {
        self.held_back.clone()
    }

    /// Bytes that are best moved at once.
    pub(crate) fn piece(&self) -> u64 {
        self.piece
    }

    /// Bytes have moved.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.owed += bytes;
    }

    /// Waits until more may move.
    pub(crate) async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await;
    }

    /// Waits until more may move.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.buckets.is_empty() {
            return Poll::Ready(());
        }
        if self.sleep.is_none() {
            // At first the payments of others, and of its client's last transfer, must be through.
            if self.begun && self.owed < self.piece {
                return Poll::Ready(());
            }
            self.begun = true;
            self.pay();
        }
        if let Some(sleep) = &mut self.sleep {
            if sleep.as_mut().poll(cx).is_pending() {
                self.held_back.waits.waited.store(true, Ordering::Relaxed);
                return Poll::Pending;
            }
            self.sleep = None;
        }
        Poll::Ready(())
    }

    /// Pays the debt, and sleeps until all payments are through.
    fn pay(&mut self) {
        let (now, owed) = (self.bandwidth.now(), std::mem::take(&mut self.owed));
        let paid = self
            .buckets
            .iter()
            .map(|(class, bucket)| (bucket.pay(now, owed), *class));
        let Some((through, class)) = paid.max() else { return };
        if through > now {
            self.bandwidth.held_back[class].fetch_add(through - now, Ordering::Relaxed);
            self.held_back.waits.until.fetch_max(through, Ordering::Relaxed);
            let at = self.bandwidth.start + Duration::from_nanos(through);
            self.sleep = Some(Box::pin(sleep_until(at)));
        }
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let now = self.bandwidth.now();
        for (_, bucket) in &self.buckets {
            bucket.pay(now, self.owed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn bandwidth(all: &str, tables: &str) -> Bandwidth {
        #[derive(serde::Deserialize)]
        struct Tables {
            #[serde(default)]
            limit: Vec<Share>,
        }
        let limits = Limits {
            bandwidth: (!all.is_empty()).then(|| all.parse().unwrap()),
            ..Limits::default()
        };
        Bandwidth::new(&limits, &toml::from_str::<Tables>(tables).unwrap().limit)
    }

    fn party(vo: &str, client: &str) -> Party {
        Party {
            vo: Some(vo.to_owned()),
            client: client.to_owned(),
            area: "data".to_owned(),
        }
    }

    /// Moves as much as it may in some seconds, by streams of these parties; gives the bytes of each.
    async fn move_for(bandwidth: &Bandwidth, seconds: u64, parties: &[Party]) -> Vec<u64> {
        let end = Instant::now() + Duration::from_secs(seconds);
        let one = async |party: &Party| {
            let (mut throttle, mut bytes) = (bandwidth.throttle(party), 0);
            loop {
                throttle.ready().await;
                if Instant::now() >= end {
                    return bytes;
                }
                throttle.moved(10_000);
                bytes += 10_000;
            }
        };
        futures_util::future::join_all(parties.iter().map(one)).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_has_its_own_and_all_have_theirs() {
        let near = |bytes: u64, expected: u64| {
            assert!(bytes.abs_diff(expected) <= expected / 20, "{bytes} of {expected}");
        };
        let vos = "[[limit]]\nvo = \"*\"\nbandwidth = \"1 MB/s\"\n[[limit]]\nvo = \"big\"\nbandwidth = \"3 MB/s\"\n";
        let parties = [party("big", "a"), party("small", "b"), party("small", "c")];
        let moved = move_for(&bandwidth("", vos), 10, &parties).await;
        near(moved[0], 30_000_000);
        near(moved[1] + moved[2], 10_000_000);
        near(moved[1], moved[2]);
        // Of less than both want together, each gets the same.
        let limited = bandwidth("2.5 MB/s", vos);
        let moved = move_for(&limited, 10, &parties).await;
        near(moved.iter().sum(), 25_000_000);
        assert!(
            moved[0] > moved[1] && limited.held_back()[0] > Duration::from_secs(10),
            "{moved:?}"
        );
        assert!(limited.is_limited() && !bandwidth("", "").is_limited());
        assert!(limited.held_back()[2..].iter().all(Duration::is_zero));
    }

    /// A reload would take effect only after a restart, or transfers in hand would lose their limits.
    #[tokio::test(start_paused = true)]
    async fn other_limits_are_for_those_who_come() {
        let bandwidth = bandwidth("1 MB/s", "");
        let mut before = bandwidth.throttle(&party("vo", "me"));
        let wider = Limits {
            bandwidth: Some("10 MB/s".parse().unwrap()),
            ..Limits::default()
        };
        bandwidth.adjust(&wider, &[]);
        assert_eq!(bandwidth.of_all(), Some(10_000_000));
        let moved = move_for(&bandwidth, 10, &[party("vo", "me")]).await;
        assert!((99_000_000..=101_000_000).contains(&moved[0]), "{moved:?}");
        let start = Instant::now();
        for _ in 0..100 {
            before.ready().await;
            before.moved(100_000);
        }
        assert!(start.elapsed() >= Duration::from_millis(9_500), "{:?}", start.elapsed());
        bandwidth.adjust(&Limits::default(), &[]);
        assert!(!bandwidth.is_limited() && bandwidth.held_back()[0] > Duration::from_secs(15));
    }

    /// A client would pass its limit by many small files.
    #[tokio::test(start_paused = true)]
    async fn small_transfers_pay_too() {
        let bandwidth = bandwidth("", "[[limit]]\nclient = \"*\"\nbandwidth = \"1 MB/s\"\n");
        let start = Instant::now();
        for _ in 0..1000 {
            let mut throttle = bandwidth.throttle(&party("vo", "me"));
            throttle.ready().await;
            throttle.moved(10_000);
        }
        assert!(start.elapsed() >= Duration::from_millis(9_900), "{:?}", start.elapsed());
        let mut other = bandwidth.throttle(&party("vo", "other"));
        let before = Instant::now();
        other.ready().await;
        assert_eq!(before, Instant::now());
        assert!(!other.held_back().take());
        other.another().moved(1);
    }
}
