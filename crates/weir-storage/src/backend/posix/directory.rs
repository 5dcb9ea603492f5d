//! Listing a directory.

use std::ffi::CStr;

use rustix::{fd::OwnedFd, fs::Dir, io::Errno};

use super::{PRIVATE_PREFIX, meta_at};
use crate::backend::{BackendError, Entry, Listing, Obstacle};

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

/// What belongs to the endpoint is neither shown nor counted.
pub(super) fn is_hidden(name: &CStr) -> bool {
    is_dots(name) || name.to_bytes().starts_with(PRIVATE_PREFIX.as_bytes())
}

pub(super) fn is_dots(name: &CStr) -> bool {
    name == c"." || name == c".."
}
