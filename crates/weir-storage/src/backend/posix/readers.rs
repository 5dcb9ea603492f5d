//! The files being read here: a deleted file with a reader must not be shortened.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rustix::fd::OwnedFd;

use crate::backend::{BackendError, Meta};

/// Number and length of the waits for a request that is just opening a file.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);

/// The files of an area that are open for reading, by inode.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// Requests that may have found a name and are not registered yet.
    opening: AtomicUsize,
    open: Arc<Mutex<HashMap<u64, usize>>>,
}

impl Readers {
    /// Opens a file, which counts as being read until the [`OpenForReading`] is dropped.
    pub(super) fn open(
        &self,
        open: impl FnOnce() -> Result<(OwnedFd, Meta), BackendError>,
    ) -> Result<(OwnedFd, Meta, OpenForReading), BackendError> {
        self.opening.fetch_add(1, Ordering::SeqCst);
        let _opening = Opening(&self.opening);
        let (file, meta) = open()?;
        *self.open.lock().entry(meta.identity).or_default() += 1;
        let reading = OpenForReading {
            inode: meta.identity,
            open: self.open.clone(),
        };
        Ok((file, meta, reading))
    }

    /// Whether a file without a public name may have a reader. A request that opens a file now cannot find it; an
    /// earlier one is registered once no file is being opened.
    pub(super) fn may_read(&self, inode: u64) -> bool {
        for _ in 0..LOOKS {
            if self.opening.load(Ordering::SeqCst) == 0 {
                return self.open.lock().contains_key(&inode);
            }
            std::thread::sleep(PAUSE);
        }
        true
    }
}

struct Opening<'a>(&'a AtomicUsize);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A file is open for reading.
pub(super) struct OpenForReading {
    inode: u64,
    open: Arc<Mutex<HashMap<u64, usize>>>,
}

impl Drop for OpenForReading {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.inode) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.inode);
            }
        }
    }
}
