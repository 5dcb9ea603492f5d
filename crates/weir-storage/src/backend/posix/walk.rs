//! Walking trees of any depth with few open directories: a closed one is reopened from the root.

use std::ffi::{CStr, CString};

use rustix::{
    fd::OwnedFd,
    fs::{Dir, FileType, OFlags},
    io::Errno,
};

use super::{
    beneath,
    directory::{is_dots, is_hidden},
    meta_at,
};
use crate::backend::Usage;

/// The longest path that is opened at once: `PATH_MAX` with its NUL is 4096.
const STEP: usize = 4000;

/// Directories held open at a time.
const OPEN: usize = 32;

/// The counted files, and the unreadable directories.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) usage: Usage,
    /// Directories and files that could not be looked at, and why the first could not.
    pub(super) passed_over: u64,
    pub(super) trouble: Option<Errno>,
}

/// Counts the files below a directory. Unreadable directories (as another user's `lost+found`) are skipped.
pub(super) fn usage_below(root: &OwnedFd) -> Result<Counted, Errno> {
    let mut counted = Counted::default();
    let top = count(root, &mut counted)?;
    descend(root, top, |directory, _| {
        match directory.and_then(|directory| count(directory, &mut counted)) {
            Ok(inner) => Some(inner),
            Err(errno) => {
                counted.pass_over(errno);
                Some(Vec::new())
            }
        }
    });
    Ok(counted)
}

impl Counted {
    fn pass_over(&mut self, errno: Errno) {
        // A directory that is gone needs no counting.
        if errno != Errno::NOENT {
            self.passed_over += 1;
            self.trouble.get_or_insert(errno);
        }
    }
}

/// Counts the files right in a directory; gives its directories.
fn count(directory: &OwnedFd, counted: &mut Counted) -> Result<Vec<CString>, Errno> {
    let mut inner = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_hidden(name) {
            continue;
        }
        match meta_at(directory, name) {
            Ok(Some(meta)) if meta.directory => inner.push(name.to_owned()),
            Ok(Some(meta)) => {
                counted.usage.bytes += meta.size;
                counted.usage.files += 1;
            }
            Ok(None) => {}
            Err(errno) => counted.pass_over(errno),
        }
    }
    Ok(inner)
}

/// How many levels of directories lie below a directory; `at_most` + 1 if there are more.
pub(super) fn height_below(root: &OwnedFd, at_most: usize) -> Result<usize, Errno> {
    let top = directories(root)?;
    let mut height = usize::from(!top.is_empty());
    descend(root, top, |directory, depth| {
        let inner = directory.and_then(directories).unwrap_or_default();
        height = height.max(depth + usize::from(!inner.is_empty()));
        (height <= at_most).then_some(inner)
    });
    Ok(height.min(at_most + 1))
}

fn directories(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut inner = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_directory = match entry.file_type() {
            FileType::Unknown => meta_at(directory, name)?.is_some_and(|meta| meta.directory),
            kind => kind == FileType::Directory,
        };
        if is_directory && !is_dots(name) {
            inner.push(name.to_owned());
        }
    }
    Ok(inner)
}

/// A directory on the way down: its handle, while it is one of the deepest, and those in it that are still to be visited.
struct Level {
    directory: Option<OwnedFd>,
    left: Vec<CString>,
}

/// Visits the directories below `root`, whose own are `top`, depth first, with their depth (1 for those of `top`).
/// `visit` returns the subdirectories of the visited one, or `None` to end the walk.
fn descend(
    root: &OwnedFd,
    top: Vec<CString>,
    mut visit: impl FnMut(Result<&OwnedFd, Errno>, usize) -> Option<Vec<CString>>,
) {
    let mut here: Vec<CString> = Vec::new();
    let mut levels = vec![Level {
        directory: None,
        left: top,
    }];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            levels.pop();
            here.pop();
            continue;
        };
        let directory = level.open(root, &here, &name);
        here.push(name);
        let Some(left) = visit(directory.as_ref().map_err(|errno| *errno), here.len()) else {
            return;
        };
        levels.push(Level {
            directory: directory.ok(),
            left,
        });
        if let Some(far) = levels.len().checked_sub(OPEN) {
            levels[far].directory = None;
        }
    }
}

impl Level {
    /// Opens one of the level's directories; the level itself, whose path is `here`, is opened again if it has been closed.
    fn open(&mut self, root: &OwnedFd, here: &[CString], name: &CStr) -> Result<OwnedFd, Errno> {
        let directory = match &self.directory {
            Some(directory) => directory,
            None => self.directory.insert(open_below(root, here)?),
        };
        beneath(directory, name, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

/// Opens a directory whose path may be longer than the kernel takes at once.
fn open_below(root: &OwnedFd, names: &[CString]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut reached = beneath(root, ".", flags)?;
    let mut path: Vec<u8> = Vec::new();
    for name in names.iter().map(CString::as_c_str).map(CStr::to_bytes) {
        if path.len() + name.len() > STEP {
            reached = beneath(&reached, path.as_slice(), flags)?;
            path.clear();
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    if path.is_empty() {
        return Ok(reached);
    }
    beneath(&reached, path.as_slice(), flags)
}
