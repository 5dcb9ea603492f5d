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

use super::{
    Place, Shared, failed,
    grave::{self, PosixGrave},
    rename_over,
};
use crate::backend::BackendError;

/// Names of what is neither visible nor to be removed.
pub(super) const ASIDE: &str = ".weir-aside-";

/// Gives `from` the name `to`. What had that name goes to its grave; none if it was gone by itself.
pub(super) fn supplant(
    shared: &Arc<Shared>,
    from: Place<'_>,
    to: Place<'_>,
) -> Result<Option<PosixGrave>, BackendError> {
    let (new, old) = (aside(), aside());
    // First out of its old name: a file that is put there from now on is none of this.
    fs::renameat(from.0, from.1, &shared.private, &new).map_err(failed("move it"))?;
    match swap((&shared.private, &new), (&shared.private, &old), to) {
        Ok(Swapped::Nothing) => Ok(None),
        Ok(Swapped::With(old)) => {
            let buried = grave::bury(shared, (&shared.private, &old));
            Ok(Some(buried.map_err(failed("remove what was there"))?))
        }
        Err(errno) => {
            put_back((&shared.private, &new), from);
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
fn place(from: Place<'_>, to: Place<'_>) -> Result<(), Errno> {
    match rename_over(from, to, false) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => fs::renameat(from.0, from.1, to.0, to.1),
        outcome => outcome.map(drop),
    }
}

fn put_back(aside: Place<'_>, name: Place<'_>) {
    if let Err(errno) = place(aside, name) {
        tracing::error!(
            %errno,
            kept = aside.1,
            name = name.1,
            "a MOVE failed, and what it had set aside could not be put back: it is kept in the area's .weir-private"
        );
    }
}

fn aside() -> String {
    format!("{ASIDE}{}", Uuid::new_v4().simple())
}
