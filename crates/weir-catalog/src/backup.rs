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

/// Puts a copy in place of a database that no process has. A database that is there, even a damaged one, is kept as `STORE.before` with its
/// logs if it may be replaced.
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
    // First the whole copy, beside the database: from here on files are renamed only, and none is lost in a crash.
    let fresh = beside(store, ".new");
    remove(&fresh)?;
    sqlite::copy(copy, &fresh).map_err(failed)?;
    set_aside(store)?;
    fs::rename(&fresh, store).map_err(|source| access(store, source))?;
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| access(folder, source))?;
    size(store)
}

/// Renames a database and its logs. Logs without a database are left from a crash between the two renames.
fn set_aside(store: &Path) -> Result<(), BackupError> {
    const PARTS: [&str; 3] = ["", "-wal", "-shm"];
    let before = beside(store, ".before");
    if store.exists() {
        for part in PARTS {
            remove(&beside(&before, part))?;
        }
    }
    for part in PARTS {
        let from = beside(store, part);
        match fs::rename(&from, beside(&before, part)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(access(&from, error)),
            _ => {}
        }
    }
    Ok(())
}

fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(suffix);
    path.into()
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

    use weir_database::{Database, Session, values};

    use super::*;
    use crate::schema::MIGRATIONS;

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

    /// A damaged database is the reason for most restores.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_damaged_database_is_replaced_and_kept_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let database = Database::open_file(&at("good.db"), MIGRATIONS).unwrap();
        database.write(noting("one")).await.unwrap();
        save(&at("good.db"), &at("copy")).unwrap();
        fs::write(at("c.db"), "torn").unwrap();
        fs::write(at("c.db-wal"), "log").unwrap();
        restore(&at("copy"), &at("c.db"), true).unwrap();
        assert_eq!(fs::read_to_string(at("c.db.before")).unwrap(), "torn");
        assert_eq!(fs::read_to_string(at("c.db.before-wal")).unwrap(), "log");
        let restored = Database::open_file(&at("c.db"), MIGRATIONS).unwrap();
        assert_eq!(noted(&restored).await, "one");
    }

    /// A crash after the database was renamed, and before its log was.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_restore_that_was_cut_short_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let database = Database::open_file(&at("good.db"), MIGRATIONS).unwrap();
        database.write(noting("one")).await.unwrap();
        save(&at("good.db"), &at("copy")).unwrap();
        fs::write(at("c.db.before"), "old").unwrap();
        fs::write(at("c.db-wal"), "log of old").unwrap();
        restore(&at("copy"), &at("c.db"), false).unwrap();
        assert_eq!(fs::read_to_string(at("c.db.before")).unwrap(), "old");
        assert_eq!(fs::read_to_string(at("c.db.before-wal")).unwrap(), "log of old");
        let restored = Database::open_file(&at("c.db"), MIGRATIONS).unwrap();
        assert_eq!(noted(&restored).await, "one");
    }
}
