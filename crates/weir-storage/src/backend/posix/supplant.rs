//! One thing takes another's name, where a plain rename cannot do it because a directory is among them.
//!
//! Neither may be lost, whatever fails in the middle: until the new one has the name, both have a name that nothing
//! removes. A file written meanwhile into either directory stays or goes with it.

use std::sync::Arc;

use rustix::{
    fs::{self, RenameFlags},
    io::Errno,
};
use uuid::Uuid;
use weir_auth::StoragePath;

use super::{
    Place, Shared, failed,
    grave::{self, PosixGrave},
    intent::{self, ASIDE, Intent},
    meta_at, rename_over, unsafe_kind,
};
use crate::backend::BackendError;

/// Gives `from` the name `to`. What had that name goes to its grave; none if it was gone by itself. Their paths are for who must end
/// this after a crash.
pub(super) fn supplant(
    shared: &Arc<Shared>,
    from: Place<'_>,
    to: Place<'_>,
    paths: [&StoragePath; 2],
) -> Result<Option<PosixGrave>, BackendError> {
    let new = format!("{ASIDE}{}", Uuid::new_v4().simple());
    let found = meta_at(from.0, from.1).map_err(failed("move it"))?;
    let [source, target] = paths.map(|path| path.components().join("/"));
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
    let swapped = swap((&shared.private, &new), (&shared.private, &old), to);
    match swapped {
        Ok(Swapped::Nothing) => {
            intent::forget(shared, &new);
            Ok(None)
        }
        Ok(Swapped::With(old)) => {
            let buried = grave::bury(shared, (&shared.private, &old));
            intent::forget(shared, &new);
            // The new one has the name already: under whichever name, the old one goes.
            Ok(Some(buried.unwrap_or_else(|_| grave::grave(shared, old))))
        }
        Err(errno) => {
            // What could not be put back is put back at the next start.
            if put_back((&shared.private, &new), from) {
                intent::forget(shared, &new);
            }
            Err(failed("move it there")(errno))
        }
    }
}

enum Swapped {
    /// There was nothing any more.
    Nothing,
    /// What was there has this private name now.
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
            "a MOVE failed, and what it had set aside could not be put back: it is kept in the area's .weir-private"
        );
    }
    outcome.is_ok()
}
