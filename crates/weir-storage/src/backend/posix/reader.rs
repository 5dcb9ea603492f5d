//! A file open for reading.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
};
use weir_http::SentFile;
use weir_units::Checksums;

use super::{
    Shared, cached, failed, meta_of,
    readers::OpenForReading,
    record::{self, Record},
};
use crate::backend::{BackendError, Creator, Meta, Reader};

/// A file counts as being read also while the kernel sends it after its reader has gone.
struct OpenFile {
    file: OwnedFd,
    _reading: OpenForReading,
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

pub(super) struct PosixReader {
    open: Arc<OpenFile>,
    meta: Meta,
    shared: Arc<Shared>,
}

impl PosixReader {
    pub(super) fn new(shared: Arc<Shared>, file: OwnedFd, meta: Meta, reading: OpenForReading) -> Self {
        let open = OpenFile {
            file,
            _reading: reading,
        };
        Self {
            open: Arc::new(open),
            meta,
            shared,
        }
    }
}

impl PosixReader {
    /// The record stored with this very content.
    fn record(&self) -> Option<Record> {
        let record = self
            .shared
            .keeps_attributes()
            .then(|| record::read(&self.open.file))
            .flatten();
        record.filter(|record| record.belongs_to(&self.meta))
    }
}

impl Reader for PosixReader {
    fn meta(&self) -> Meta {
        self.meta
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.open.file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("read it")(errno)),
            }
        }
        Ok(filled)
    }

    fn read_cached(&self, buffer: &mut [u8], offset: u64) -> usize {
        cached::read(&self.open.file, buffer, offset, self.shared.in_memory)
    }

    fn sendable(&self, part: Range<u64>) -> Option<SentFile> {
        if !cached::holds(&self.open.file, part, self.shared.in_memory) {
            return None;
        }
        self.shared.sent.store(true, Ordering::Relaxed);
        Some(self.open.clone() as SentFile)
    }

    fn checksums(&self) -> Checksums {
        self.record().map(|record| record.checksums).unwrap_or_default()
    }

    fn creator(&self) -> Option<Creator> {
        self.record()?.creator
    }

    fn keep_checksums(&self, more: &Checksums) {
        if !self.shared.keeps_attributes() {
            return;
        }
        match meta_of(&self.open.file) {
            Ok(Some(now)) if now == self.meta => {}
            _ => return,
        }
        let (mut checksums, creator) = self
            .record()
            .map(|known| (known.checksums, known.creator))
            .unwrap_or_default();
        more.iter().for_each(|checksum| checksums.insert(checksum.clone()));
        let record = Record {
            size: self.meta.size,
            modified_ns: self.meta.modified_ns,
            checksums,
            creator,
        };
        if let Err(errno) = record::write(&self.open.file, &record) {
            tracing::debug!(%errno, "could not keep checksums with a file");
        }
    }
}
