//! Directories whose entries changed, and those whose own names may not be on the disk yet.
//!
//! A file survives a power cut only if every directory above it does. A request flushes the directories in which it made a name;
//! but a directory on the way may have been made by another request, which has not flushed it yet. So the back end remembers each
//! directory that it made until its name is on the disk, and every request whose path leads through one flushes it too.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use rustix::{
    fd::OwnedFd,
    fs::{self, OFlags},
    io::Errno,
};
use weir_auth::StoragePath;

use super::{PosixRemoval, Shared, beneath, directory_mode, error, failed, meta_at};
use crate::backend::{BackendError, Changed, DeferredRemoval, Directory, Obstacle};

/// How many directories are remembered, at most: 8 bytes each. Beyond them every directory may be one.
const REMEMBERED: usize = 65_536;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Directories made here, whose names may not be on the disk yet.
#[derive(Debug, Default)]
pub(super) struct Unflushed(Mutex<UnflushedState>);

#[derive(Debug, Default)]
struct UnflushedState {
    /// By inode. Where nothing is ever flushed (`durability = "cache"`) they stay until there are too many.
    made: HashSet<u64>,
    /// Directories that are being made at this moment: not yet in `made`, but others may see them.
    making: usize,
    /// How many were forgotten since all were flushed: if there are some, any directory may be one of them.
    forgotten: u64,
}

impl UnflushedState {
    fn is_empty(&self) -> bool {
        self.made.is_empty() && self.making == 0 && self.forgotten == 0
    }

    fn remember(&mut self, inode: u64) {
        if self.made.len() >= REMEMBERED {
            self.forgotten += self.made.len() as u64;
            self.made.clear();
        }
        self.made.insert(inode);
    }
}

impl Unflushed {
    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    fn may_hold(&self, inode: u64) -> bool {
        let state = self.0.lock();
        state.forgotten > 0 || state.making > 0 || state.made.contains(&inode)
    }

    fn flushed(&self, inode: u64) {
        self.0.lock().made.remove(&inode);
    }

    /// Makes a directory and remembers it; gives its inode.
    pub(super) fn make(&self, directory: &OwnedFd, name: &str) -> Result<u64, Errno> {
        self.0.lock().making += 1;
        let made = fs::mkdirat(directory, name, directory_mode());
        let found = made.map(|()| meta_at(directory, name).ok().flatten());
        let mut state = self.0.lock();
        state.making -= 1;
        let Some(meta) = found? else {
            // Another request removed it, or the disk does not tell.
            state.forgotten += 1;
            return Ok(0);
        };
        state.remember(meta.identity);
        Ok(meta.identity)
    }

    /// Writes all names of the file system to the disk, if some directories were dropped from the list. Until that has
    /// ended, other requests must treat every directory as unflushed; directories dropped meanwhile stay so.
    fn flush_forgotten(&self, root: &OwnedFd) -> Result<(), Errno> {
        let before = self.0.lock().forgotten;
        if before == 0 {
            return Ok(());
        }
        fs::syncfs(root)?;
        let mut state = self.0.lock();
        if state.forgotten == before {
            state.forgotten = 0;
        }
        Ok(())
    }
}

/// A directory whose entries changed.
pub(super) struct PosixDirectory {
    shared: Arc<Shared>,
    handle: OwnedFd,
    /// The directory in it that may have been made since it was flushed.
    made: Option<u64>,
}

impl PosixDirectory {
    pub(super) fn new(shared: &Arc<Shared>, handle: OwnedFd, made: Option<u64>) -> Self {
        Self {
            shared: shared.clone(),
            handle,
            made,
        }
    }
}

impl Directory for PosixDirectory {
    fn flush(&self) -> Result<(), BackendError> {
        fs::fsync(&self.handle).map_err(failed("make it durable"))?;
        if let Some(made) = self.made {
            self.shared.unflushed.flushed(made);
        }
        Ok(())
    }
}

/// The directory of this path, which is made with all those above it that are missing. Directories to be flushed for it go into
/// `touched`, outermost first; without `durable` only those in which a name was made.
pub(super) fn make_all(
    shared: &Arc<Shared>,
    path: &StoragePath,
    durable: bool,
    touched: &mut Vec<PosixDirectory>,
) -> Result<OwnedFd, BackendError> {
    if durable {
        let outcome = shared.unflushed.flush_forgotten(&shared.root);
        outcome.map_err(failed("make its parent durable"))?;
    }
    if !durable || shared.unflushed.is_empty() {
        match shared.find(path, DIRECTORY) {
            Err(Errno::NOENT) => {}
            Err(Errno::NOTDIR) => return Err(error("write it", Obstacle::Parent, Errno::NOTDIR)),
            outcome => return outcome.map_err(failed("write it")),
        }
    }
    let mut here = beneath(&shared.root, ".", DIRECTORY).map_err(failed("write it"))?;
    for name in path.names() {
        let open = || beneath(&here, name, DIRECTORY);
        let reached = |errno| match errno {
            Errno::NOTDIR => error("write it", Obstacle::Parent, errno),
            errno => failed("write it")(errno),
        };
        let (inner, made) = match open() {
            Err(Errno::NOENT) => {
                let made = match shared.unflushed.make(&here, name) {
                    Ok(inode) => Some(inode),
                    Err(Errno::EXIST) => None,
                    Err(errno) => return Err(failed("make its parent")(errno)),
                };
                (open().map_err(reached)?, made)
            }
            outcome => (outcome.map_err(reached)?, None),
        };
        let made = made.or_else(|| doubtful(shared, &inner));
        let outer = std::mem::replace(&mut here, inner);
        if made.is_some() {
            touched.push(PosixDirectory::new(shared, outer, made));
        }
    }
    Ok(here)
}

/// The directories above this one, which is there, that hold names which may not be on the disk.
pub(super) fn above(
    shared: &Arc<Shared>,
    path: &StoragePath,
    operation: &'static str,
) -> Result<Vec<PosixDirectory>, BackendError> {
    let mut touched = Vec::new();
    if shared.unflushed.is_empty() {
        return Ok(touched);
    }
    let mut here = beneath(&shared.root, ".", DIRECTORY).map_err(failed(operation))?;
    for name in path.names() {
        let inner = beneath(&here, name, DIRECTORY).map_err(failed(operation))?;
        let made = doubtful(shared, &inner);
        let outer = std::mem::replace(&mut here, inner);
        if made.is_some() {
            touched.push(PosixDirectory::new(shared, outer, made));
        }
    }
    Ok(touched)
}

/// Its inode, if its name may not be on the disk.
fn doubtful(shared: &Shared, directory: &OwnedFd) -> Option<u64> {
    // A directory that cannot be looked at is flushed.
    let inode = fs::fstat(directory).map_or(0, |found| found.st_ino);
    (inode == 0 || shared.unflushed.may_hold(inode)).then_some(inode)
}

/// The flushes and the removal that are left after entries of these directories changed.
pub(super) fn changed(directories: impl IntoIterator<Item = PosixDirectory>, removal: Option<PosixRemoval>) -> Changed {
    let directories = directories.into_iter();
    Changed {
        directories: directories
            .map(|directory| -> Box<dyn Directory> { Box::new(directory) })
            .collect(),
        removal: removal.map(|removal| -> Box<dyn DeferredRemoval> { Box::new(removal) }),
    }
}

/// The same for the two directories of a move, which may be one. The target's is flushed first: a power cut between the two
/// flushes may leave both names, and must not leave none.
pub(super) fn changed_both(
    shared: &Arc<Shared>,
    mut above: Vec<PosixDirectory>,
    [source, target]: [OwnedFd; 2],
    removal: Option<PosixRemoval>,
) -> Changed {
    let identity = |handle| fs::fstat(handle).map(|found| (found.st_dev, found.st_ino)).ok();
    let one = identity(&source).is_some_and(|source| Some(source) == identity(&target));
    above.push(PosixDirectory::new(shared, target, None));
    if !one {
        above.push(PosixDirectory::new(shared, source, None));
    }
    changed(above, removal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    /// A request beside a flush of all would be answered before that flush has ended.
    #[test]
    fn forgotten_directories_count_until_all_are_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::open(folder.path(), DIRECTORY, fs::Mode::empty()).unwrap();
        let unflushed = Unflushed::default();
        for number in 0..=REMEMBERED as u64 {
            unflushed.0.lock().remember(number);
        }
        assert_eq!(unflushed.0.lock().forgotten, REMEMBERED as u64);
        assert!(unflushed.may_hold(u64::MAX));
        let nowhere = fs::open("/proc/self/status", OFlags::PATH, fs::Mode::empty()).unwrap();
        assert!(unflushed.flush_forgotten(&nowhere).is_err());
        assert!(unflushed.may_hold(u64::MAX), "the flush failed");
        unflushed.flush_forgotten(&root).unwrap();
        assert!(!unflushed.may_hold(u64::MAX));
        let made = unflushed.make(&root, "made").unwrap();
        assert!(unflushed.may_hold(made));
        unflushed.flushed(made);
        assert!(!unflushed.may_hold(made));
    }
}
