//! The stage: a tree that is put together in the private directory, and becomes visible as a whole.
//!
//! It is a back end of its own, whose root is a directory with a private name. After a crash the next sweep removes
//! that directory with its contents: a tree that is not visible yet, or the object that it has replaced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use rustix::{
    fs::{self, Mode, OFlags, RenameFlags},
    io::Errno,
};
use weir_auth::StoragePath;

use super::{
    Place, PosixBackend, Readers, Shared, Unconcluded, Unflushed, beneath, failed,
    removal::{self, PosixRemoval},
    supplant::place,
    temporary_name,
    unflushed::{PosixDirectory, changed},
};
use crate::backend::{Backend, BackendError, Changed, DeferredRemoval, Obstacle, Stage};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

pub(super) struct PosixStage {
    /// The area's.
    shared: Arc<Shared>,
    /// The back end of its content.
    inside: Arc<PosixBackend>,
    /// Its private name.
    name: String,
}

impl PosixStage {
    pub(super) fn new(shared: &Arc<Shared>) -> Result<Self, BackendError> {
        let name = temporary_name();
        fs::mkdirat(&shared.private, &name, Mode::RWXU).map_err(failed("make a temporary directory"))?;
        let inside = inside(shared, &name).map_err(failed("open a temporary directory"))?;
        Ok(Self {
            shared: shared.clone(),
            inside: Arc::new(PosixBackend {
                shared: Arc::new(inside),
            }),
            name,
        })
    }
}

/// The same file system with another root.
fn inside(shared: &Shared, name: &str) -> Result<Shared, Errno> {
    let again = |handle: &rustix::fd::OwnedFd| handle.try_clone().map_err(|_| Errno::MFILE);
    Ok(Shared {
        root: beneath(&shared.private, name, DIRECTORY)?,
        private: again(&shared.private)?,
        lock: again(&shared.lock)?,
        attributes: AtomicBool::new(shared.attributes.load(Ordering::Relaxed)),
        readers: Readers::default(),
        sent: AtomicBool::new(false),
        in_memory: shared.in_memory,
        at_hand: shared.at_hand,
        resisting: Mutex::default(),
        unflushed: Unflushed::default(),
        unconcluded: Unconcluded::default(),
    })
}

impl Stage for PosixStage {
    fn inside(&self) -> Arc<dyn Backend> {
        self.inside.clone()
    }

    fn publish(&self, from: &StoragePath, to: &StoragePath, replace: bool) -> Result<(bool, Changed), BackendError> {
        let (source, name) = self.inside.shared.parent(from, "copy it")?;
        let (target, leaf) = self.shared.parent(to, "copy it there")?;
        let above = self.shared.above(to, "copy it there")?;
        let old = appear(&self.shared, (&source, name), (&target, leaf), replace)?;
        let (replaced, removal) = match old {
            Old::Nothing => (false, None),
            Old::Deferred(removal) => (true, Some(removal)),
        };
        // The target's first: its name must be somewhere.
        let directories = [
            PosixDirectory::new(&self.shared, target, None),
            PosixDirectory::new(&self.shared, source, None),
        ];
        Ok((replaced, changed(above.into_iter().chain(directories), removal)))
    }

    fn give_up(self: Box<Self>) -> Box<dyn DeferredRemoval> {
        Box::new(removal::deferred(&self.shared, self.name))
    }
}

/// The object that had the name before.
enum Old {
    Nothing,
    Deferred(PosixRemoval),
}

fn appear(shared: &Arc<Shared>, from: Place<'_>, to: Place<'_>, replace: bool) -> Result<Old, BackendError> {
    // The object may go during the look, and come again.
    for _ in 0..16 {
        match place(from, to) {
            Ok(()) => return Ok(Old::Nothing),
            Err(Errno::EXIST) if replace => {}
            Err(errno) => return Err(failed("copy it there")(errno)),
        }
        match fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::EXCHANGE) {
            Ok(()) => {
                // It is visible: if the old one cannot be deferred, it goes with the stage.
                let deferred = removal::defer(shared, from);
                return Ok(deferred.map_or(Old::Nothing, Old::Deferred));
            }
            Err(Errno::NOENT) => {}
            // Some network file systems cannot exchange names, and no other way keeps one of the two in every case.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let operation = "put it in the place of what is there, on a file system that cannot exchange names (delete that first)";
                return Err(BackendError::new(operation, Obstacle::Exists));
            }
            Err(errno) => return Err(failed("copy it there")(errno)),
        }
    }
    Err(failed("copy it there")(Errno::AGAIN))
}
