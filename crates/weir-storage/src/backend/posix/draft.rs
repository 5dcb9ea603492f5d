//! A private file until its rename.

use std::{io::IoSlice, sync::Arc};

use bytes::Bytes;
use rustix::{
    fd::OwnedFd,
    fs::{self, AtFlags, FallocateFlags, Mode, OFlags, RenameFlags},
    io::Errno,
};
use weir_auth::StoragePath;
use weir_units::Checksums;

use super::{
    Place, Replaced, Shared,
    direct::Direct,
    failed, meta_of,
    record::{self, Record},
    removal, rename_over, replace, temporary_name,
    unflushed::{PosixDirectory, changed, make_all},
    unkept, weigh,
};
use crate::backend::{BackendError, Creator, Draft, Meta, Obstacle, Published};

/// The most pieces that one system call takes (`IOV_MAX`).
const PIECES_PER_CALL: usize = 1024;

/// How often a file's parents are made again when others remove them.
const TRIES: u32 = 100;

pub(super) struct PosixDraft {
    shared: Arc<Shared>,
    file: OwnedFd,
    /// Past the page cache, where that pays.
    direct: Option<Direct>,
    /// Whether the file must survive a power cut once the request is answered.
    durable: bool,
    /// Whether its content is on the disk.
    flushed: bool,
    /// The private name; none once it has become visible. Only this name is ever removed.
    name: Option<String>,
    /// Its metadata when it was sealed: nothing is written after that.
    sealed: Option<Meta>,
}

impl PosixDraft {
    pub(super) fn new(shared: Arc<Shared>, durable: bool) -> Result<Self, BackendError> {
        shared.discard_again();
        let name = temporary_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let file = fs::openat(&shared.private, &name, flags, mode).map_err(failed("make a temporary file"))?;
        let direct = durable.then(|| Direct::open(&shared.private, &name)).flatten();
        Ok(Self {
            shared,
            file,
            direct,
            durable,
            flushed: false,
            name: Some(name),
            sealed: None,
        })
    }

    fn meta(&self) -> Result<Meta, BackendError> {
        let meta = meta_of(&self.file).map_err(failed("look at a temporary file"))?;
        Ok(meta.expect("a draft is a plain file"))
    }

    /// Renames a draft to its public name, and returns exactly the file that it replaced. A look before the rename
    /// could see a file that another request removes, and counts as removed, in between.
    fn appear(&self, name: &str, to: Place<'_>, overwrite: bool) -> Result<Replaced, Errno> {
        let shared = &self.shared;
        let draft = (&shared.private, name);
        match rename_over(draft, to, false) {
            Err(Errno::EXIST) if overwrite => {}
            outcome => return outcome.map(|replaced| (replaced, None)),
        }
        match weigh(to.0, to.1)? {
            None => return Err(Errno::LOOP),
            Some(found) if found.meta.directory => return Err(Errno::ISDIR),
            Some(_) => {}
        }
        if !self.flushed && !shared.in_memory {
            // Some file systems flush a file that a plain rename puts in the place of another one. After an exchange
            // they do not: a power cut could leave an empty file, and the old one gone.
            fs::fdatasync(&self.file)?;
        }
        let exchange = || fs::renameat_with(draft.0, draft.1, to.0, to.1, RenameFlags::EXCHANGE);
        match exchange() {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return replace(shared, draft, to, true),
            outcome => outcome?,
        }
        // From here on the file is visible: an error with the old one must not fail the request, nor leave something
        // else behind.
        match weigh(draft.0, draft.1) {
            Ok(Some(old)) if old.takes_long_to_remove() => {
                Ok((Some(old.meta), Some(removal::deferred(shared, name.to_owned()))))
            }
            Ok(Some(old)) if !old.meta.directory => {
                let removed = fs::unlinkat(draft.0, draft.1, AtFlags::empty());
                // A failed removal is deferred, like a slow one.
                let removal = removed.is_err().then(|| removal::deferred(shared, name.to_owned()));
                Ok((Some(old.meta), removal))
            }
            Ok(_) => exchange().and(Err(Errno::ISDIR)),
            Err(errno) => exchange().and(Err(errno)),
        }
    }
}

impl Draft for PosixDraft {
    fn write_at(&self, pieces: &[Bytes], offset: u64) -> Result<(), BackendError> {
        debug_assert!(self.sealed.is_none(), "nothing is written to a draft that is sealed");
        let direct = self
            .direct
            .as_ref()
            .map_or(Ok(0), |direct| direct.write(pieces, offset));
        let mut skip = direct.map_err(failed("write it"))?;
        let mut at = offset + skip as u64;
        for group in pieces.chunks(PIECES_PER_CALL) {
            let mut slices: Vec<IoSlice<'_>> = group.iter().map(|piece| IoSlice::new(piece)).collect();
            let mut rest = slices.as_mut_slice();
            let here = skip.min(group.iter().map(Bytes::len).sum());
            skip -= here;
            IoSlice::advance_slices(&mut rest, here);
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.file, rest, at) {
                    Ok(0) => return Err(failed("write it")(Errno::IO)),
                    Ok(written) => {
                        at += written as u64;
                        IoSlice::advance_slices(&mut rest, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(failed("write it")(errno)),
                }
            }
        }
        Ok(())
    }

    fn reserve(&self, size: u64) -> Result<(), BackendError> {
        if self.shared.in_memory {
            // Preallocation would write zeros, which are overwritten at once, and finds no better place on a disk. A
            // lack of space, beside another file in progress, shows when the file is written.
            return Ok(());
        }
        match fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, size) {
            // Not every file system can.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(errno) => Err(failed("set room aside")(errno)),
        }
    }

    fn keep_properties(&self, text: &str) -> Result<(), BackendError> {
        record::keep_properties(&self.file, Some(text)).map_err(unkept)
    }

    fn seal(&mut self, checksums: &Checksums, creator: Option<Creator>, durable: bool) -> Result<(), BackendError> {
        if self.shared.keeps_attributes() && (!checksums.is_empty() || creator.is_some()) {
            let meta = self.meta()?;
            self.sealed = Some(meta);
            let record = Record {
                size: meta.size,
                modified_ns: meta.modified_ns,
                checksums: checksums.clone(),
                creator,
            };
            match record::write(&self.file, &record) {
                Err(Errno::OPNOTSUPP) => self.shared.give_up_attributes(),
                outcome => outcome.map_err(failed("keep its checksums"))?,
            }
        }
        if durable {
            fs::fsync(&self.file).map_err(failed("make it durable"))?;
            self.flushed = true;
        }
        Ok(())
    }

    fn publish(mut self: Box<Self>, path: &StoragePath, overwrite: bool) -> Result<Published, BackendError> {
        let leaf = path
            .name()
            .ok_or_else(|| BackendError::new("write it", Obstacle::Directory))?;
        let meta = self.sealed.map_or_else(|| self.meta(), Ok)?;
        let name = self.name.clone().expect("a draft is published once");
        let parent = path.parent().unwrap_or_else(StoragePath::root);
        let mut touched = Vec::new();
        let mut tries = 1..=TRIES;
        let (directory, replaced, removal) = loop {
            let made = make_all(&self.shared, &parent, self.durable, &mut touched);
            let published = made.and_then(|directory| {
                let outcome = self.appear(&name, (&directory, leaf), overwrite);
                let (replaced, removal) = outcome.map_err(failed("write it"))?;
                Ok((directory, replaced, removal))
            });
            match published {
                // A tree that is being removed took a parent along: once more.
                Err(error) if error.obstacle == Obstacle::Missing && tries.next().is_some() => {}
                outcome => break outcome?,
            }
        };
        self.name = None;
        touched.push(PosixDirectory::new(&self.shared, directory, None));
        Ok(Published {
            meta,
            replaced,
            changed: changed(touched, removal),
        })
    }
}

impl Drop for PosixDraft {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.shared.discard(name);
        }
    }
}
