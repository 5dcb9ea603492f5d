//! Copies of a catalogue's SQLite database, made while it serves. A database on PostgreSQL is copied with its own tools.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use weir_store::{StoreError, sqlite};

/// Why a copy is not made, or not taken.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is a file already.
    #[error("{path} exists")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not the database of a catalogue.
    #[error("{path} is no database of a catalogue")]
    NoCatalog {
        /// The file.
        path: PathBuf,
        /// The database's answer.
        source: Option<Box<StoreError>>,
    },
    /// A process has the database.
    #[error("a process serves {path}")]
    Served {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("could not use {path}")]
    Access {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The copy was not made.
    #[error("could not copy {path}")]
    Copy {
        /// The file.
        path: PathBuf,
        /// The database's answer.
        source: Box<StoreError>,
    },
}

/// The table that tells a catalogue's database from others.
const TABLE: &str = "rse_protocols";

/// Copies a database to a new file (mode 0600), as it is at one moment, and looks the copy through. Gives its size in bytes.
///
/// # Errors
/// [`BackupError`]; no file is left then.
pub fn save(store: &Path, copy: &Path) -> Result<u64, BackupError> {
    if copy.exists() {
        return Err(BackupError::Exists { path: copy.to_owned() });
    }
    look(store)?;
    let failed = |source| BackupError::Copy {
        path: store.to_owned(),
        source: Box::new(source),
    };
    sqlite::copy(store, copy).map_err(failed)?;
    size(copy)
}

/// Puts a copy in place of a database that no process has. A database that is there is kept as `STORE.before` if it may be replaced.
///
/// # Errors
/// [`BackupError`]; the database is as it was then.
pub fn restore(copy: &Path, store: &Path, replace: bool) -> Result<u64, BackupError> {
    look(copy)?;
    let failed = |source| BackupError::Copy {
        path: copy.to_owned(),
        source: Box::new(source),
    };
    let _lock = match sqlite::lock(store) {
        Ok(lock) => lock,
        Err(StoreError::Locked { path }) => return Err(BackupError::Served { path }),
        Err(error) => return Err(failed(error)),
    };
    if store.exists() && !replace {
        return Err(BackupError::Exists { path: store.to_owned() });
    }
    // First the whole copy, beside the database: a crash leaves one of the two.
    let fresh = beside(store, "new");
    remove(&fresh)?;
    sqlite::copy(copy, &fresh).map_err(failed)?;
    if store.exists() {
        let before = beside(store, "before");
        remove(&before)?;
        // With what its log holds.
        sqlite::copy(store, &before).map_err(failed)?;
    }
    for log in ["-wal", "-shm"] {
        remove(&PathBuf::from(format!("{}{log}", store.display())))?;
    }
    fs::rename(&fresh, store).map_err(|source| access(store, source))?;
    size(store)
}

fn beside(store: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}.{suffix}", store.display()))
}

fn access(path: &Path, source: io::Error) -> BackupError {
    BackupError::Access {
        path: path.to_owned(),
        source,
    }
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(access(path, error)),
        _ => Ok(()),
    }
}

fn size(path: &Path) -> Result<u64, BackupError> {
    fs::metadata(path)
        .map(|about| about.len())
        .map_err(|source| access(path, source))
}

/// Refuses a file that is no database of a catalogue.
fn look(path: &Path) -> Result<(), BackupError> {
    fs::metadata(path).map_err(|source| access(path, source))?;
    let no_catalog = |source| BackupError::NoCatalog {
        path: path.to_owned(),
        source,
    };
    match sqlite::has_table(path, TABLE) {
        Ok(true) => Ok(()),
        Ok(false) => Err(no_catalog(None)),
        Err(error) => Err(no_catalog(Some(Box::new(error)))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::{
        database::{Database, Session, values},
        schema::MIGRATIONS,
    };

    fn noting(value: &'static str) -> impl Fn(&mut dyn Session) -> Result<u64, StoreError> + Send + 'static {
        move |session| {
            let text = "INSERT INTO about (key, value) VALUES ('note', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            session.execute(text, &values![value])
        }
    }

    async fn noted(database: &Database) -> String {
        let read = |session: &mut dyn Session| {
            let row = session.row("SELECT value FROM about WHERE key = 'note'", &[])?;
            Ok(row.unwrap().text(0)?.to_owned())
        };
        database.read(read).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_brings_back_the_moment_when_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let (store, copy) = (folder.path().join("c.db"), folder.path().join("copy"));
        let database = Database::open_file(&store, MIGRATIONS).unwrap();
        database.write(noting("one")).await.unwrap();
        // While it is open.
        assert!(save(&store, &copy).unwrap() > 0);
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(save(&store, &copy), Err(BackupError::Exists { .. })));
        database.write(noting("two")).await.unwrap();
        assert!(matches!(restore(&copy, &store, true), Err(BackupError::Served { .. })));
        drop(database);
        // The thread that writes ends a moment later.
        let restored = (0..100).find_map(|_| match restore(&copy, &store, false) {
            Err(BackupError::Served { .. }) => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                None
            }
            other => Some(other),
        });
        assert!(matches!(restored, Some(Err(BackupError::Exists { .. }))));
        restore(&copy, &store, true).unwrap();
        let database = Database::open_file(&store, MIGRATIONS).unwrap();
        assert_eq!(noted(&database).await, "one");
        let before = Database::open_file(&folder.path().join("c.db.before"), MIGRATIONS).unwrap();
        assert_eq!(noted(&before).await, "two");
        fs::write(folder.path().join("x"), "no database").unwrap();
        assert!(matches!(
            restore(&folder.path().join("x"), &store, true),
            Err(BackupError::NoCatalog { .. })
        ));
    }
}
