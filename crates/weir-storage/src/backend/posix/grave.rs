//! Removing: what has lost its name lies in the private directory, and goes bit by bit.
//!
//! A tree may be deeper than any path or any number of open files allows. So nothing descends: a directory found within a
//! directory is renamed up into the grave, and is taken when its turn comes.

use std::{
    ffi::{CStr, CString},
    sync::Arc,
};

use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, Dir, OFlags},
    io::Errno,
};

use super::{
    Shared, TEMPORARY, beneath,
    directory::{is_dots, is_hidden},
    failed, meta_at, temporary_name,
};
use crate::backend::{Emptied, Grave, Meta, Usage};

/// How deep a removal descends where a directory cannot be renamed up: at borders that no rename crosses, such as quota
/// projects within one file system.
const DESCENT: u32 = 16;

/// Something in the private directory that waits to be removed.
pub(super) struct PosixGrave {
    pub(super) shared: Arc<Shared>,
    pub(super) name: CString,
}

impl Grave for PosixGrave {
    fn empty(&mut self, at_most: usize) -> Emptied {
        let mut freed = Usage::default();
        let outcome = self.remove(at_most, &mut freed).map_err(failed("remove it"));
        Emptied { freed, outcome }
    }
}

impl PosixGrave {
    /// Whether nothing is left.
    fn remove(&self, at_most: usize, freed: &mut Usage) -> Result<bool, Errno> {
        let private = &self.shared.private;
        let grave = match beneath(private, self.name.as_c_str(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(grave) => grave,
            Err(Errno::NOENT) => return Ok(true),
            // Not followed: a link is a thing in a grave like any other.
            Err(Errno::NOTDIR | Errno::LOOP) => return unlink(private, &self.name, true, freed).map(|()| true),
            Err(errno) => return Err(errno),
        };
        let mut removal = Removal {
            grave: &grave,
            left: at_most,
            freed,
            trouble: None,
        };
        removal.clear(&grave, 0)?;
        if let Some(errno) = removal.trouble {
            return Err(errno);
        }
        match fs::unlinkat(private, &self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // The budget is spent, or a writer who had it open has put a file into it meanwhile.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

struct Removal<'a> {
    grave: &'a OwnedFd,
    /// Entries that may still be removed.
    left: usize,
    freed: &'a mut Usage,
    /// What could not be removed does not keep the rest.
    trouble: Option<Errno>,
}

impl Removal<'_> {
    /// Removes what is in a directory, which lies so deep below the grave, as far as budget and trouble let it.
    fn clear(&mut self, directory: &OwnedFd, depth: u32) -> Result<(), Errno> {
        // Removing while reading may hide entries on some file systems: until a look finds nothing.
        loop {
            let mut found = false;
            for entry in Dir::read_from(directory)? {
                let entry = entry?;
                let name = entry.file_name();
                if is_dots(name) {
                    continue;
                }
                if self.left == 0 {
                    return Ok(());
                }
                found = true;
                match self.remove(directory, name, depth) {
                    Ok(()) => self.left = self.left.saturating_sub(1),
                    Err(errno) => drop(self.trouble.get_or_insert(errno)),
                }
            }
            if !found || self.trouble.is_some() {
                return Ok(());
            }
        }
    }

    fn remove(&mut self, directory: &OwnedFd, name: &CStr, depth: u32) -> Result<(), Errno> {
        let is_directory = match meta_at(directory, name) {
            Ok(meta) => meta.is_some_and(|meta| meta.directory),
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        if !is_directory {
            return unlink(directory, name, !is_hidden(name), self.freed);
        }
        if depth == 0 {
            return self.remove_directory(directory, name, depth);
        }
        match fs::renameat(directory, name, self.grave, temporary_name()) {
            Err(Errno::XDEV) if depth < DESCENT => self.remove_directory(directory, name, depth),
            // A directory that is not ours to change may still be empty.
            Err(errno) => fs::unlinkat(directory, name, AtFlags::REMOVEDIR).map_err(|_| errno),
            Ok(()) => Ok(()),
        }
    }

    fn remove_directory(&mut self, directory: &OwnedFd, name: &CStr, depth: u32) -> Result<(), Errno> {
        let inner = beneath(directory, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
        self.clear(&inner, depth + 1)?;
        match fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            // As above: another look will find it.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(()),
            outcome => outcome,
        }
    }
}

/// Removes what is no directory, and counts it if it was a file that was counted.
fn unlink(directory: &OwnedFd, name: &CStr, counted: bool, freed: &mut Usage) -> Result<(), Errno> {
    let meta: Option<Meta> = meta_at(directory, name)?;
    fs::unlinkat(directory, name, AtFlags::empty())?;
    if let Some(meta) = meta.filter(|_| counted) {
        freed.bytes += meta.size;
        freed.files += 1;
    }
    Ok(())
}

/// Removes what an earlier life left in the private directory. What cannot be removed is told, and stays.
pub(super) fn sweep(shared: &Arc<Shared>) -> Result<u64, Errno> {
    let names: Vec<CString> = Dir::read_from(&shared.private)?
        .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
        .collect::<Result<_, _>>()?;
    let mut swept = 0;
    for name in names {
        if name.to_bytes().starts_with(super::supplant::ASIDE.as_bytes()) {
            tracing::error!(
                ?name,
                "a MOVE was cut off: what it had set aside is kept in the area's .weir-private, move it where it belongs"
            );
        }
        if !name.to_bytes().starts_with(TEMPORARY.as_bytes()) {
            continue;
        }
        swept += 1;
        let mut grave = PosixGrave {
            shared: shared.clone(),
            name,
        };
        if let Err(error) = grave.empty(usize::MAX).outcome {
            tracing::warn!(%error, name = ?grave.name, "could not remove what an earlier life left behind");
        }
    }
    Ok(swept)
}
