//! The intent of a MOVE while objects are set aside: after a crash in the middle of it, the next start puts them back.

use std::{ffi::CString, io::Read as _, sync::Arc};

use rustix::{
    fd::OwnedFd,
    fs::{self, Mode, OFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use weir_auth::StoragePath;

use super::{Shared, beneath, meta_at, supplant::place, temporary_name};

/// Prefix of objects that are neither visible nor to be removed.
pub(super) const ASIDE: &str = ".weir-aside-";
/// Suffix of an intent's name; the part before it is the private name of the moving object.
const INTENT: &str = ".move";
/// Suffix of the private name of the object in the way, where two objects cannot be exchanged.
const OLD: &str = ".old";
/// Two paths of 4 kB, each byte of them written as six.
const LIMIT: u64 = 1 << 16;

/// A file beside the objects that are set aside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Intent {
    /// The inode of the moving object: its private name may already hold the object that it has replaced.
    pub(super) inode: u64,
    /// Inside the area.
    pub(super) from: String,
    pub(super) to: String,
}

/// The private name of the object in the way of the object with this private name.
pub(super) fn old_name(new: &str) -> String {
    format!("{new}{OLD}")
}

impl Intent {
    /// Writes it down, so that it is on the disk before anything moves.
    pub(super) fn declare(&self, shared: &Shared, new: &str) -> Result<(), Errno> {
        let name = format!("{new}{INTENT}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&shared.private, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let text = serde_json::to_vec(self).map_err(|_| Errno::INVAL)?;
        let written = write_all(&file, &text).and_then(|()| fs::fsync(&file));
        written
            .and_then(|()| fs::fsync(&shared.private))
            .inspect_err(|_| forget(shared, new))
    }

    fn read(shared: &Shared, name: &str) -> Option<Self> {
        let file = fs::openat(
            &shared.private,
            name,
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::empty(),
        );
        let mut text = Vec::new();
        std::fs::File::from(file.ok()?)
            .take(LIMIT)
            .read_to_end(&mut text)
            .ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// The move is over, one way or the other.
pub(super) fn forget(shared: &Shared, new: &str) {
    shared.discard(format!("{new}{INTENT}"));
}

/// Completes a MOVE that a crash has interrupted, by the contents of the private directory.
pub(super) fn recover(shared: &Arc<Shared>, names: &[CString]) {
    for name in names.iter().filter_map(|name| name.to_str().ok()) {
        if name.starts_with(ASIDE)
            && let Some(new) = name.strip_suffix(INTENT)
        {
            end(shared, new, Intent::read(shared, name));
        }
    }
}

fn end(shared: &Arc<Shared>, new: &str, intent: Option<Intent>) {
    let old = old_name(new);
    let there = |name: &str| meta_at(&shared.private, name).ok().flatten();
    let outcome = match (there(new), intent) {
        // Nothing was moved before the intent was whole.
        (None, None) => Ok(()),
        (Some(_), None) => Err(Errno::INVAL),
        // It was cut off before the new one had the name: both go back.
        (Some(found), Some(intent)) if found.identity == intent.inode => {
            let back = there(&old).map_or(Ok(()), |_| put_back(shared, &old, &intent.to));
            back.and_then(|()| put_back(shared, new, &intent.from))
        }
        // The new one has the name: the old one goes.
        _ => [new, &old].into_iter().try_for_each(|name| match there(name) {
            Some(_) => fs::renameat(&shared.private, name, &shared.private, temporary_name()),
            None => Ok(()),
        }),
    };
    match outcome {
        Ok(()) => forget(shared, new),
        Err(errno) => tracing::error!(
            %errno,
            name = new,
            "a MOVE was cut off, and an object that it had set aside could not be put back: it is kept in the area's .weir-private"
        ),
    }
}

fn put_back(shared: &Shared, name: &str, path: &str) -> Result<(), Errno> {
    let path = StoragePath::from_plain(&format!("/{path}")).map_err(|_| Errno::INVAL)?;
    let (parent, leaf) = path.parent().zip(path.name()).ok_or(Errno::INVAL)?;
    let parent: OwnedFd = if parent.is_root() {
        beneath(&shared.root, ".", OFlags::RDONLY | OFlags::DIRECTORY)?
    } else {
        beneath(&shared.root, parent.relative(), OFlags::RDONLY | OFlags::DIRECTORY)?
    };
    place((&shared.private, name), (&parent, leaf))?;
    tracing::warn!(path = %path, "a MOVE was cut off by the end of an earlier life: it has not happened");
    fs::fsync(&parent)?;
    fs::fsync(&shared.private)
}

fn write_all(file: &OwnedFd, mut text: &[u8]) -> Result<(), Errno> {
    while !text.is_empty() {
        match rustix::io::write(file, text) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => text = &text[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
