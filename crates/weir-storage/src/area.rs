//! Storage areas: their place, their fill level, and their current writers.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use weir_auth::StoragePath;
use weir_units::{Algorithm, Bytes};

use crate::{
    backend::{Backend, BackendError, Changed, Meta, Obstacle, PRIVATE_PREFIX, Usage},
    config::Dav,
    reaper::DeferredRemovals,
    refusal::Refusal,
};

/// Guards a change of one name; two names in 256 share one now and then, which costs them a short wait.
const STRIPES: usize = 256;

/// How long a file on its way in waits for room that deleted files still take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most requests that wait for room at one time: each occupies a thread of the pool that all reads and writes use.
const PATIENT_MAX: usize = 8;

/// Most components of a path: 4096 bytes hold 256 names of 15. Deeper trees, made by other means, are counted and
/// removed all the same.
pub(crate) const DEPTH_MAX: usize = 256;

/// A part of the name space with a back end of its own.
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) prefix: StoragePath,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) read_only: Option<ReadOnly>,
    pub(crate) anonymous_read: bool,
    pub(crate) durable: bool,
    pub(crate) algorithms: Vec<Algorithm>,
    /// Time after its writing in which every caller with the right to create may move a file.
    pub(crate) movable_for: Duration,
    pub(crate) dav: Dav,
    quota: Option<u64>,
    ledger: Arc<Mutex<RoomLedger>>,
    patient: Arc<AtomicUsize>,
    writers: Arc<Mutex<HashSet<String>>>,
    pub(crate) removals: Arc<DeferredRemovals>,
    stripes: Arc<[Mutex<()>]>,
}

/// A counted waiter for room.
struct Patient<'a>(&'a AtomicUsize);

impl<'a> Patient<'a> {
    /// None if enough wait already.
    fn among(waiting: &'a AtomicUsize) -> Option<Self> {
        let one_more = |n: usize| (n < PATIENT_MAX).then_some(n + 1);
        let joined = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        joined.is_ok().then_some(Self(waiting))
    }
}

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why an area takes no changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    Configured,
    /// It could not be counted at start, so that its quota would mean nothing.
    Uncounted,
}

impl std::fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configured => "by configuration",
            Self::Uncounted => "because its files could not be counted at start (see the endpoint's log)",
        })
    }
}

/// How full an area is.
#[derive(Debug, Clone, Copy, Default)]
struct RoomLedger {
    /// Sum of the sizes of all files, and their number. Below zero for a moment when a tree is removed with a new file
    /// that is not counted yet: cut off at zero, the two would not cancel out.
    bytes: i64,
    files: i64,
    /// Set aside for files on their way in.
    held: u64,
}

/// How an area is set up; all of it but the name may change while the endpoint serves.
pub(crate) struct AreaSetup {
    pub(crate) name: String,
    pub(crate) prefix: StoragePath,
    pub(crate) read_only: Option<ReadOnly>,
    pub(crate) anonymous_read: bool,
    pub(crate) durable: bool,
    pub(crate) algorithms: Vec<Algorithm>,
    /// Time after its writing in which every caller with the right to create may move a file.
    pub(crate) movable_for: Duration,
    pub(crate) dav: Dav,
    pub(crate) quota: Option<Bytes>,
}

impl Area {
    pub(crate) fn new(setup: AreaSetup, backend: Arc<dyn Backend>, usage: Usage) -> Self {
        Self {
            name: setup.name,
            prefix: setup.prefix,
            backend,
            read_only: setup.read_only,
            anonymous_read: setup.anonymous_read,
            durable: setup.durable,
            algorithms: setup.algorithms,
            movable_for: setup.movable_for,
            dav: setup.dav,
            quota: setup.quota.map(|quota| quota.0),
            ledger: Arc::new(Mutex::new(RoomLedger {
                bytes: signed(usage.bytes),
                files: signed(usage.files),
                held: 0,
            })),
            patient: Arc::default(),
            writers: Arc::default(),
            removals: Arc::default(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        }
    }

    /// The same area with other settings: both share files, counts and writers.
    pub(crate) fn with(&self, setup: AreaSetup) -> Self {
        Self {
            name: setup.name,
            prefix: setup.prefix,
            backend: self.backend.clone(),
            read_only: self
                .read_only
                .filter(|why| *why == ReadOnly::Uncounted)
                .or(setup.read_only),
            anonymous_read: setup.anonymous_read,
            durable: setup.durable,
            algorithms: setup.algorithms,
            movable_for: setup.movable_for,
            dav: setup.dav,
            quota: setup.quota.map(|quota| quota.0),
            ledger: self.ledger.clone(),
            patient: self.patient.clone(),
            writers: self.writers.clone(),
            removals: self.removals.clone(),
            stripes: self.stripes.clone(),
        }
    }

    /// The same area around another back end, whose files use the same room under names of their own.
    pub(crate) fn staging(&self, backend: Arc<dyn Backend>, durable: bool) -> Self {
        Self {
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            backend,
            read_only: self.read_only,
            anonymous_read: false,
            durable,
            algorithms: self.algorithms.clone(),
            movable_for: self.movable_for,
            dav: self.dav,
            quota: self.quota,
            ledger: self.ledger.clone(),
            patient: self.patient.clone(),
            writers: Arc::default(),
            removals: self.removals.clone(),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Refuses a change where none is allowed.
    pub(crate) fn check_writable(&self) -> Result<(), Refusal> {
        let Some(why) = self.read_only else { return Ok(()) };
        Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!("area {} is read-only {why}: it takes no changes now", self.name),
        ))
    }

    pub(crate) fn usage(&self) -> Usage {
        self.ledger.lock().usage()
    }

    /// Available and used bytes. Asks the file system: on the blocking pool only.
    pub(crate) fn room(&self) -> (u64, u64) {
        let (usage, held) = {
            let ledger = self.ledger.lock();
            (ledger.usage(), ledger.held)
        };
        let on_disk = self.backend.space().map_or(0, |space| space.available);
        let in_quota = self
            .quota
            .map_or(u64::MAX, |quota| quota.saturating_sub(usage.bytes).saturating_sub(held));
        (on_disk.min(in_quota), usage.bytes)
    }

    pub(crate) fn quota(&self) -> Option<u64> {
        self.quota
    }

    /// Whether a file of so many bytes can be made without any wait: neither for a disk, nor for room that is being given back.
    pub(crate) fn never_waits_for(&self, bytes: u64) -> bool {
        self.backend.never_waits() && self.room().0 >= bytes
    }

    /// Sets room aside for a file of `bytes` (0 if its size is not known), before any of it is taken. On the blocking pool.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Result<Hold, Refusal> {
        self.with_patience(|| self.hold_at_once(bytes))
    }

    /// As [`Self::hold`], without waiting for room that is being freed.
    pub(crate) fn hold_at_once(self: &Arc<Self>, bytes: u64) -> Result<Hold, Refusal> {
        let mut hold = Hold {
            area: self.clone(),
            bytes: 0,
        };
        hold.try_on_disk(bytes)?;
        Ok(hold)
    }

    /// Tries again for a moment, while room is being given back.
    fn with_patience<T>(&self, mut attempt: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
        let begun = Instant::now();
        let mut outcome = attempt();
        if outcome.is_ok() || !self.removals.are_promising() {
            return outcome;
        }
        let Some(_patient) = Patient::among(&self.patient) else {
            return outcome;
        };
        let _hurry = self.removals.hurry();
        while outcome.is_err() && self.removals.are_promising() && begun.elapsed() < PATIENCE {
            std::thread::sleep(PATIENCE / 100);
            outcome = attempt();
        }
        outcome
    }

    /// Makes the caller the only writer of a path until the claim is dropped.
    pub(crate) fn claim(self: &Arc<Self>, path: &StoragePath) -> Result<Claim, Refusal> {
        let key = path.relative().to_owned();
        if !self.writers.lock().insert(key.clone()) {
            return Err(Refusal::conflict(format!(
                "{path} is being written by another transfer; try again when it has ended"
            )));
        }
        Ok(Claim {
            area: self.clone(),
            key,
        })
    }

    /// Looks up a path; `None` if it is free. On the blocking pool.
    pub(crate) fn current(&self, path: &StoragePath) -> Result<Option<Meta>, BackendError> {
        match self.backend.stat(path) {
            Ok(meta) => Ok(Some(meta)),
            Err(BackendError {
                obstacle: Obstacle::Missing,
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Locks a name against other changes, for the length of a rename or removal, never for that of a flush. On the
    /// blocking pool.
    pub(crate) fn still(&self, path: &StoragePath) -> MutexGuard<'_, ()> {
        self.stripes[stripe(path)].lock()
    }

    /// The same for two names at once, always in one order.
    pub(crate) fn still_both(
        &self,
        a: &StoragePath,
        b: &StoragePath,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (first, second) = (stripe(a).min(stripe(b)), stripe(a).max(stripe(b)));
        let guard = self.stripes[first].lock();
        (guard, (first != second).then(|| self.stripes[second].lock()))
    }

    /// Completes a change of names, without a lock: in a durable area the change is durable when this returns. The
    /// reaper gets the file or tree that lost its name, and first flushes the directories that were not flushed here.
    /// Otherwise a power cut could bring back the name of a truncated file. On the blocking pool.
    ///
    /// Each client waits for a flush of its own: journals combine concurrent ones by themselves. Sixteen clients
    /// deleted 13,000 names a second so on ext4, and 7,000 with one shared flush for all waiters, during which none of
    /// them works.
    pub(crate) fn settle(&self, changed: Changed) -> Result<(), BackendError> {
        let Changed { directories, removal } = changed;
        // A deferred removal keeps directories open that were not flushed. Beyond a number of them, a client that
        // removes faster than room comes back waits for the disk.
        let crowded = removal.is_some() && self.removals.count() >= DESCRIPTORS_HELD;
        let flushes = self.durable || crowded;
        let flushed = if flushes {
            directories.iter().try_for_each(|directory| directory.flush())
        } else {
            Ok(())
        };
        if let Some(removal) = removal {
            let done = flushes && flushed.is_ok();
            self.removals.push(removal, if done { Vec::new() } else { directories });
        }
        flushed
    }

    /// Enters that files went away.
    pub(crate) fn freed(&self, usage: Usage) {
        let mut ledger = self.ledger.lock();
        ledger.bytes -= signed(usage.bytes);
        ledger.files -= signed(usage.files);
    }

    /// Enters that one file went away.
    pub(crate) fn freed_file(&self, meta: Option<Meta>) {
        if let Some(meta) = meta {
            self.freed(Usage {
                bytes: meta.size,
                files: 1,
            });
        }
    }
}

impl RoomLedger {
    fn usage(&self) -> Usage {
        Usage {
            bytes: u64::try_from(self.bytes).unwrap_or(0),
            files: u64::try_from(self.files).unwrap_or(0),
        }
    }
}

/// No file system holds 2⁶³ bytes.
fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// Deferred removals of an area that may keep directories open until these are flushed.
const DESCRIPTORS_HELD: usize = 1000;

fn stripe(path: &StoragePath) -> usize {
    let mut hasher = DefaultHasher::new();
    path.relative().hash(&mut hasher);
    (hasher.finish() % STRIPES as u64) as usize
}

/// Room set aside for a file on its way in; given back when it is dropped.
pub(crate) struct Hold {
    area: Arc<Area>,
    bytes: u64,
}

impl Hold {
    /// The same as [`Hold::grow_to`], and asks the file system too. On the blocking pool.
    /// If there is none, but something is being removed, it waits a moment for that.
    pub(crate) fn grow_to_on_disk(&mut self, bytes: u64) -> Result<(), Refusal> {
        let area = self.area.clone();
        area.with_patience(|| self.try_on_disk(bytes))
    }

    fn try_on_disk(&mut self, bytes: u64) -> Result<(), Refusal> {
        if let Ok(space) = self.area.backend.space()
            && bytes > space.available
        {
            return Err(Refusal::no_space(format!(
                "{} do not fit: the file system of area {} has {:.1} left",
                Bytes(bytes),
                self.area.name,
                Bytes(space.available)
            )));
        }
        self.grow_to(bytes)
    }

    /// Makes sure of room for `bytes` in all, as far as the quota goes.
    pub(crate) fn grow_to(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let mut ledger = self.area.ledger.lock();
        let after = ledger.usage().bytes.saturating_add(ledger.held).saturating_add(more);
        if let Some(quota) = self.area.quota
            && after > quota
        {
            let left = quota.saturating_sub(ledger.usage().bytes).saturating_sub(ledger.held);
            return Err(Refusal::no_space(format!(
                "quota of area {} would be exceeded: {} wanted, {} of {} left",
                self.area.name,
                Bytes(more),
                Bytes(left),
                Bytes(quota)
            )));
        }
        ledger.held += more;
        self.bytes = bytes;
        Ok(())
    }

    /// The file is visible: the reserved room becomes used room.
    pub(crate) fn settle(self, size: u64, replaced: Option<Meta>) {
        let mut ledger = self.area.ledger.lock();
        ledger.bytes += signed(size);
        ledger.files += 1;
        if let Some(old) = replaced {
            ledger.bytes -= signed(old.size);
            ledger.files -= 1;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut ledger = self.area.ledger.lock();
        ledger.held = ledger.held.saturating_sub(self.bytes);
    }
}

/// The right to be a path's only writer.
pub(crate) struct Claim {
    area: Arc<Area>,
    key: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.area.writers.lock().remove(&self.key);
    }
}

/// The target of a path of the endpoint.
pub(crate) enum PathTarget {
    /// Into an area: the path inside it.
    Area(Arc<Area>, StoragePath),
    /// Above some areas: the names that lead on to them, sorted, each once.
    Above(Vec<String>),
    /// Nowhere.
    Nowhere,
}

/// The areas of an endpoint.
pub(crate) struct NameSpace {
    areas: Vec<Arc<Area>>,
}

impl NameSpace {
    pub(crate) fn new(mut areas: Vec<Arc<Area>>) -> Self {
        // The longest prefix first: an area may lie inside another one's prefix.
        areas.sort_by_key(|area| std::cmp::Reverse(area.prefix.depth()));
        Self { areas }
    }

    pub(crate) fn areas(&self) -> &[Arc<Area>] {
        &self.areas
    }

    /// Names right below a path that lead on to areas, sorted, each once.
    pub(crate) fn children(&self, path: &StoragePath) -> Vec<String> {
        let depth = path.depth();
        let below = self.areas.iter().filter(|area| path.is_ancestor_of(&area.prefix));
        let mut names: Vec<String> = below
            .map(|area| area.prefix.names().nth(depth).unwrap_or_default().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Resolves a path. Refuses names reserved for the endpoint, and paths too deep.
    pub(crate) fn find(&self, path: &StoragePath) -> Result<PathTarget, Refusal> {
        if let Some(name) = path.names().find(|name| name.starts_with(PRIVATE_PREFIX)) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("the name {name} is reserved for the endpoint itself"),
            ));
        }
        if path.depth() > DEPTH_MAX {
            return Err(Refusal::bad_request(format!(
                "the path has more than {DEPTH_MAX} names"
            )));
        }
        for area in &self.areas {
            if let Some(inside) = path.relative_to(&area.prefix) {
                return Ok(PathTarget::Area(area.clone(), inside));
            }
        }
        let names = self.children(path);
        Ok(if names.is_empty() {
            PathTarget::Nowhere
        } else {
            PathTarget::Above(names)
        })
    }
}
