//! A storage whose disks can be made slow while it runs: a back end around that of its directory.
//!
//! Every call goes to the directory. While a fault is on, reads and writes take their turn at a rate, and the end of a file or a
//! deletion takes longer. The storage sees slow disks, as its own signals say; nothing above the back end knows.

mod behind;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use weir_auth::StoragePath;
use weir_network::relay::Bucket;
use weir_storage::backend::{BackendError, Obstacle, Reader};

pub(crate) use behind::Behind;

/// How the disks of a storage are slow. Nothing by default.
#[derive(Debug, Clone, Default)]
pub struct SlowDisk {
    /// Rates that reads share.
    pub reads: Vec<Arc<Bucket>>,
    /// Rates that writes share; one that is in both lists is shared by both.
    pub writes: Vec<Arc<Bucket>>,
    /// Bytes per second of each file that is read, and that is written.
    pub streams: [Option<u64>; 2],
    /// The share of the rates that reads and writes at once cost; most when there are as many of one as of the other.
    pub mixing: f64,
    /// Whether each new file is read back before its end is told.
    pub reads_back: bool,
    /// Time that the end of each file takes longer.
    pub close: Duration,
    /// Time that each deletion takes longer.
    pub deletion: Duration,
    /// The share of new files in whose place there is an old one, which is deleted first.
    pub overwrites: f64,
    /// Most bytes that its files may have.
    pub quota: Option<u64>,
    /// Above so many files that are read and written at once their rate falls from this, in bytes per second.
    pub overload: Option<(u32, u64)>,
    /// The share of files that is gone once it has come, and what draws them.
    pub vanish: f64,
    /// The share of files that reads differ from once they have come, in one bit.
    pub corrupt: f64,
    /// Most files that are read, and that are written, at once; more wait.
    pub connections: [Option<u32>; 2],
    /// The share of files for which reads fail, and writes, and how.
    pub failing: [Option<(f64, DiskFailure)>; 2],
}

/// How a disk fails for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFailure {
    /// It refuses the file.
    Refused(Obstacle),
    /// It reads one bit of the file as another one.
    Changed,
}

/// The disks of one storage, to be made slow and well again.
#[derive(Debug)]
pub struct Disk {
    now: RwLock<SlowDisk>,
    held_nanos: AtomicU64,
    /// Bytes of its files.
    used: AtomicU64,
    /// Files that are read, and that are written.
    active: [AtomicU32; 2],
    /// Files that were refused for want of room, and that are gone after they had come.
    refused: AtomicU64,
    gone: AtomicU64,
    drawn: AtomicU64,
    /// Files that could not be read or written.
    failed: AtomicU64,
    tried: AtomicU64,
    placed: AtomicU64,
    /// Files that have other bytes, and how many there ever were.
    corrupt: Mutex<HashSet<StoragePath>>,
    corrupted: AtomicU64,
    /// Files that will be gone, and when.
    doomed: Mutex<VecDeque<(Instant, StoragePath)>>,
    overload: Bucket,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            now: RwLock::default(),
            held_nanos: AtomicU64::new(0),
            used: AtomicU64::new(0),
            active: [AtomicU32::new(0), AtomicU32::new(0)],
            refused: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            drawn: AtomicU64::new(1),
            failed: AtomicU64::new(0),
            tried: AtomicU64::new(1),
            placed: AtomicU64::new(1),
            corrupt: Mutex::default(),
            corrupted: AtomicU64::new(0),
            doomed: Mutex::default(),
            overload: Bucket::new(u64::MAX),
        }
    }
}

impl Disk {
    /// From now on they are so.
    pub fn set(&self, slow: SlowDisk) {
        *self.now.write() = slow;
    }

    /// The time for which calls were held back, in all.
    pub fn held(&self) -> Duration {
        Duration::from_nanos(self.held_nanos.load(Ordering::Relaxed))
    }

    /// Files that are read and written now.
    pub fn active(&self) -> u32 {
        self.active.iter().map(|active| active.load(Ordering::Relaxed)).sum()
    }

    /// Files that were refused for want of room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Files that are gone after they had come.
    pub fn gone(&self) -> u64 {
        self.gone.load(Ordering::Relaxed)
    }

    /// Files that have other bytes than came.
    pub fn corrupted(&self) -> u64 {
        self.corrupted.load(Ordering::Relaxed)
    }

    /// Files that could not be read or written.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Fails for a share of files; says whether a file is read with a bit changed.
    fn may_fail(&self, operation: &'static str, way: usize) -> Result<bool, BackendError> {
        let Some((share, how)) = self.now.read().failing[way] else {
            return Ok(false);
        };
        if !is_drawn(&self.tried, share) {
            return Ok(false);
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        match how {
            DiskFailure::Refused(why) => Err(BackendError::new(operation, why)),
            DiskFailure::Changed => Ok(true),
        }
    }

    /// Whether reads need no wait.
    fn reads_at_once(&self) -> bool {
        let now = self.now.read();
        now.reads.is_empty() && now.overload.is_none() && now.streams[READ].is_none()
    }

    /// Whether a file may grow to so many bytes.
    fn has_room(&self, bytes: u64) -> bool {
        let quota = self.now.read().quota;
        let fits = quota.is_none_or(|quota| self.used.load(Ordering::Relaxed) + bytes <= quota);
        if !fits {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }

    /// A file of so many bytes has come, and another one may have gone for it.
    fn keep(&self, bytes: u64, replaced: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.free(replaced);
    }

    fn free(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _always = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// A file has come, which may be one of the share that will be gone.
    fn may_lose(&self, path: &StoragePath) {
        let share = self.now.read().vanish;
        if share <= 0.0 {
            return;
        }
        if is_drawn(&self.drawn, share) {
            self.doomed
                .lock()
                .push_back((Instant::now() + GONE_AFTER, path.clone()));
        }
    }

    /// A file has come, which may be one of the share that is read otherwise.
    fn may_corrupt(&self, path: &StoragePath) {
        let share = self.now.read().corrupt;
        if share > 0.0 && is_drawn(&self.drawn, share) {
            self.corrupt.lock().insert(path.clone());
            self.corrupted.fetch_add(1, Ordering::Relaxed);
        } else {
            self.mend(path);
        }
    }

    /// Whether a file has other bytes than came.
    fn is_corrupt(&self, path: &StoragePath) -> bool {
        self.corrupt.lock().contains(path)
    }

    /// A file of this name is gone, or another one has come.
    fn mend(&self, path: &StoragePath) {
        self.corrupt.lock().remove(path);
    }

    /// The next file that is gone by now.
    fn doomed(&self) -> Option<StoragePath> {
        let mut doomed = self.doomed.lock();
        let (due, _) = doomed.front()?;
        (*due <= Instant::now())
            .then(|| doomed.pop_front())?
            .map(|(_, path)| path)
    }

    /// Whether a file is gone by now that is still there.
    fn has_doomed(&self) -> bool {
        self.doomed
            .lock()
            .front()
            .is_some_and(|(due, _)| *due <= Instant::now())
    }

    /// The share of the rates that is left when files are read and written at once.
    fn unmixed(&self, mixing: f64) -> f64 {
        let [reads, writes] = [READ, WRITE].map(|way| self.active[way].load(Ordering::Relaxed));
        let mix = 2.0 * f64::from(reads.min(writes)) / f64::from((reads + writes).max(1));
        (1.0 - mixing * mix).max(0.01)
    }

    /// Waits until so many bytes of a file have passed every rate, of all files and of its own.
    fn pace(&self, bytes: usize, way: usize, own: &Bucket) {
        let (buckets, overload, mixing, stream) = {
            let now = self.now.read();
            let shared = if way == READ { &now.reads } else { &now.writes };
            (shared.clone(), now.overload, now.mixing, now.streams[way])
        };
        let begin = Instant::now();
        let mixed = (bytes as f64 / self.unmixed(mixing)) as usize;
        let mut passed = buckets.iter().map(|bucket| bucket.take(mixed, begin)).max();
        if let Some(rate) = stream {
            own.set(rate);
            passed = passed.max(Some(own.take(bytes, begin)));
        }
        if let Some((limit, rate)) = overload {
            let active = u64::from(self.active());
            let beyond = active.max(u64::from(limit));
            self.overload.set(rate.saturating_mul(u64::from(limit)) / beyond.max(1));
            passed = passed.max(Some(self.overload.take(bytes, begin)));
        }
        let Some(passed) = passed else { return };
        self.wait(passed.saturating_duration_since(begin));
    }

    /// Reads a file from its begin to its end, at the rate of reads.
    fn read_back(self: &Arc<Self>, file: &dyn Reader) -> Result<(), BackendError> {
        let (_active, own) = (Active::begin(self, READ), Bucket::new(u64::MAX));
        let (mut buffer, mut at) = (vec![0; BLOCK], 0);
        loop {
            let read = file.read_at(&mut buffer, at)?;
            if read == 0 {
                return Ok(());
            }
            self.pace(read, READ, &own);
            at += read as u64;
        }
    }

    /// Takes the time of a deletion.
    fn delete(&self) {
        let time = self.now.read().deletion;
        self.wait(time);
    }

    /// A file is about to come, which may be one of the share that has an old one in its place.
    fn make_way(&self) {
        let share = self.now.read().overwrites;
        if share > 0.0 && is_drawn(&self.placed, share) {
            self.delete();
        }
    }

    fn wait(&self, time: Duration) {
        if time.is_zero() {
            return;
        }
        std::thread::sleep(time);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.held_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// Whether the next of a row belongs to a share of it, in a fixed order that spreads evenly (golden ratio).
fn is_drawn(row: &AtomicU64, share: f64) -> bool {
    let number = row.fetch_add(1, Ordering::Relaxed);
    (number as f64 * 0.618_033_988_749_895).fract() < share
}

/// A file that is read or written.
struct Active(Arc<Disk>, usize);

/// The ways of a file, as places in lists.
const READ: usize = 0;
const WRITE: usize = 1;

/// Bytes that are read back at once.
const BLOCK: usize = 1 << 20;

/// The time after which a file is gone: the services that asked for it have looked at it before.
const GONE_AFTER: Duration = Duration::from_secs(2);

/// Pause between two looks for a place.
const LOOK: Duration = Duration::from_millis(5);

impl Active {
    /// Waits for a place, if there are only so many.
    fn begin(disk: &Arc<Disk>, way: usize) -> Self {
        let since = Instant::now();
        loop {
            if let Some(active) = Self::at_once(disk, way) {
                let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
                disk.held_nanos.fetch_add(nanos, Ordering::Relaxed);
                return active;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes a place, if there is one.
    fn at_once(disk: &Arc<Disk>, way: usize) -> Option<Self> {
        let most = disk.now.read().connections[way].unwrap_or(u32::MAX);
        let more = |active: u32| (active < most).then_some(active + 1);
        let taken = disk.active[way].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Self(disk.clone(), way))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active[self.1].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
