//! A directory of a POSIX file system, local or clustered.
//!
//! Layout: files lie under the root by their own names. `ROOT/.weir-private/` holds drafts (`.weir-tmp-…`) and the lock
//! that keeps a second endpoint out, on the same file system, so that a rename is atomic. Deleted objects whose removal
//! takes long wait there too.
//!
//! Every path goes through `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`: no component
//! may be a symbolic link, and no race with a rename can lead outside the root.

mod cached;
mod direct;
mod directory;
mod draft;
mod intent;
mod reader;
mod readers;
mod record;
mod removal;
mod stage;
mod supplant;
mod unflushed;
mod walk;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags},
    io::Errno,
    path::Arg,
};
use uuid::Uuid;
use weir_auth::{StoragePath, files::durable_folder};

use super::{
    Backend, BackendError, Changed, DeferredRemoval, Draft, Listing, Meta, Obstacle, PRIVATE_PREFIX, Reader, Space,
    Stage, Usage,
};
use directory::PosixListing;
use draft::PosixDraft;
use reader::PosixReader;
use readers::Readers;
use removal::PosixRemoval;
use stage::PosixStage;
use supplant::Unconcluded;
use unflushed::{PosixDirectory, Unflushed, above, changed, changed_both};

/// The private directory's name inside the root.
const PRIVATE_DIRECTORY: &str = ".weir-private";
/// Prefix of drafts, and of objects that are being removed.
const TEMPORARY: &str = ".weir-tmp-";

/// A file that takes more on the disk goes behind the answer: to free 4 MiB takes less than a millisecond, even where
/// blocks are discarded at once. 100 MB take some 5 ms, on a busy disk more.
const LARGE: u64 = 4 << 20;

/// Without NONBLOCK, opening a FIFO would wait for its writer. Plain files do not know the flag.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Files under one root directory.
#[derive(Debug)]
pub struct PosixBackend {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: OwnedFd,
    private: OwnedFd,
    /// Held for the backend's life; the kernel lets go of it when the process dies.
    lock: OwnedFd,
    /// Whether the file system keeps extended attributes; told apart once, warned about once.
    attributes: AtomicBool,
    readers: Readers,
    /// Whether the kernel ever sent the file by itself. Its pages lie in sockets until the other side has read them,
    /// long after the file was closed here, and must not change until then (sendfile(2)).
    sent: AtomicBool,
    /// Whether there is no disk behind it.
    in_memory: bool,
    /// Whether the attributes of an open file are read without a wait: the system has them in memory.
    at_hand: bool,
    /// Private names that could not be removed. They are tried again with the next draft; the rest is removed at the
    /// next start.
    resisting: Mutex<Vec<String>>,
    unflushed: Unflushed,
    unconcluded: Unconcluded,
}

/// A root directory that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("could not {operation} {path}")]
pub struct OpenRoot {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl OpenRoot {
    /// A path with which something could not be done.
    pub(crate) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}

impl PosixBackend {
    /// Opens a root directory, making it if it is missing, and locks it against a second endpoint. The directories that
    /// it makes are on the disk when this returns.
    ///
    /// # Errors
    /// The directory cannot be made or opened, another endpoint holds it, or the kernel lacks `openat2` (Linux 5.6).
    pub fn open(root: &Path) -> Result<Self, OpenRoot> {
        let failed = |operation| {
            let path = root.to_owned();
            move |errno: Errno| OpenRoot {
                operation,
                path,
                source: errno.into(),
            }
        };
        durable_folder(root).map_err(|source| OpenRoot::new("make directory", root, source))?;
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::open(root, directory, Mode::empty()).map_err(failed("open"))?;
        match fs::mkdirat(&handle, PRIVATE_DIRECTORY, Mode::RWXU) {
            Ok(()) => fs::fsync(&handle).map_err(failed("make durable"))?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make the private directory of")(errno)),
        }
        let private =
            beneath(&handle, PRIVATE_DIRECTORY, directory).map_err(failed("open the private directory of"))?;
        let lock = fs::openat(
            &private,
            "lock",
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(failed("open the lock of"))?;
        fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(failed("lock, another endpoint may be serving it:"))?;
        let attributes = record::probe(&lock);
        if !attributes {
            tracing::warn!(root = %root.display(), "the file system keeps no extended attributes: checksums will not outlive a request");
        }
        let shared = Shared {
            in_memory: cached::in_memory(&handle),
            at_hand: cached::at_hand(&handle),
            root: handle,
            private,
            lock,
            attributes: AtomicBool::new(attributes),
            readers: Readers::default(),
            sent: AtomicBool::new(false),
            resisting: Mutex::default(),
            unflushed: Unflushed::default(),
            unconcluded: Unconcluded::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

impl Backend for PosixBackend {
    fn never_waits(&self) -> bool {
        self.shared.in_memory
    }

    fn stat(&self, path: &StoragePath) -> Result<Meta, BackendError> {
        let found = self.shared.find(path, OFlags::PATH).map_err(failed("look at it"))?;
        meta_of(&found).map_err(failed("look at it"))?.ok_or_else(unsafe_kind)
    }

    fn list(&self, path: &StoragePath) -> Result<Box<dyn Listing>, BackendError> {
        let directory = self
            .shared
            .find(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(failed("list it"))?;
        Ok(Box::new(PosixListing::new(directory).map_err(failed("list it"))?))
    }

    fn open(&self, path: &StoragePath) -> Result<Arc<dyn Reader>, BackendError> {
        self.shared.open_file(|| self.shared.find(path, READING))
    }

    fn open_cached(&self, path: &StoragePath) -> Option<Arc<dyn Reader>> {
        if !self.shared.at_hand {
            return None;
        }
        self.shared.open_file(|| self.shared.find_cached(path, READING)).ok()
    }

    fn draft(&self, durable: bool) -> Result<Box<dyn Draft>, BackendError> {
        Ok(Box::new(PosixDraft::new(self.shared.clone(), durable)?))
    }

    fn make_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let (parent, name) = self.shared.parent(path, "make the directory")?;
        let mut touched = self.shared.above(path, "make the directory")?;
        let made = self.shared.unflushed.make(&parent, name);
        let made = made.map_err(failed("make the directory"))?;
        touched.push(PosixDirectory::new(&self.shared, parent, Some(made)));
        Ok(changed(touched, None))
    }

    fn remove_file(&self, path: &StoragePath) -> Result<(Meta, Changed), BackendError> {
        let (parent, name) = self.shared.parent(path, "remove it")?;
        let found = weigh(&parent, name)
            .map_err(failed("remove it"))?
            .ok_or_else(unsafe_kind)?;
        let removal = if found.takes_long_to_remove() {
            // Some boundaries cannot be crossed by a rename, such as those of quota projects or mounts.
            removal::defer(&self.shared, (&parent, name)).ok()
        } else {
            None
        };
        if removal.is_none() {
            fs::unlinkat(&parent, name, AtFlags::empty()).map_err(failed("remove it"))?;
        }
        Ok((found.meta, self.shared.changed(parent, removal)))
    }

    fn remove_directory(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let (parent, name) = self.shared.parent(path, "remove it")?;
        fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).map_err(failed("remove it"))?;
        Ok(self.shared.changed(parent, None))
    }

    fn defer_removal(&self, path: &StoragePath) -> Result<Changed, BackendError> {
        let (parent, name) = self.shared.parent(path, "remove it")?;
        let removal = removal::defer(&self.shared, (&parent, name)).map_err(failed("remove it"))?;
        Ok(self.shared.changed(parent, Some(removal)))
    }

    fn supplant(&self, from: &StoragePath, to: &StoragePath) -> Result<Changed, BackendError> {
        let (source, old_name) = self.shared.parent(from, "move it")?;
        let (target, new_name) = self.shared.parent(to, "move it there")?;
        let above = self.shared.above(to, "move it there")?;
        let removal = supplant::supplant(&self.shared, (&source, old_name), (&target, new_name), [from, to])?;
        Ok(changed_both(&self.shared, above, [source, target], removal))
    }

    fn rename(
        &self,
        from: &StoragePath,
        to: &StoragePath,
        overwrite: bool,
    ) -> Result<(Option<Meta>, Changed), BackendError> {
        let (source, old_name) = self.shared.parent(from, "move it")?;
        let (target, new_name) = self.shared.parent(to, "move it there")?;
        let meta = meta_at(&source, old_name)
            .map_err(failed("move it"))?
            .ok_or_else(unsafe_kind)?;
        let above = self.shared.above(to, "move it there")?;
        if overwrite {
            self.shared.flush_data(&source, old_name).map_err(failed("move it"))?;
        }
        let outcome = replace(&self.shared, (&source, old_name), (&target, new_name), overwrite);
        let (replaced, removal) = outcome.map_err(|errno| match errno {
            // The kernel's word for a directory that would become its own child.
            Errno::INVAL if meta.directory => BackendError::new("move it", Obstacle::IntoItself),
            errno => failed("move it there")(errno),
        })?;
        Ok((replaced, changed_both(&self.shared, above, [source, target], removal)))
    }

    fn properties(&self, path: &StoragePath) -> Result<Option<String>, BackendError> {
        let found = self.shared.find(path, READING).map_err(failed("read its properties"))?;
        record::properties(&found).map_err(failed("read its properties"))
    }

    fn keep_properties(&self, path: &StoragePath, text: Option<&str>) -> Result<Changed, BackendError> {
        let found = self.shared.find(path, READING).map_err(failed("keep its properties"))?;
        meta_of(&found)
            .map_err(failed("keep its properties"))?
            .ok_or_else(unsafe_kind)?;
        record::keep_properties(&found, text).map_err(unkept)?;
        Ok(self.shared.changed(found, None))
    }

    fn space(&self) -> Result<Space, BackendError> {
        let found = fs::fstatvfs(&self.shared.root).map_err(failed("measure the file system"))?;
        Ok(Space {
            available: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }

    fn usage(&self) -> Result<Usage, BackendError> {
        let counted = walk::usage_below(&self.shared.root).map_err(failed("count the area"))?;
        if let Some(errno) = counted.trouble {
            tracing::warn!(
                passed_over = counted.passed_over,
                %errno,
                "parts of the area could not be looked at, and are not counted"
            );
        }
        Ok(counted.usage)
    }

    fn height(&self, path: &StoragePath, at_most: usize) -> Result<usize, BackendError> {
        let directory = self
            .shared
            .find(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(failed("measure it"))?;
        walk::height_below(&directory, at_most).map_err(failed("measure it"))
    }

    fn stage(&self) -> Result<Box<dyn Stage>, BackendError> {
        Ok(Box::new(PosixStage::new(&self.shared)?))
    }

    fn sweep(&self) -> Result<Vec<Box<dyn DeferredRemoval>>, BackendError> {
        removal::sweep(&self.shared).map_err(failed("sweep the area"))
    }
}

impl Shared {
    /// Opens the object at a path, beneath the root, without following any link.
    fn find(&self, path: &StoragePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        if path.is_root() {
            return beneath(&self.root, ".", flags);
        }
        beneath(&self.root, path.relative(), flags)
    }

    /// The same, if the system has all names on the way in memory (`RESOLVE_CACHED`, Linux 5.12).
    fn find_cached(&self, path: &StoragePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let name = path.relative();
        let resolve = BENEATH | ResolveFlags::CACHED;
        fs::openat2(&self.root, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
    }

    /// A file that is opened so, to be read.
    fn open_file(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<Arc<dyn Reader>, BackendError> {
        let (file, meta, reading) = self.readers.open(|| {
            let file = open().map_err(failed("open it"))?;
            let meta = meta_of(&file).map_err(failed("open it"))?.ok_or_else(unsafe_kind)?;
            Ok((file, meta))
        })?;
        if meta.directory {
            return Err(BackendError::new("open it", Obstacle::Directory));
        }
        Ok(Arc::new(PosixReader::new(self.clone(), file, meta, reading)))
    }

    /// The directory that holds a path, which must exist, and the path's own name.
    fn parent<'a>(&self, path: &'a StoragePath, operation: &'static str) -> Result<(OwnedFd, &'a str), BackendError> {
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else {
            return Err(BackendError::new(operation, Obstacle::Permission));
        };
        let handle = self
            .find(&parent, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR => error(operation, Obstacle::Parent, errno),
                errno => failed(operation)(errno),
            })?;
        Ok((handle, name))
    }

    /// The directories above a path's own one that must be flushed with it.
    fn above(
        self: &Arc<Self>,
        path: &StoragePath,
        operation: &'static str,
    ) -> Result<Vec<PosixDirectory>, BackendError> {
        above(self, &path.parent().unwrap_or_else(StoragePath::root), operation)
    }

    fn changed(self: &Arc<Self>, directory: OwnedFd, removal: Option<PosixRemoval>) -> Changed {
        changed([PosixDirectory::new(self, directory, None)], removal)
    }

    /// Writes the content of a file that is about to replace another one to the disk: else a power cut could leave neither.
    fn flush_data(&self, directory: &OwnedFd, name: &str) -> Result<(), Errno> {
        if self.in_memory {
            return Ok(());
        }
        let flags = READING | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::fdatasync(fs::openat(directory, name, flags, Mode::empty())?)
    }

    /// Removes a private name, and names whose removal failed before.
    fn discard(&self, name: String) {
        self.resisting.lock().push(name);
        self.discard_resisting();
    }

    /// Retries removals that failed before.
    fn discard_again(&self) {
        Unconcluded::again(self);
        self.discard_resisting();
    }

    fn discard_resisting(&self) {
        let mut names = std::mem::take(&mut *self.resisting.lock());
        names.retain(|name| match fs::unlinkat(&self.private, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => false,
            Err(errno) => {
                tracing::warn!(%errno, name, "could not remove a temporary file; it is tried again with the next file");
                true
            }
        });
        self.resisting.lock().append(&mut names);
    }

    fn keeps_attributes(&self) -> bool {
        self.attributes.load(Ordering::Relaxed)
    }

    /// A part of the file system, or the server behind it, turns out to keep none: no reason to refuse files.
    fn give_up_attributes(&self) {
        if self.attributes.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                "the file system keeps no extended attributes any more: checksums will not outlive a request"
            );
        }
    }
}

/// Flags that keep a path inside its root.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// `openat2` with these flags.
fn beneath<P: Arg + Copy>(root: &impl AsFd, path: P, flags: OFlags) -> Result<OwnedFd, Errno> {
    // EAGAIN: a rename raced with the look-up of a path; the kernel asks to try again.
    for _ in 0..16 {
        match fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), BENEATH) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return outcome,
        }
    }
    Err(Errno::AGAIN)
}

/// The object that lost its name, and its removal if that is deferred.
type Replaced = (Option<Meta>, Option<PosixRemoval>);

/// A directory, and a name in it.
type Place<'a> = (&'a OwnedFd, &'a str);

/// Renames, and returns the replaced object. A slow removal is deferred: a second name keeps the object from being
/// removed within the rename.
fn replace(shared: &Arc<Shared>, from: Place<'_>, to: Place<'_>, overwrite: bool) -> Result<Replaced, Errno> {
    let removal = overwrite.then(|| removal::second_name(shared, to)).flatten();
    match (rename_over(from, to, overwrite), removal) {
        (Err(errno), Some(removal)) => {
            removal.let_go();
            Err(errno)
        }
        (outcome, removal) => Ok((outcome?, removal)),
    }
}

/// Renames, and returns the replaced object. Only a plain file is ever replaced.
fn rename_over(from: Place<'_>, to: Place<'_>, overwrite: bool) -> Result<Option<Meta>, Errno> {
    if !overwrite {
        return match fs::renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
            // Some network file systems do not support the flag: a hard link fails on an existing name as well. A
            // directory cannot have one; for it EINVAL is final.
            Err(errno @ (Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
                match fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty()) {
                    Err(Errno::PERM) => Err(errno),
                    Err(other) => Err(other),
                    Ok(()) => fs::unlinkat(from.0, from.1, AtFlags::empty())
                        // On an error it has its old name, and no other.
                        .or_else(|errno| fs::unlinkat(to.0, to.1, AtFlags::empty()).and(Err(errno)))
                        .map(|()| None),
                }
            }
            outcome => outcome.map(|()| None),
        };
    }
    let replaced = match meta_at(to.0, to.1) {
        Ok(Some(meta)) => Some(meta),
        Ok(None) => return Err(Errno::LOOP),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno),
    };
    fs::renameat(from.0, from.1, to.0, to.1)?;
    Ok(replaced)
}

/// Metadata; `None` for objects that are neither file nor directory.
fn meta_of(file: &OwnedFd) -> Result<Option<Meta>, Errno> {
    let nothing = StatxFlags::empty();
    Ok(look(file.as_fd(), "", AtFlags::EMPTY_PATH, nothing)?.map(|found| found.meta))
}

fn meta_at<P: Arg>(directory: &OwnedFd, name: P) -> Result<Option<Meta>, Errno> {
    let nothing = StatxFlags::empty();
    Ok(look(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, nothing)?.map(|found| found.meta))
}

/// As [`meta_of`], with the cost of a removal.
fn weigh<P: Arg>(directory: &OwnedFd, name: P) -> Result<Option<Found>, Errno> {
    let more = StatxFlags::BLOCKS | StatxFlags::NLINK;
    look(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW, more)
}

/// A file or directory as the file system has it.
struct Found {
    meta: Meta,
    /// Bytes that it takes on the disk; only if asked for.
    allocated: u64,
    /// Names that it has; only if asked for.
    links: u32,
}

impl Found {
    fn takes_long_to_remove(&self) -> bool {
        !self.meta.directory && self.allocated > LARGE
    }
}

/// Metadata; `None` for objects that are neither file nor directory.
fn look<P: Arg>(file: BorrowedFd<'_>, name: P, flags: AtFlags, more: StatxFlags) -> Result<Option<Found>, Errno> {
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::INO | StatxFlags::BTIME;
    let found = fs::statx(file, name, flags, wanted | more)?;
    let directory = match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::Directory => true,
        FileType::RegularFile => false,
        _ => return Ok(None),
    };
    let born = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let created = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(found.stx_btime.tv_sec).unwrap_or(0));
    let meta = Meta {
        directory,
        size: if directory { 0 } else { found.stx_size },
        modified_ns: found
            .stx_mtime
            .tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(found.stx_mtime.tv_nsec.into()),
        created: born.then_some(created),
        identity: found.stx_ino,
    };
    Ok(Some(Found {
        meta,
        allocated: found.stx_blocks.saturating_mul(512),
        links: found.stx_nlink,
    }))
}

fn directory_mode() -> Mode {
    Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH
}

fn temporary_name() -> String {
    format!("{TEMPORARY}{}", Uuid::new_v4().simple())
}

fn unsafe_kind() -> BackendError {
    BackendError::new("open it", Obstacle::Unsafe)
}

/// The failure of an operation on properties: the system's errors for extended attributes differ in meaning from those
/// for files.
fn unkept(errno: Errno) -> BackendError {
    let obstacle = match errno {
        Errno::OPNOTSUPP => Obstacle::NoAttributes,
        Errno::TOOBIG | Errno::RANGE => Obstacle::NoSpace,
        errno => return failed("keep its properties")(errno),
    };
    error("keep its properties", obstacle, errno)
}

/// The kind of failure, from the system's error number.
fn failed(operation: &'static str) -> impl FnOnce(Errno) -> BackendError {
    move |errno| BackendError::system(operation, errno.into())
}

fn error(operation: &'static str, obstacle: Obstacle, errno: Errno) -> BackendError {
    BackendError {
        operation,
        obstacle,
        source: Some(errno.into()),
    }
}
