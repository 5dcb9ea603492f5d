//! SQLite: one file, write-ahead log, one writer, several readers. A committed transaction is on disk.

mod leases;

use std::{
    fs::{File, OpenOptions, TryLockError},
    os::unix::fs::OpenOptionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;
pub use leases::Leases;

/// SQLite looks at the clock every so many steps of its machine: some tenths of a millisecond.
const STEPS_PER_LOOK: i32 = 10_000;

/// How long a copy waits for a writer.
const COPY_PATIENCE: Duration = Duration::from_secs(30);

/// Where a database is.
#[derive(Debug, Clone)]
enum BorrowedConnection {
    File(PathBuf),
    /// A URI that connections of this process share.
    #[cfg(any(test, feature = "testing"))]
    Memory(String),
}

impl BorrowedConnection {
    fn name(&self) -> &Path {
        match self {
            Self::File(path) => path,
            #[cfg(any(test, feature = "testing"))]
            Self::Memory(uri) => Path::new(uri),
        }
    }
}

/// A database that this process alone has.
pub struct Database {
    place: BorrowedConnection,
    writer: Mutex<Connection>,
    /// Held for the life of the database: no second process may work on the same rows. `None`: it is in memory.
    _lock: Option<File>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({:?})", self.place)
    }
}

/// A file that only its owner can read, made if it is missing.
fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Keeps other processes from a database, until the lock is dropped.
///
/// # Errors
/// [`StoreError::Locked`] if another process has it.
pub fn lock(path: &Path) -> Result<File, StoreError> {
    let fail = |error: std::io::Error| StoreError::Open {
        path: path.to_owned(),
        source: error.into(),
    };
    let file = private(&path.with_extension("lock")).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(fail(error)),
    }
}

/// Copies a database, which may be in use, to a new file (mode 0600) as it is at one moment, and looks the copy through.
///
/// # Errors
/// The database cannot be read, or the copy not be written whole; it is removed then.
pub fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let fail = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open {
        path: from.to_owned(),
        source,
    };
    let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let source = source.map_err(|error| fail(error.into()))?;
    source.busy_timeout(COPY_PATIENCE)?;
    let file = private(to).map_err(|error| fail(error.into()))?;
    let copied = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        source.execute("VACUUM INTO ?1", [to.to_str().ok_or("the path is no text")?])?;
        let copy = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let found = copy.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?;
        if found != "ok" {
            return Err(format!("the copy is damaged: {found}").into());
        }
        file.sync_all()?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok(File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
    };
    copied().map_err(|error| {
        let _ = std::fs::remove_file(to);
        fail(error)
    })
}

/// Whether a file is a database with a table of this name.
///
/// # Errors
/// It cannot be read as a database.
pub fn has_table(path: &Path, table: &str) -> Result<bool, StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let text = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(connection.query_row(text, [table], |row| row.get::<_, i64>(0))? > 0)
}

impl Database {
    /// Opens the database, or makes it (mode 0600), and brings it up to date. Migrations are statements, in order; the
    /// database's `user_version` counts the applied ones, so a released one must never change.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it.
    pub fn open(path: &Path, migrations: &[&str]) -> Result<Self, StoreError> {
        let fail = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open {
            path: path.to_owned(),
            source,
        };
        let file_lock = lock(path)?;
        // SQLite gives its side files the mode of the database.
        private(path).map_err(|error| fail(error.into()))?;
        let place = BorrowedConnection::File(path.to_owned());
        let mut writer = connect(&place, false).map_err(|error| fail(error.into()))?;
        migrate(&mut writer, migrations).map_err(|error| fail(error.into()))?;
        Ok(Self {
            place,
            writer: Mutex::new(writer),
            _lock: Some(file_lock),
        })
    }

    /// A database that ends with this handle and its readers, for tests. Readers see uncommitted rows.
    ///
    /// # Errors
    /// A migration fails.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_memory(migrations: &[&str]) -> Result<Self, StoreError> {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let place = BorrowedConnection::Memory(format!("file:weir-{number}?mode=memory&cache=shared"));
        let mut writer = connect(&place, false)?;
        migrate(&mut writer, migrations)?;
        Ok(Self {
            place,
            writer: Mutex::new(writer),
            _lock: None,
        })
    }

    /// Connections for reading, so many.
    ///
    /// # Errors
    /// The file cannot be opened again.
    pub fn readers(&self, count: usize) -> Result<Readers, StoreError> {
        let free = (0..count)
            .map(|_| connect(&self.place, true))
            .collect::<Result<Vec<_>, _>>();
        let free = free.map_err(|error| StoreError::Open {
            path: self.place.name().to_owned(),
            source: error.into(),
        })?;
        Ok(Readers {
            free: Mutex::new(free),
            returned: Condvar::new(),
        })
    }

    /// Runs work with the writing connection.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn write<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        work(&mut self.writer.lock())
    }
}

/// A committed transaction is on disk (`synchronous = FULL` in WAL mode syncs at every commit).
fn connect(place: &BorrowedConnection, read_only: bool) -> rusqlite::Result<Connection> {
    let flags = match place {
        BorrowedConnection::File(_) if read_only => OpenFlags::SQLITE_OPEN_READ_ONLY,
        BorrowedConnection::File(_) => OpenFlags::SQLITE_OPEN_READ_WRITE,
        // Memory has no connections for reading only.
        #[cfg(any(test, feature = "testing"))]
        BorrowedConnection::Memory(_) => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI,
    };
    let connection = Connection::open_with_flags(place.name(), flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "cache_size", if read_only { -16_000 } else { -64_000 })?;
    #[cfg(any(test, feature = "testing"))]
    if read_only && matches!(place, BorrowedConnection::Memory(_)) {
        connection.pragma_update(None, "read_uncommitted", true)?;
    }
    if !read_only {
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // 16 MB of log between checkpoints: under load each one syncs the database itself once.
        connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    }
    Ok(connection)
}

/// A few connections, handed out one at a time.
#[derive(Debug)]
pub struct Readers {
    free: Mutex<Vec<Connection>>,
    returned: Condvar,
}

impl Readers {
    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.free.lock()
    }

    /// Reads with one of the connections, as soon as one is free.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut free = self.lock();
        let connection = loop {
            match free.pop() {
                Some(connection) => break connection,
                None => self.returned.wait(&mut free),
            }
        };
        drop(free);
        // The connection is returned in every case, even after a panic.
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&connection)));
        self.lock().push(connection);
        self.returned.notify_one();
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Reads for at most this time, and then fails as [`StoreError::Unavailable`].
///
/// # Errors
/// Errors of the work.
pub fn at_most<T>(
    connection: &Connection,
    limit: Duration,
    read: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    /// Removes the time limit from the connection for its next user, even after a panic.
    struct Limited<'a>(&'a Connection);
    impl Drop for Limited<'_> {
        fn drop(&mut self) {
            self.0.progress_handler(0, None::<fn() -> bool>);
        }
    }
    let begun = Instant::now();
    connection.progress_handler(STEPS_PER_LOOK, Some(move || begun.elapsed() > limit));
    let _limited = Limited(connection);
    read()
}

/// Whether a row was found with an invalid value.
fn is_about_a_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(
        error,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    )
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DatabaseLocked, DiskFull, NotADatabase, OperationInterrupted,
            OutOfMemory, PermissionDenied, ReadOnly, SystemIoFailure,
        };
        match error.sqlite_error_code() {
            Some(
                DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure | CannotOpen | OutOfMemory | DatabaseCorrupt
                | NotADatabase | ReadOnly | PermissionDenied | OperationInterrupted,
            ) => Self::Unavailable(error.into()),
            _ if is_about_a_value(&error) => Self::Unreadable(error.to_string()),
            _ => Self::Broken(error.into()),
        }
    }
}

/// Brings a database up to date, each migration in a transaction of its own.
fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let done: usize = connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? as usize;
    for (number, migration) in migrations.iter().enumerate().skip(done) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number as i64 + 1)?;
        transaction.commit()?;
    }
    Ok(())
}
