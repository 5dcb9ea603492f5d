//! Renaming over an object where a plain rename fails because one of them is a directory.
//!
//! Neither may be lost, whatever fails in the middle: until the new one has the name, both have a name that nothing
//! removes. A file written meanwhile into either directory stays or goes with it.

use std::sync::Arc;

use parking_lot::Mutex;
use rustix::{
    fd::OwnedFd,
    fs::{self, RenameFlags},
    io::Errno,
};
use uuid::Uuid;
use weir_auth::StoragePath;

use super::{
    Place, Shared, failed,
    intent::{self, ASIDE, Intent},
    meta_at,
    removal::{self, PosixRemoval},
    rename_over, unsafe_kind,
};
use crate::backend::BackendError;

/// Renames `from` to `to`. Removal of the object of that name is deferred; `None` if it was gone by itself. Both paths
/// are for the recovery after a crash.
pub(super) fn supplant(
    shared: &Arc<Shared>,
    from: Place<'_>,
    to: Place<'_>,
    paths: [&StoragePath; 2],
) -> Result<Option<PosixRemoval>, BackendError> {
    let new = format!("{ASIDE}{}", Uuid::new_v4().simple());
    let found = meta_at(from.0, from.1).map_err(failed("move it"))?;
    let [source, target] = paths.map(|path| path.relative().to_owned());
    let intent = Intent {
        inode: found.ok_or_else(unsafe_kind)?.identity,
        from: source,
        to: target,
    };
    intent.declare(shared, &new).map_err(failed("move it"))?;
    // First out of its old name: a file that is put there from now on is none of this.
    if let Err(errno) = fs::renameat(from.0, from.1, &shared.private, &new) {
        intent::forget(shared, &new);
        return Err(failed("move it")(errno));
    }
    let old = intent::old_name(&new);
    // The setting aside is on the disk before the object has its new name.
    let swapped = fs::fsync(&shared.private).and_then(|()| swap((&shared.private, &new), (&shared.private, &old), to));
    match swapped {
        Ok(Swapped::Nothing) => {
            conclude(shared, new, from, to);
            Ok(None)
        }
        Ok(Swapped::With(old)) => {
            let deferred = removal::defer(shared, (&shared.private, &old));
            conclude(shared, new, from, to);
            // The new one has the name already: under whichever name, the old one goes.
            Ok(Some(deferred.unwrap_or_else(|_| removal::deferred(shared, old))))
        }
        Err(errno) => {
            // Objects that could not be put back are put back at the next start.
            if put_back((&shared.private, &new), from) {
                intent::forget(shared, &new);
            }
            Err(failed("move it there")(errno))
        }
    }
}

/// Moves that have happened and could not be flushed: their intents stay until they are.
#[derive(Debug, Default)]
pub(super) struct Unconcluded(Mutex<Vec<PendingMove>>);

/// The directories of a move, and the private name in its intent.
#[derive(Debug)]
struct PendingMove {
    /// In the order in which they are flushed: the target's first, for the name must be somewhere.
    directories: [OwnedFd; 2],
    new: String,
}

impl PendingMove {
    /// Forgets the intent once the move is on the disk. Until then a power cut may bring back any part of it, and the intent must be
    /// there to end it.
    fn conclude(&self, shared: &Shared) -> Result<(), Errno> {
        let [target, source] = &self.directories;
        for directory in [target, &shared.private, source] {
            fs::fsync(directory)?;
        }
        intent::forget(shared, &self.new);
        Ok(())
    }
}

fn conclude(shared: &Shared, new: String, from: Place<'_>, to: Place<'_>) {
    let (Ok(target), Ok(source)) = (to.0.try_clone(), from.0.try_clone()) else {
        // The next start ends it.
        return;
    };
    let ended = PendingMove {
        directories: [target, source],
        new,
    };
    if let Err(errno) = ended.conclude(shared) {
        tracing::warn!(%errno, "a MOVE could not be made durable; that is tried again with the next file");
        shared.unconcluded.0.lock().push(ended);
    }
}

impl Unconcluded {
    /// Tries those again that could not be flushed.
    pub(super) fn again(shared: &Shared) {
        let mut moves = std::mem::take(&mut *shared.unconcluded.0.lock());
        moves.retain(|one| one.conclude(shared).is_err());
        shared.unconcluded.0.lock().append(&mut moves);
    }
}

enum Swapped {
    /// There was nothing any more.
    Nothing,
    /// The former object has this private name now.
    With(String),
}

fn swap(new: Place<'_>, old: Place<'_>, to: Place<'_>) -> Result<Swapped, Errno> {
    match fs::renameat_with(new.0, new.1, to.0, to.1, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(Swapped::With(new.1.to_owned())),
        Err(Errno::NOENT) => return place(new, to).map(|()| Swapped::Nothing),
        // Some network file systems cannot exchange.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno),
    }
    fs::renameat(to.0, to.1, old.0, old.1)?;
    match place(new, to) {
        Ok(()) => Ok(Swapped::With(old.1.to_owned())),
        Err(errno) => {
            put_back(old, to);
            Err(errno)
        }
    }
}

/// Renames onto a name that nothing has.
pub(super) fn place(from: Place<'_>, to: Place<'_>) -> Result<(), Errno> {
    match rename_over(from, to, false) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::renameat(from.0, from.1, to.0, to.1),
        outcome => outcome.map(drop),
    }
}

/// Whether that went well.
fn put_back(aside: Place<'_>, name: Place<'_>) -> bool {
    let outcome = place(aside, name);
    if let Err(errno) = outcome {
        tracing::error!(
            %errno,
            kept = aside.1,
            name = name.1,
            "a MOVE failed, and an object that it had set aside could not be put back: it is kept in the area's .weir-private"
        );
    }
    outcome.is_ok()
}
