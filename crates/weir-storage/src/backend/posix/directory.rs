//! Listing a directory.

use std::ffi::CStr;

use rustix::{fd::OwnedFd, fs::Dir, io::Errno};

use super::{PRIVATE_PREFIX, failed, meta_at};
use crate::backend::{BackendError, Entry, Listing};

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
            let entry = entry.map_err(failed("list it"))?;
            let name = entry.file_name();
            if is_hidden(name) {
                continue;
            }
            // A name that is no UTF-8 cannot be said in a URL here.
            let Ok(text) = name.to_str() else { continue };
            match meta_at(&self.directory, name) {
                Ok(Some(meta)) => entries.push(Entry {
                    name: text.to_owned(),
                    meta,
                }),
                // Objects that are neither file nor directory, or gone meanwhile, are not shown either.
                Ok(None) | Err(Errno::NOENT) => {}
                // Left out, it would pass for lost.
                Err(errno) => return Err(failed("list it")(errno)),
            }
        }
        Ok(entries)
    }
}

/// Hides the endpoint's own names: they are neither shown nor counted.
pub(super) fn is_hidden(name: &CStr) -> bool {
    is_dots(name) || name.to_bytes().starts_with(PRIVATE_PREFIX.as_bytes())
}

pub(super) fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}
