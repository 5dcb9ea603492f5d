//! Deferred removal: an object that lost its name lies in the private directory, and is removed step by step.
//!
//! A tree may be deeper than the longest path or the number of open files. So nothing descends: a directory found
//! within a directory is renamed up to the top, and removed when its turn comes. A file may take seconds to remove: it
//! is shortened in steps before, unless it has a reader.

use std::{
    ffi::{CStr, CString},
    sync::{Arc, atomic::Ordering},
};

use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, Dir, Mode, OFlags},
    io::Errno,
};

use super::{
    Found, LARGE, Place, Shared, TEMPORARY, beneath,
    directory::{is_dots, is_hidden},
    failed, intent, meta_at, temporary_name, weigh,
};
use crate::backend::{DeferredRemoval, Effort, Emptied, Usage};

/// How deep a removal descends where a directory cannot be renamed up: at borders that no rename crosses, such as quota
/// projects within one file system.
const DESCENT: u32 = 16;

/// Something in the private directory that waits to be removed.
pub(super) struct PosixRemoval {
    shared: Arc<Shared>,
    name: CString,
    /// Whether its files were counted as part of the area.
    counted: bool,
}

impl DeferredRemoval for PosixRemoval {
    fn empty(&mut self, at_most: Effort) -> Emptied {
        let mut removal = Removal {
            shared: &self.shared,
            left: at_most,
            effort: Effort::default(),
            freed: Usage::default(),
            trouble: None,
        };
        let outcome = removal.remove_top(&self.name).map_err(failed("remove it"));
        let Removal { effort, freed, .. } = removal;
        Emptied {
            freed: if self.counted { freed } else { Usage::default() },
            effort,
            outcome,
        }
    }
}

impl PosixRemoval {
    /// Takes a second name away again: it was not needed.
    pub(super) fn let_go(&self) {
        if let Err(errno) = fs::unlinkat(&self.shared.private, &self.name, AtFlags::empty()) {
            tracing::warn!(%errno, name = ?self.name, "could not remove a temporary name; it goes at the next start");
        }
    }
}

/// Takes something out of the name space at one instant.
pub(super) fn defer(shared: &Arc<Shared>, (directory, name): Place<'_>) -> Result<PosixRemoval, Errno> {
    let removal = deferred(shared, temporary_name());
    fs::renameat(directory, name, &shared.private, &removal.name)?;
    Ok(removal)
}

/// The removal of an object that has a private name already.
pub(super) fn deferred(shared: &Arc<Shared>, name: String) -> PosixRemoval {
    PosixRemoval {
        shared: shared.clone(),
        name: CString::new(name).expect("a name made here holds no NUL"),
        counted: true,
    }
}

/// Gives a file that is about to be replaced, and takes long to remove, a second name; none where that is not needed, or not
/// possible.
pub(super) fn second_name(shared: &Arc<Shared>, (directory, name): Place<'_>) -> Option<PosixRemoval> {
    let found = weigh(directory, name).ok().flatten()?;
    if !found.takes_long_to_remove() {
        return None;
    }
    let removal = deferred(shared, temporary_name());
    let linked = fs::linkat(directory, name, &shared.private, &removal.name, AtFlags::empty());
    linked.is_ok().then_some(removal)
}

/// One step of a removal.
struct Removal<'a> {
    shared: &'a Shared,
    left: Effort,
    effort: Effort,
    freed: Usage,
    /// The first error; it does not stop the rest.
    trouble: Option<Errno>,
}

/// The state of a file after a step.
#[derive(PartialEq, Eq)]
enum FileStep {
    Gone,
    /// The rest of it must wait for another visit.
    Shorter,
}

impl Removal<'_> {
    /// Whether nothing is left of it.
    fn remove_top(&mut self, name: &CStr) -> Result<bool, Errno> {
        let private = &self.shared.private;
        let top = match beneath(private, name, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(top) => top,
            Err(Errno::NOENT) => return Ok(true),
            // Not followed: a link is removed like any other name.
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(self.remove_file(private, name, true)? == FileStep::Gone),
            Err(errno) => return Err(errno),
        };
        self.clear(&top, &top, 0)?;
        if let Some(errno) = self.trouble {
            return Err(errno);
        }
        match fs::unlinkat(private, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // The budget is spent, or a writer with the directory open has created a file in it meanwhile.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Removes the contents of a directory, at this depth below the top, within the budget and until an error.
    fn clear(&mut self, top: &OwnedFd, directory: &OwnedFd, depth: u32) -> Result<(), Errno> {
        // Removing while reading may hide entries on some file systems: until a look finds nothing.
        loop {
            let mut found = false;
            for entry in Dir::read_from(directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if is_dots(name) {
                    continue;
                }
                if self.left.entries == 0 || self.left.bytes == 0 {
                    return Ok(());
                }
                found = true;
                if let Err(errno) = self.remove(top, directory, name, depth) {
                    self.trouble.get_or_insert(errno);
                }
            }
            if !found || self.trouble.is_some() {
                return Ok(());
            }
        }
    }

    fn remove(&mut self, top: &OwnedFd, directory: &OwnedFd, name: &CStr, depth: u32) -> Result<(), Errno> {
        let is_directory = match meta_at(directory, name) {
            Ok(meta) => meta.is_some_and(|meta| meta.directory),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        if !is_directory {
            return self.remove_file(directory, name, !is_hidden(name)).map(drop);
        }
        if depth == 0 {
            return self.remove_directory(top, directory, name, depth);
        }
        self.spent(1, 0);
        match fs::renameat(directory, name, top, temporary_name()) {
            Err(Errno::XDEV) if depth < DESCENT => self.remove_directory(top, directory, name, depth),
            // A directory that is not ours to change may still be empty.
            Err(errno) => fs::unlinkat(directory, name, AtFlags::REMOVEDIR).map_err(|_| errno),
            Ok(()) => Ok(()),
        }
    }

    fn remove_directory(&mut self, top: &OwnedFd, directory: &OwnedFd, name: &CStr, depth: u32) -> Result<(), Errno> {
        let inner = beneath(directory, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.clear(top, &inner, depth + 1)?;
        self.spent(1, 0);
        match fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // As above: another look will find it.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(()),
            outcome => outcome,
        }
    }

    /// Removes an object that is no directory, and counts it if it was a counted file; or shortens it.
    fn remove_file(&mut self, directory: &OwnedFd, name: &CStr, counted: bool) -> Result<FileStep, Errno> {
        let Some(found) = weigh(directory, name)? else {
            fs::unlinkat(directory, name, AtFlags::empty())?;
            self.spent(1, 0);
            return Ok(FileStep::Gone);
        };
        if found.allocated > self.left.bytes.max(LARGE)
            && let Some(size) = self.shorten(directory, name, &found)
        {
            self.count(found.meta.size - size, 0, counted);
            return Ok(FileStep::Shorter);
        }
        fs::unlinkat(directory, name, AtFlags::empty())?;
        self.spent(1, found.allocated);
        self.count(found.meta.size, 1, counted);
        Ok(FileStep::Gone)
    }

    /// Cuts the largest allowed part off a file's end; returns its new size. `None` if it must be removed as a whole.
    /// Then it has a reader or another name, or its bytes may lie in sockets, where a shorter file would put zeros into
    /// them.
    fn shorten(&mut self, directory: &OwnedFd, name: &CStr, found: &Found) -> Option<u64> {
        let sent = self.shared.sent.load(Ordering::Relaxed);
        if sent || found.links != 1 || self.shared.readers.may_read(found.meta.identity) {
            return None;
        }
        let file = fs::openat(
            directory,
            name,
            OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .ok()?;
        let step = self.left.bytes.max(LARGE);
        let size = shortened(found.meta.size, found.allocated, step);
        fs::ftruncate(&file, size).ok()?;
        self.spent(1, step);
        Some(size)
    }

    fn spent(&mut self, entries: u64, bytes: u64) {
        self.left.entries = self.left.entries.saturating_sub(entries);
        self.left.bytes = self.left.bytes.saturating_sub(bytes);
        self.effort.entries += entries;
        self.effort.bytes += bytes;
    }

    fn count(&mut self, bytes: u64, files: u64, counted: bool) {
        if counted {
            self.freed.bytes += bytes;
            self.freed.files += files;
        }
    }
}

/// The size of a file after about `step` of the bytes that it takes on the disk have been cut off, if they lie evenly in it.
fn shortened(size: u64, allocated: u64, step: u64) -> u64 {
    let cut = u128::from(size) * u128::from(step) / u128::from(allocated.max(1));
    size - size.min(u64::try_from(cut).unwrap_or(u64::MAX).max(1))
}

/// The leftovers of an earlier run in the private directory.
pub(super) fn sweep(shared: &Arc<Shared>) -> Result<Vec<Box<dyn DeferredRemoval>>, Errno> {
    // An earlier run may have ended before it flushed its changes. After a power cut a removed name could come back,
    // and with it a file that was truncated here. A new directory could vanish, with all files acknowledged in it from
    // now on.
    fs::syncfs(&shared.root)?;
    intent::recover(shared, &names(shared)?);
    let mut removals: Vec<Box<dyn DeferredRemoval>> = Vec::new();
    for name in names(shared)? {
        if name.to_bytes().starts_with(intent::ASIDE.as_bytes()) {
            tracing::error!(
                ?name,
                "a MOVE was cut off: an object that it had set aside is kept in the area's .weir-private, move it where it belongs"
            );
        }
        if name.to_bytes().starts_with(TEMPORARY.as_bytes()) {
            removals.push(Box::new(PosixRemoval {
                shared: shared.clone(),
                name,
                counted: false,
            }));
        }
    }
    Ok(removals)
}

fn names(shared: &Shared) -> Result<Vec<CString>, Errno> {
    let entries = Dir::read_from(&shared.private)?;
    entries.map(|entry| Ok(entry?.file_name().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A file that never gets shorter is never removed; a sparse one must be gone after its bytes have been paid
        /// for.
        #[test]
        fn files_get_shorter(size in 1u64..1 << 50, allocated in 1u64..1 << 50, step in LARGE..1 << 40) {
            prop_assert!(shortened(size, allocated, step) < size);
            let (mut rest, mut takes, mut steps) = (size, size, 0);
            while rest > 0 && steps <= 20 {
                rest = shortened(rest, takes, step);
                takes = rest;
                steps += 1;
            }
            prop_assert!(rest == 0 || size / step >= 19);
        }
    }
}
