//! The back end of a storage around that of its directory, as its [`Disk`] has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use weir_auth::StoragePath;
use weir_network::relay::Bucket;
use weir_storage::backend::{
    Backend, BackendError, Changed, Creator, DeferredRemoval, Draft, Listing, Meta, Obstacle, OpenRoot, Published,
    Reader, Space, Stage, Usage,
};
use weir_storage::{AreaConfig, Directories, OpenArea};
use weir_units::Checksums;

use super::{Active, Disk, READ, WRITE};

/// Opens directories behind a [`Disk`].
#[derive(Debug)]
pub(crate) struct Behind(pub(crate) Arc<Disk>);

impl OpenArea for Behind {
    fn open(&self, area: &AreaConfig) -> Result<Arc<dyn Backend>, OpenRoot> {
        let inner = Directories.open(area)?;
        // The storage itself reports that its files cannot be counted.
        self.0
            .used
            .store(inner.usage().map_or(0, |usage| usage.bytes), Ordering::Relaxed);
        Ok(Arc::new(SlowBackend {
            inner,
            disk: self.0.clone(),
        }))
    }
}

struct SlowBackend {
    inner: Arc<dyn Backend>,
    disk: Arc<Disk>,
}

impl SlowBackend {
    fn reader(&self, inner: Arc<dyn Reader>, active: Active, is_changed: bool) -> Arc<dyn Reader> {
        Arc::new(SlowReader {
            inner,
            is_changed,
            own: Bucket::new(u64::MAX),
            _active: active,
            disk: self.disk.clone(),
        })
    }

    /// Loses the files whose time has come. Every look at the storage begins with it.
    fn lose(&self) {
        while let Some(path) = self.disk.doomed() {
            if let Ok((gone, _changed)) = self.inner.remove_file(&path) {
                self.disk.free(gone.size);
                self.disk.gone.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Backend for SlowBackend {
    fn stat(&self, path: &StoragePath) -> Result<Meta, BackendError> {
        self.lose();
        self.inner.stat(path)
    }

    fn list(&self, path: &StoragePath) -> Result<Box<dyn Listing>, BackendError> {
        self.lose();
        self.inner.list(path)
    }

    fn open(&self, path: &StoragePath) -> Result<Arc<dyn Reader>, BackendError> {
        self.lose();
        let is_changed = self.disk.may_fail("open it", READ)? || self.disk.is_corrupt(path);
        let active = Active::begin(&self.disk, READ);
        self.inner
            .open(path)
            .map(|reader| self.reader(reader, active, is_changed))
    }

    fn open_cached(&self, path: &StoragePath) -> Option<Arc<dyn Reader>> {
        // The call that may wait loses files, fails, and changes them.
        if self.disk.has_doomed() || self.disk.now.read().failing[READ].is_some() || self.disk.is_corrupt(path) {
            return None;
        }
        // A file that has to wait for a place is opened by the call that may wait.
        let active = Active::at_once(&self.disk, READ)?;
        self.inner
            .open_cached(path)
            .map(|reader| self.reader(reader, active, false))
    }

    fn draft(&self, durable: bool) -> Result<Box<dyn Draft>, BackendError> {
        self.disk.may_fail("make it", WRITE)?;
        Ok(Box::new(SlowDraft {
            inner: self.inner.draft(durable)?,
            backend: self.inner.clone(),
            written: AtomicU64::new(0),
            own: Bucket::new(u64::MAX),
            _active: Active::begin(&self.disk, WRITE),
            disk: self.disk.clone(),
        }))
    }

    fn make_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        self.inner.make_directory(path)
    }

    fn remove_file(&self, path: &StoragePath) -> Result<(Meta, Changed), BackendError> {
        self.disk.delete();
        let removed = self.inner.remove_file(path)?;
        self.disk.mend(path);
        self.disk.free(removed.0.size);
        Ok(removed)
    }

    fn remove_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        self.inner.remove_directory(path)
    }

    fn defer_removal(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        self.disk.delete();
        let size = self.inner.stat(path).map_or(0, |meta| meta.size);
        let removed = self.inner.defer_removal(path)?;
        self.disk.mend(path);
        self.disk.free(size);
        Ok(removed)
    }

    fn supplant(&self, from: &StoragePath, to: &StoragePath) -> Result<Changed, BackendError> {
        self.inner.supplant(from, to)
    }

    fn rename(
        &self,
        from: &StoragePath,
        to: &StoragePath,
        overwrite: bool,
    ) -> Result<(Option<Meta>, Changed), BackendError> {
        self.inner.rename(from, to, overwrite)
    }

    fn properties(&self, path: &StoragePath) -> Result<Option<String>, BackendError> {
        self.inner.properties(path)
    }

    fn keep_properties(&self, path: &StoragePath, text: Option<&str>) -> Result<Changed, BackendError> {
        self.inner.keep_properties(path, text)
    }

    fn space(&self) -> Result<Space, BackendError> {
        self.inner.space()
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        self.inner.usage()
    }

    fn height(&self, path: &StoragePath, at_most: usize) -> Result<usize, BackendError> {
        self.inner.height(path, at_most)
    }

    fn stage(&self) -> Result<Box<dyn Stage>, BackendError> {
        self.inner.stage()
    }

    fn sweep(&self) -> Result<Vec<Box<dyn DeferredRemoval>>, BackendError> {
        self.inner.sweep()
    }
}

struct SlowReader {
    inner: Arc<dyn Reader>,
    /// Whether its first byte is another one.
    is_changed: bool,
    own: Bucket,
    _active: Active,
    disk: Arc<Disk>,
}

impl SlowReader {
    /// Whether its bytes go as they are, without a wait.
    fn reads_at_once(&self) -> bool {
        !self.is_changed && self.disk.reads_at_once()
    }
}

impl Reader for SlowReader {
    fn meta(&self) -> Meta {
        self.inner.meta()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        let read = self.inner.read_at(buffer, offset)?;
        if let (true, 0, Some(first)) = (self.is_changed, offset, buffer.first_mut()) {
            *first ^= 1;
        }
        self.disk.pace(read, READ, &self.own);
        Ok(read)
    }

    // Bytes that have to wait are read by the call that may wait.
    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> usize {
        if self.reads_at_once() {
            self.inner.read_cached(buffer, offset)
        } else {
            0
        }
    }

    fn sendable(&self, part: std::ops::Range<u64>) -> Option<weir_http::SentFile> {
        self.reads_at_once().then(|| self.inner.sendable(part)).flatten()
    }

    fn checksums(&self) -> Checksums {
        self.inner.checksums()
    }

    fn creator(&self) -> Option<Creator> {
        self.inner.creator()
    }

    fn keep_checksums(&self, more: &Checksums) {
        self.inner.keep_checksums(more);
    }
}

struct SlowDraft {
    inner: Box<dyn Draft>,
    backend: Arc<dyn Backend>,
    written: AtomicU64,
    own: Bucket,
    _active: Active,
    disk: Arc<Disk>,
}

impl Draft for SlowDraft {
    fn write_at(&self, pieces: &[Bytes], offset: u64) -> Result<(), BackendError> {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let written = self.written.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if !self.disk.has_room(written) {
            return Err(BackendError::new("write it", Obstacle::NoSpace));
        }
        self.inner.write_at(pieces, offset)?;
        self.disk.pace(bytes, WRITE, &self.own);
        Ok(())
    }

    fn reserve(&self, size: u64) -> Result<(), BackendError> {
        if !self.disk.has_room(size) {
            return Err(BackendError::new("make room for it", Obstacle::NoSpace));
        }
        self.inner.reserve(size)
    }

    fn keep_properties(&self, text: &str) -> Result<(), BackendError> {
        self.inner.keep_properties(text)
    }

    fn seal(&mut self, checksums: &Checksums, creator: Option<Creator>, durable: bool) -> Result<(), BackendError> {
        let time = self.disk.now.read().close;
        self.disk.wait(time);
        self.inner.seal(checksums, creator, durable)
    }

    fn publish(self: Box<Self>, path: &StoragePath, overwrite: bool) -> Result<Published, BackendError> {
        let Self {
            inner, backend, disk, ..
        } = *self;
        disk.make_way();
        let published = inner.publish(path, overwrite)?;
        if disk.now.read().reads_back {
            disk.read_back(&*backend.open(path)?)?;
        }
        disk.keep(published.meta.size, published.replaced.map_or(0, |meta| meta.size));
        disk.may_corrupt(path);
        disk.may_lose(path);
        Ok(published)
    }
}
