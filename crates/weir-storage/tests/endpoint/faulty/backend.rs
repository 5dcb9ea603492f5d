//! The trait and all that it hands out, each call of it past the plan.

use std::sync::Arc;

use bytes::Bytes;
use weir_auth::StoragePath;
use weir_storage::backend::{
    Backend, BackendError, Changed, Creator, DeferredRemoval, Directory, Draft, Effort, Emptied, Entry, Listing, Meta,
    Published, Reader, Space, Stage, Usage,
};
use weir_units::Checksums;

use super::{Call, Faults, Verdict, dead, error};

/// Another back end, behind faults.
pub(crate) struct Faulty {
    disk: Arc<dyn Backend>,
    faults: Faults,
}

impl Faulty {
    pub(crate) fn new(disk: Arc<dyn Backend>, faults: &Faults) -> Self {
        Self {
            disk,
            faults: faults.clone(),
        }
    }

    fn changed(&self, changed: Changed) -> Changed {
        changed_behind(changed, &self.faults)
    }
}

fn changed_behind(changed: Changed, faults: &Faults) -> Changed {
    let directories = changed.directories.into_iter();
    Changed {
        directories: directories
            .map(|inner| -> Box<dyn Directory> {
                Box::new(FaultyDirectory {
                    inner,
                    faults: faults.clone(),
                })
            })
            .collect(),
        removal: changed.removal.map(|inner| removal_behind(inner, faults)),
    }
}

fn removal_behind(inner: Box<dyn DeferredRemoval>, faults: &Faults) -> Box<dyn DeferredRemoval> {
    Box::new(FaultyRemoval {
        inner,
        faults: faults.clone(),
    })
}

impl Backend for Faulty {
    fn never_waits(&self) -> bool {
        self.disk.never_waits()
    }

    fn stat(&self, path: &StoragePath) -> Result<Meta, BackendError> {
        self.faults.carry_out(Call::Stat, || self.disk.stat(path))
    }

    fn list(&self, path: &StoragePath) -> Result<Box<dyn Listing>, BackendError> {
        let inner = self.faults.carry_out(Call::List, || self.disk.list(path))?;
        Ok(Box::new(FaultyListing {
            inner,
            faults: self.faults.clone(),
        }))
    }

    fn open(&self, path: &StoragePath) -> Result<Arc<dyn Reader>, BackendError> {
        let inner = self.faults.carry_out(Call::Open, || self.disk.open(path))?;
        Ok(Arc::new(FaultyReader {
            inner,
            faults: self.faults.clone(),
        }))
    }

    fn draft(&self, durable: bool) -> Result<Box<dyn Draft>, BackendError> {
        let inner = self.faults.carry_out(Call::Draft, || self.disk.draft(durable))?;
        Ok(Box::new(FaultyDraft {
            inner: Some(inner),
            faults: self.faults.clone(),
        }))
    }

    fn make_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let work = || self.disk.make_directory(path);
        Ok(self.changed(self.faults.carry_out(Call::MakeDirectory, work)?))
    }

    fn remove_file(&self, path: &StoragePath) -> Result<(Meta, Changed), BackendError> {
        let work = || self.disk.remove_file(path);
        let (meta, changed) = self.faults.carry_out(Call::RemoveFile, work)?;
        Ok((meta, self.changed(changed)))
    }

    fn remove_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let work = || self.disk.remove_directory(path);
        Ok(self.changed(self.faults.carry_out(Call::RemoveDirectory, work)?))
    }

    fn defer_removal(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let work = || self.disk.defer_removal(path);
        Ok(self.changed(self.faults.carry_out(Call::DeferRemoval, work)?))
    }

    fn supplant(&self, from: &StoragePath, to: &StoragePath) -> Result<Changed, BackendError> {
        let work = || self.disk.supplant(from, to);
        Ok(self.changed(self.faults.carry_out(Call::Supplant, work)?))
    }

    fn rename(
        &self,
        from: &StoragePath,
        to: &StoragePath,
        overwrite: bool,
    ) -> Result<(Option<Meta>, Changed), BackendError> {
        let work = || self.disk.rename(from, to, overwrite);
        let (replaced, changed) = self.faults.carry_out(Call::Rename, work)?;
        Ok((replaced, self.changed(changed)))
    }

    fn properties(&self, path: &StoragePath) -> Result<Option<String>, BackendError> {
        self.faults.carry_out(Call::Properties, || self.disk.properties(path))
    }

    fn keep_properties(&self, path: &StoragePath, text: Option<&str>) -> Result<Changed, BackendError> {
        let work = || self.disk.keep_properties(path, text);
        Ok(self.changed(self.faults.carry_out(Call::KeepProperties, work)?))
    }

    fn space(&self) -> Result<Space, BackendError> {
        self.faults.carry_out(Call::Space, || self.disk.space())
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        self.faults.carry_out(Call::Usage, || self.disk.usage())
    }

    fn height(&self, path: &StoragePath, at_most: usize) -> Result<usize, BackendError> {
        self.faults.carry_out(Call::Height, || self.disk.height(path, at_most))
    }

    fn stage(&self) -> Result<Box<dyn Stage>, BackendError> {
        let inner = self.faults.carry_out(Call::Stage, || self.disk.stage())?;
        Ok(Box::new(FaultyStage {
            inner,
            faults: self.faults.clone(),
        }))
    }

    fn sweep(&self) -> Result<Vec<Box<dyn DeferredRemoval>>, BackendError> {
        let removals = self.faults.carry_out(Call::Sweep, || self.disk.sweep())?;
        Ok(removals
            .into_iter()
            .map(|removal| removal_behind(removal, &self.faults))
            .collect())
    }
}

struct FaultyStage {
    inner: Box<dyn Stage>,
    faults: Faults,
}

impl Stage for FaultyStage {
    fn inside(&self) -> Arc<dyn Backend> {
        Arc::new(Faulty::new(self.inner.inside(), &self.faults))
    }

    fn publish(&self, from: &StoragePath, to: &StoragePath, replace: bool) -> Result<(bool, Changed), BackendError> {
        let work = || self.inner.publish(from, to, replace);
        let (replaced, changed) = self.faults.carry_out(Call::PublishStage, work)?;
        Ok((replaced, changed_behind(changed, &self.faults)))
    }

    fn give_up(self: Box<Self>) -> Box<dyn DeferredRemoval> {
        removal_behind(self.inner.give_up(), &self.faults)
    }
}

/// Knows nothing of what is in memory: every byte is read by a call that can fail.
struct FaultyReader {
    inner: Arc<dyn Reader>,
    faults: Faults,
}

impl Reader for FaultyReader {
    fn meta(&self) -> Meta {
        self.inner.meta()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError> {
        self.faults.carry_out(Call::Read, || self.inner.read_at(buffer, offset))
    }

    fn checksums(&self) -> Checksums {
        if self.faults.without_attributes() {
            return Checksums::default();
        }
        let known = self.faults.carry_out(Call::Checksums, || Ok(self.inner.checksums()));
        known.unwrap_or_default()
    }

    fn creator(&self) -> Option<Creator> {
        self.inner.creator().filter(|_| !self.faults.without_attributes())
    }

    fn keep_checksums(&self, more: &Checksums) {
        if !self.faults.without_attributes() {
            let keep = || {
                self.inner.keep_checksums(more);
                Ok(())
            };
            let _best_effort = self.faults.carry_out(Call::KeepChecksums, keep);
        }
    }
}

/// A draft of which the name is taken away unless somebody is dead.
struct FaultyDraft {
    /// None once it is published.
    inner: Option<Box<dyn Draft>>,
    faults: Faults,
}

impl FaultyDraft {
    fn inner(&self) -> &dyn Draft {
        &**self.inner.as_ref().expect("it is published once")
    }
}

impl Draft for FaultyDraft {
    fn write_at(&self, pieces: &[Bytes], offset: u64) -> Result<(), BackendError> {
        let verdict = self.faults.meet(Call::Write);
        match verdict {
            Verdict::Do | Verdict::DoneDead => self.inner().write_at(pieces, offset)?,
            Verdict::Tear(_) | Verdict::TornDead => {
                let mut half = Bytes::from(pieces.concat());
                half.truncate(half.len() / 2);
                self.inner().write_at(&[half], offset)?;
            }
            Verdict::Fail(_) | Verdict::Dead => {}
        }
        match verdict {
            Verdict::Do => Ok(()),
            Verdict::Fail(errno) | Verdict::Tear(errno) => Err(error(errno)),
            Verdict::Dead | Verdict::TornDead | Verdict::DoneDead => Err(dead()),
        }
    }

    fn reserve(&self, size: u64) -> Result<(), BackendError> {
        self.faults.carry_out(Call::Reserve, || self.inner().reserve(size))
    }

    fn keep_properties(&self, text: &str) -> Result<(), BackendError> {
        self.faults
            .carry_out(Call::KeepProperties, || self.inner().keep_properties(text))
    }

    fn seal(&mut self, checksums: &Checksums, creator: Option<Creator>, durable: bool) -> Result<(), BackendError> {
        let nothing = Checksums::default();
        let (kept, creator) = if self.faults.without_attributes() {
            (&nothing, None)
        } else {
            (checksums, creator)
        };
        let inner = self.inner.as_mut().expect("it is published once");
        self.faults.carry_out(Call::Seal, || inner.seal(kept, creator, durable))
    }

    fn publish(mut self: Box<Self>, path: &StoragePath, overwrite: bool) -> Result<Published, BackendError> {
        let faults = self.faults.clone();
        let published = faults.carry_out(Call::Publish, || {
            let inner = self.inner.take().expect("it is published once");
            inner.publish(path, overwrite)
        })?;
        Ok(Published {
            changed: changed_behind(published.changed, &faults),
            ..published
        })
    }
}

impl Drop for FaultyDraft {
    fn drop(&mut self) {
        if self.faults.stopped() {
            std::mem::forget(self.inner.take());
        }
    }
}

struct FaultyDirectory {
    inner: Box<dyn Directory>,
    faults: Faults,
}

impl Directory for FaultyDirectory {
    fn flush(&self) -> Result<(), BackendError> {
        self.faults.carry_out(Call::Flush, || self.inner.flush())
    }
}

struct FaultyRemoval {
    inner: Box<dyn DeferredRemoval>,
    faults: Faults,
}

impl DeferredRemoval for FaultyRemoval {
    fn empty(&mut self, at_most: Effort) -> Emptied {
        let outcome = self.faults.carry_out(Call::Empty, || Ok(self.inner.empty(at_most)));
        outcome.unwrap_or_else(|error| Emptied {
            freed: Usage::default(),
            effort: Effort::default(),
            outcome: Err(error),
        })
    }
}

struct FaultyListing {
    inner: Box<dyn Listing>,
    faults: Faults,
}

impl Listing for FaultyListing {
    fn next(&mut self, at_most: usize) -> Result<Vec<Entry>, BackendError> {
        self.faults.carry_out(Call::Next, || self.inner.next(at_most))
    }
}
