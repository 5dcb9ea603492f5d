//! Walks through directories: listing, counting, removing.

use std::ffi::{CStr, CString};

use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, Dir, OFlags},
    io::Errno,
};

use super::{PRIVATE_PREFIX, TEMPORARY, beneath, meta_at};
use crate::backend::{BackendError, Entry, Listing, Obstacle, Usage};

/// A directory being listed.
pub(super) struct PosixListing {
    directory: OwnedFd,
    stream: Dir,
}

impl PosixListing {
    pub(super) fn new(directory: OwnedFd) -> Result<Self, Errno> {
        let stream = Dir::read_from(&directory)?;
        Ok(Self { directory, stream })
    }
}

impl Listing for PosixListing {
    fn next(&mut self, at_most: usize) -> Result<Vec<Entry>, BackendError> {
        let mut entries = Vec::new();
        while entries.len() < at_most {
            let Some(entry) = self.stream.read() else { break };
            let entry = entry.map_err(|errno| BackendError {
                operation: "list it",
                obstacle: Obstacle::Io,
                source: Some(errno.into()),
            })?;
            let name = entry.file_name();
            if is_hidden(name) {
                continue;
            }
            // A name that is no UTF-8 cannot be said in a URL here. What is gone since, or neither file nor directory, is
            // not shown either.
            if let (Ok(text), Ok(Some(meta))) = (name.to_str(), meta_at(&self.directory, name)) {
                entries.push(Entry {
                    name: text.to_owned(),
                    meta,
                });
            }
        }
        Ok(entries)
    }
}

fn is_hidden(name: &CStr) -> bool {
    is_dots(name) || name.to_bytes().starts_with(PRIVATE_PREFIX.as_bytes())
}

fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}

/// Counts the files below a directory. Directories are walked one handle at a time per level.
pub(super) fn usage_below(directory: &OwnedFd) -> Result<Usage, Errno> {
    let mut usage = Usage::default();
    for_each(directory, &mut |name| {
        if is_hidden(name) {
            return Ok(());
        }
        match meta_at(directory, name) {
            Ok(Some(meta)) if meta.directory => {
                let below = match beneath(directory, name, OFlags::RDONLY | OFlags::DIRECTORY) {
                    Err(Errno::NOENT) => return Ok(()),
                    outcome => usage_below(&outcome?)?,
                };
                usage.bytes += below.bytes;
                usage.files += below.files;
            }
            Ok(Some(meta)) => {
                usage.bytes += meta.size;
                usage.files += 1;
            }
            Ok(None) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        Ok(())
    })?;
    Ok(usage)
}

/// How often a directory is looked through again because a writer, who had it open, put a file into it meanwhile.
const LOOKS: u32 = 16;

/// Removes a directory and all that is in it, links and special files included (never what a link points to).
pub(super) fn remove_below(parent: &OwnedFd, name: &CStr) -> Result<Usage, Errno> {
    let directory = beneath(parent, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut freed = Usage::default();
    for look in 1.. {
        empty(&directory, &mut freed)?;
        match fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) if look < LOOKS => {}
            outcome => return outcome.map(|()| freed),
        }
    }
    unreachable!("the last look returns")
}

fn empty(directory: &OwnedFd, freed: &mut Usage) -> Result<(), Errno> {
    for_each(directory, &mut |name| {
        if is_dots(name) {
            return Ok(());
        }
        let meta = meta_at(directory, name)?;
        if meta.is_some_and(|meta| meta.directory) {
            let below = remove_below(directory, name)?;
            freed.bytes += below.bytes;
            freed.files += below.files;
        } else {
            fs::unlinkat(directory, name, AtFlags::empty())?;
            freed.bytes += meta.map_or(0, |meta| meta.size);
            freed.files += u64::from(meta.is_some());
        }
        Ok(())
    })
}

/// Removes what an earlier life left in the private directory.
pub(super) fn sweep(private: &OwnedFd) -> Result<u64, Errno> {
    let mut swept = 0;
    for_each(private, &mut |name| {
        if name.to_bytes().starts_with(TEMPORARY.as_bytes()) {
            swept += 1;
            match fs::unlinkat(private, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove_below(private, name).map(drop)?,
                outcome => outcome?,
            }
        }
        Ok(())
    })?;
    Ok(swept)
}

/// Calls `each` with every name, read in full first: removing entries while reading may skip others.
fn for_each(directory: &OwnedFd, each: &mut dyn FnMut(&CStr) -> Result<(), Errno>) -> Result<(), Errno> {
    let names: Vec<CString> = Dir::read_from(directory)?
        .map(|entry| entry.map(|entry| entry.file_name().to_owned()))
        .collect::<Result<_, _>>()?;
    names.iter().try_for_each(|name| each(name))
}
