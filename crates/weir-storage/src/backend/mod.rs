//! The back end of storage: a small trait, first implemented by a POSIX directory.
//!
//! Every method blocks and is called on the blocking pool. Paths are relative to the area. The door has already refused
//! invalid ones, but an implementation must hold the boundary itself (symbolic links, mount points, races).

mod posix;

use std::{
    fmt, io,
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use rustix::io::Errno;
use weir_auth::StoragePath;
use weir_http::SentFile;
use weir_units::Checksums;

pub use posix::{OpenRoot, PosixBackend};
pub use weir_auth::Creator;

/// Names of the whole endpoint that begin so belong to the endpoint: refused in requests, hidden in listings.
pub const PRIVATE_PREFIX: &str = ".weir-";

/// Where pieces of a file best begin and end: pages of memory and blocks of disks are no larger, but for rare ones.
pub(crate) const WRITE_ALIGNMENT: u64 = 4096;

/// Metadata of a file or directory, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// A directory.
    pub directory: bool,
    /// In bytes; 0 for a directory.
    pub size: u64,
    /// Modification time in nanoseconds since the epoch, as the file system keeps it.
    pub modified_ns: i64,
    /// When it was made, where the file system knows.
    pub created: Option<SystemTime>,
    /// A number that differs between successive files of one name.
    pub identity: u64,
}

impl Meta {
    /// The modification time; times before the epoch count as the epoch.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.modified_ns).unwrap_or(0))
    }

    /// A strong validator (RFC 9110 section 8.8.1), with its quotes: it changes when the file is replaced or written to.
    pub fn etag(&self) -> String {
        format!("\"{:x}-{:x}-{:x}\"", self.identity, self.size, self.modified_ns)
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; valid UTF-8, or it is not shown.
    pub name: String,
    /// The metadata of the entry.
    pub meta: Meta,
}

/// Room in the file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes available to the endpoint.
    pub available: u64,
    /// All there is.
    pub total: u64,
}

/// Numbers and sizes of the files in an area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of the sizes of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

/// A visible change of names, with the work that remains to be done.
#[must_use = "a power cut may still undo it, and what lost its name takes room"]
#[derive(Default)]
pub struct Changed {
    /// Directories to be flushed before the change can be called durable.
    pub directories: Vec<Box<dyn Directory>>,
    /// The object that lost its name and is not removed yet; `None` if it was removed at once.
    pub removal: Option<Box<dyn DeferredRemoval>>,
}

/// A directory whose entries changed.
pub trait Directory: Send {
    /// Waits until every change of its entries that was made before this call survives a power cut.
    fn flush(&self) -> Result<(), BackendError>;
}

/// A draft that became visible.
pub struct Published {
    /// The file as it is now.
    pub meta: Meta,
    /// The file that was replaced.
    pub replaced: Option<Meta>,
    /// The remaining work: removal of the replaced file may be deferred.
    pub changed: Changed,
}

/// A directory (or its like) that holds the files of one area.
pub trait Backend: Send + Sync + 'static {
    /// True if no call to it ever waits for a disk or a server. Then the thread that holds the bytes calls it, since a
    /// change of threads brings no gain.
    fn never_waits(&self) -> bool {
        false
    }
    /// Looks at a path.
    fn stat(&self, path: &StoragePath) -> Result<Meta, BackendError>;
    /// Opens a directory for listing. Entries come in no order; private ones, and entries that are neither file nor
    /// directory, are left out.
    fn list(&self, path: &StoragePath) -> Result<Box<dyn Listing>, BackendError>;
    /// Opens a file for reading.
    fn open(&self, path: &StoragePath) -> Result<Arc<dyn Reader>, BackendError>;
    /// As [`Self::open`], if it needs no wait; `None` if it would wait, if that is unknown, or on an error, which the
    /// waiting call reports.
    fn open_cached(&self, _path: &StoragePath) -> Option<Arc<dyn Reader>> {
        None
    }
    /// Begins a new private file. `durable`: the caller will wait until it is on the disk.
    fn draft(&self, durable: bool) -> Result<Box<dyn Draft>, BackendError>;
    /// Makes a directory in an existing parent.
    fn make_directory(&self, path: &StoragePath) -> Result<Changed, BackendError>;
    /// Removes a file; returns its metadata. Must be fast: slow removals are deferred.
    fn remove_file(&self, path: &StoragePath) -> Result<(Meta, Changed), BackendError>;
    /// Removes a directory that is empty.
    fn remove_directory(&self, path: &StoragePath) -> Result<Changed, BackendError>;
    /// Takes a file, or a directory with all that is in it, out of the name space at one instant; removal is deferred.
    fn defer_removal(&self, path: &StoragePath) -> Result<Changed, BackendError>;
    /// Renames a file or directory over an existing one, where at least one of the two is a directory. Removal of the
    /// former object is deferred; there is none if it was gone meanwhile. On an error both stay where they were.
    fn supplant(&self, from: &StoragePath, to: &StoragePath) -> Result<Changed, BackendError>;
    /// Renames a file or directory. An existing *file* is replaced if `overwrite`; returns the replaced one.
    fn rename(
        &self,
        from: &StoragePath,
        to: &StoragePath,
        overwrite: bool,
    ) -> Result<(Option<Meta>, Changed), BackendError>;
    /// The text that was kept with a file or directory by [`Self::keep_properties`]; none if there is none.
    fn properties(&self, path: &StoragePath) -> Result<Option<String>, BackendError>;
    /// Stores a text with a file or directory, in place of the former one. The text stays with the object through
    /// renames.
    fn keep_properties(&self, path: &StoragePath, text: Option<&str>) -> Result<Changed, BackendError>;
    /// Asks how much room there is.
    fn space(&self) -> Result<Space, BackendError>;
    /// Counts the files in the area. Walks all of it; unreadable parts are skipped with a warning.
    fn usage(&self) -> Result<Usage, BackendError>;
    /// How many levels of directories lie below a directory; `at_most` + 1 if there are more.
    fn height(&self, path: &StoragePath, at_most: usize) -> Result<usize, BackendError>;
    /// Begins a private place in which a tree is put together.
    fn stage(&self) -> Result<Box<dyn Stage>, BackendError>;
    /// Finds the leftovers of an earlier run: removals that free nothing which [`Backend::usage`] counts.
    fn sweep(&self) -> Result<Vec<Box<dyn DeferredRemoval>>, BackendError>;
}

/// A file open for reading. Stays the same file when its name is taken by another one.
pub trait Reader: Send + Sync + 'static {
    /// Its metadata when it was opened.
    fn meta(&self) -> Meta;
    /// Reads at `offset` until the buffer is full or the file ends; gives the number of bytes.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, BackendError>;
    /// As [`Self::read_at`], for the bytes that need no wait; 0 if that is unknown. Errors are left to the waiting
    /// call.
    fn read_cached(&self, _buffer: &mut [u8], _offset: u64) -> usize {
        0
    }
    /// The file itself, for the kernel to send this part of it; `None` if that would wait, or is unknown.
    fn sendable(&self, _part: Range<u64>) -> Option<SentFile> {
        None
    }
    /// The checksums kept with it that belong to this very content; maybe none.
    fn checksums(&self) -> Checksums;
    /// The writer of this very content; `None` if unknown.
    fn creator(&self) -> Option<Creator> {
        None
    }
    /// Keeps more checksums, if the file has not changed since it was opened. Best effort: a file without them is whole.
    fn keep_checksums(&self, more: &Checksums);
}

/// A private file. Dropping it removes it, and nothing else.
pub trait Draft: Send + Sync {
    /// Writes pieces one behind the other, beginning at `offset`. Several may write at one time, in different places.
    fn write_at(&self, pieces: &[Bytes], offset: u64) -> Result<(), BackendError>;
    /// Sets room aside on the disk for a file of so many bytes, as far as the file system can do that beforehand.
    fn reserve(&self, size: u64) -> Result<(), BackendError> {
        let _ = size;
        Ok(())
    }
    /// As [`Backend::keep_properties`]; before the end of the writing.
    fn keep_properties(&self, text: &str) -> Result<(), BackendError>;
    /// Ends the writing: keeps checksums and creator with the content and, if it must be `durable`, waits for the disk.
    fn seal(&mut self, checksums: &Checksums, creator: Option<Creator>, durable: bool) -> Result<(), BackendError>;
    /// Makes it visible at `path`, with missing parents, at one instant. A file is replaced only if `overwrite`.
    fn publish(self: Box<Self>, path: &StoragePath, overwrite: bool) -> Result<Published, BackendError>;
}

/// A place in which a tree is put together before it becomes visible as a whole. It is to be given up at the end, also when that was
/// done; dropping it leaves it to the next sweep.
pub trait Stage: Send + Sync {
    /// The back end of its content. Paths are relative to it.
    fn inside(&self) -> Arc<dyn Backend>;
    /// Gives a file or directory in it a name in the area, atomically. An object of that name may be replaced, and its
    /// removal is deferred. Returns whether one was.
    fn publish(&self, from: &StoragePath, to: &StoragePath, replace: bool) -> Result<(bool, Changed), BackendError>;
    /// The rest of its content, to be removed. Its files are counted as part of the area.
    fn give_up(self: Box<Self>) -> Box<dyn DeferredRemoval>;
}

/// Something that has no name any more and waits to be removed. Dropping it leaves it to the next sweep.
pub trait DeferredRemoval: Send {
    /// Removes about so much of it.
    fn empty(&mut self, at_most: Effort) -> Emptied;
}

/// The disk operations of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Names removed.
    pub entries: u64,
    /// Bytes given back to the file system. Holes in a file are none.
    pub bytes: u64,
}

/// How far a removal has come.
#[derive(Debug)]
pub struct Emptied {
    /// The removed files, also if an error came after them.
    pub freed: Usage,
    /// The cost of the removal, including uncounted objects.
    pub effort: Effort,
    /// Whether nothing is left.
    pub outcome: Result<bool, BackendError>,
}

/// A directory being listed.
pub trait Listing: Send {
    /// The next entries, at most about `at_most`; none when there are no more.
    fn next(&mut self, at_most: usize) -> Result<Vec<Entry>, BackendError>;
}

/// A failed back-end operation. Without the path, which the caller has under its public name.
#[derive(Debug)]
pub struct BackendError {
    /// The operation: `open it`.
    pub operation: &'static str,
    /// The kind of failure.
    pub obstacle: Obstacle,
    /// The system's error.
    pub source: Option<io::Error>,
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.operation, self.obstacle)
    }
}

impl std::error::Error for BackendError {
    /// Where the obstacle is a kind of its own, the system's words would say it twice.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_ref().filter(|_| self.obstacle == Obstacle::Io)?;
        Some(source)
    }
}

impl BackendError {
    /// An error without a cause in the system.
    pub fn new(operation: &'static str, obstacle: Obstacle) -> Self {
        Self {
            operation,
            obstacle,
            source: None,
        }
    }

    /// Makes one from the system's error, which determines the kind of failure: for every back end on a file system.
    pub fn system(operation: &'static str, source: io::Error) -> Self {
        Self {
            operation,
            obstacle: Errno::from_io_error(&source).map_or(Obstacle::Io, Obstacle::of),
            source: Some(source),
        }
    }

    /// For lookups and removals: a path below a file does not exist, like a path below nothing.
    #[must_use]
    pub fn looking(mut self) -> Self {
        if matches!(self.obstacle, Obstacle::File | Obstacle::Parent) {
            self.obstacle = Obstacle::Missing;
        }
        self
    }
}

/// The kind of failure of an operation, in the door's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing has that name.
    Missing,
    /// Something has that name already.
    Exists,
    /// A name on the way is a file, or the parent is missing.
    Parent,
    /// It is a directory, where a file is needed.
    Directory,
    /// It is a file, where a directory is needed.
    File,
    /// The directory is not empty.
    NotEmpty,
    /// A symbolic link, another file system's magic, or something that is neither file nor directory.
    Unsafe,
    /// A directory cannot be moved into itself.
    IntoItself,
    /// A name is longer than the file system takes.
    NameTooLong,
    /// The file system is full, or the user's quota in it.
    NoSpace,
    /// The file is larger than the file system takes.
    TooLarge,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The endpoint's user may not do this in the file system.
    Permission,
    /// The file system keeps no extended attributes.
    NoAttributes,
    /// The back end has too much to do: a later attempt may succeed.
    Busy,
    /// Anything else: the disk's own trouble.
    Io,
}

impl Obstacle {
    fn of(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::EXIST => Self::Exists,
            Errno::NOTDIR => Self::File,
            Errno::ISDIR => Self::Directory,
            Errno::NOTEMPTY => Self::NotEmpty,
            Errno::LOOP | Errno::XDEV | Errno::NXIO => Self::Unsafe,
            Errno::NAMETOOLONG => Self::NameTooLong,
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            Errno::FBIG | Errno::OVERFLOW => Self::TooLarge,
            Errno::ROFS => Self::ReadOnly,
            Errno::ACCESS | Errno::PERM => Self::Permission,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no such file or directory",
            Self::Exists => "it exists",
            Self::Parent => "its parent is missing or is no directory",
            Self::Directory => "it is a directory",
            Self::File => "it is not a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::Unsafe => "it is neither a plain file nor a directory, or a symbolic link leads to it",
            Self::IntoItself => "a directory cannot go into itself",
            Self::NameTooLong => "a name is too long for the file system",
            Self::NoSpace => "no space left",
            Self::TooLarge => "the file system takes no file of that size",
            Self::ReadOnly => "the file system is read-only",
            Self::Permission => "the file system denies it to the endpoint's user",
            Self::NoAttributes => "the file system keeps no extended attributes",
            Self::Busy => "it has too much to do",
            Self::Io => "input/output error",
        })
    }
}
