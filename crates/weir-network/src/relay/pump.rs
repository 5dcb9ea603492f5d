//! One direction of one connection.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

use super::bucket::Bucket;
use super::figures::Figures;
use super::rules::{DamageKind, Direction, Effect, Rules};

/// The bytes of one read.
const PIECE: usize = 64 << 10;
/// The same under a rate, so that connections take turns.
const PACED: usize = 8 << 10;
/// How often a connection that is held back counts the time.
const TELLING: Duration = Duration::from_millis(100);
/// Pieces that are on their way at once.
const ON_THE_WAY: usize = 256;

/// State that both directions of a connection share.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) peer: IpAddr,
    pub(super) rules: watch::Receiver<Rules>,
    pub(super) figures: Arc<Figures>,
    pub(super) seed: u64,
}

impl Line {
    fn effect(&mut self, direction: Direction) -> Effect {
        let rules = self.rules.borrow_and_update().clone();
        Effect::of(&rules, self.peer, direction)
    }

    /// Waits while the rules hold everything back; gives those that then hold.
    pub(super) async fn wait_while(&mut self, holds: impl Fn(&Effect) -> bool, direction: Direction) -> Effect {
        loop {
            let now = self.effect(direction);
            if !holds(&now) {
                return now;
            }
            let since = Instant::now();
            let changed = tokio::time::timeout(TELLING, self.rules.changed()).await;
            self.held(since.elapsed());
            if matches!(changed, Ok(Err(_))) {
                std::future::pending::<()>().await; // the relay is gone, and this with it
            }
        }
    }

    /// Waits until the connection is to be reset.
    async fn broken(&mut self, direction: Direction) {
        while !self.effect(direction).is_broken {
            if self.rules.changed().await.is_err() {
                std::future::pending::<()>().await; // the relay is gone, and this with it
            }
        }
    }

    /// Counts a reset; gives its error.
    fn reset(&self) -> io::Error {
        self.figures.resets.fetch_add(1, Ordering::Relaxed);
        io::ErrorKind::ConnectionReset.into()
    }

    /// The damage that so many more bytes meet, which end a piece of data of `burst` bytes.
    fn damages(&mut self, now: &Effect, bytes: u64, burst: u64) -> Vec<DamageKind> {
        let met = now.damages.iter().filter(|damage| {
            let meant = bytes.min(burst.saturating_sub(damage.above));
            meant > 0 && self.draw() >= (-damage.per_byte * meant as f64).exp()
        });
        met.map(|damage| damage.kind).collect()
    }

    fn held(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.figures.held_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// A number from 0 to 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.seed;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((drawn ^ (drawn >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Passes the bytes of one direction on until one side ends; an error ends the connection.
pub(super) async fn pump(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    direction: Direction,
    mut line: Line,
    bursts: Arc<[AtomicU64; 2]>,
) -> io::Result<()> {
    let (pieces, arriving) = mpsc::channel(ON_THE_WAY);
    let delivered = deliver(arriving, to, line.figures.clone());
    let own = Bucket::new(u64::MAX);
    let read = async move {
        let (here, there) = match direction {
            Direction::Up => (0, 1),
            Direction::Down => (1, 0),
        };
        loop {
            tokio::select! {
                readable = from.readable() => readable?,
                () = line.broken(direction) => return Err(line.reset()),
            }
            let mut now = line.effect(direction);
            let mut piece = vec![0; if now.is_paced() { PACED } else { PIECE }];
            match from.try_read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => piece.truncate(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            // An answer begins: what the other side says next is a piece of data of its own.
            bursts[there].store(0, Ordering::Relaxed);
            let burst = bursts[here].fetch_add(piece.len() as u64, Ordering::Relaxed) + piece.len() as u64;
            let stops = |now: &Effect| now.is_cut || now.longest.is_some_and(|longest| burst > longest);
            if stops(&now) {
                now = line.wait_while(|now| stops(now) && !now.is_broken, direction).await;
            }
            if now.is_broken {
                return Err(line.reset());
            }
            for damage in line.damages(&now, piece.len() as u64, burst) {
                match damage {
                    DamageKind::Reset => return Err(line.reset()),
                    DamageKind::Stall => {
                        line.figures.stalls.fetch_add(1, Ordering::Relaxed);
                        now = line.wait_while(|now| now.stalls() && !now.is_broken, direction).await;
                    }
                    DamageKind::Change => {
                        line.figures.changes.fetch_add(1, Ordering::Relaxed);
                        let middle = piece.len() / 2;
                        piece[middle] ^= 1;
                    }
                }
            }
            pace(&now, &own, piece.len(), &line).await;
            if pieces.send((Instant::now() + now.delay, piece)).await.is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    };
    tokio::try_join!(read, delivered).map(drop)
}

/// Waits until the bytes have passed every limit.
async fn pace(now: &Effect, own: &Bucket, bytes: usize, line: &Line) {
    if !now.is_paced() {
        return;
    }
    let begin = Instant::now();
    if let Some(each) = now.each {
        own.set(each);
    }
    let buckets = now.shared.iter().map(AsRef::as_ref).chain(now.each.map(|_| own));
    let Some(passed) = buckets.map(|bucket| bucket.take(bytes, begin)).max() else {
        return;
    };
    tokio::time::sleep_until(passed.into()).await;
    line.held(begin.elapsed());
}

/// Writes pieces when their time has come; then closes this direction.
async fn deliver(
    mut arriving: mpsc::Receiver<(Instant, Vec<u8>)>,
    mut to: OwnedWriteHalf,
    figures: Arc<Figures>,
) -> io::Result<()> {
    while let Some((at, piece)) = arriving.recv().await {
        if at > Instant::now() {
            tokio::time::sleep_until(at.into()).await;
        }
        to.write_all(&piece).await?;
        figures.passed.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    to.shutdown().await
}
