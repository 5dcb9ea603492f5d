//! The store on SQLite: one file, write-ahead log, one writer, several readers.

mod history;
mod packs;
mod read;
mod renewals;
mod schema;
mod secrets;
mod tape;
mod urls;
mod write;

use std::{collections::BTreeSet, path::Path, time::Duration};

use parking_lot::Mutex;
use rusqlite::Connection;
use uuid::Uuid;
use weir_executor::orders::{Due, Kept, Order, Orders, Pin, Renewal};
use weir_store::sqlite::{Database, Readers, at_most};

use super::{Change, JobFilter, Overdue, Restored, Sealer, Store, StoreError, Submission, sealed::HOLDS_SEALED};
use weir_executor::job::{self, TokenHash};
use weir_service::time::Millis;

/// Connections for reading. A status poll holds one for milliseconds; four keep two cores busy with room to wait on disk.
const READERS: usize = 4;
/// A filter that no index serves may look through everything: it may keep its connection this long.
const LISTING_MAX: Duration = Duration::from_secs(25);

/// See the module.
pub(crate) struct SqliteStore {
    database: Database,
    readers: Readers,
    /// Connections for starts of attempts, which must not wait for listings.
    orders: Readers,
    sealer: Sealer,
    /// Ended jobs with unreadable rows: they stay where they are.
    damaged: Mutex<BTreeSet<i64>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqliteStore")
    }
}

impl SqliteStore {
    /// Opens the database, or makes it (mode 0600), and brings it up to date.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it.
    pub(crate) fn open(path: &Path, sealer: Sealer) -> Result<Self, StoreError> {
        Self::with(Database::open(path, schema::MIGRATIONS)?, sealer)
    }

    /// A store that ends with this handle, and whose key does too.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn in_memory() -> Self {
        let database = Database::in_memory(schema::MIGRATIONS).expect("memory takes tables");
        Self::with(database, Sealer::ephemeral()).expect("memory can be read")
    }

    fn with(database: Database, sealer: Sealer) -> Result<Self, StoreError> {
        Ok(Self {
            readers: database.readers(READERS)?,
            orders: database.readers(1)?,
            database,
            sealer,
            damaged: Mutex::default(),
        })
    }

    /// Whether anything in it was sealed with a key.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn holds_sealed(&self) -> Result<bool, StoreError> {
        self.readers
            .with(|connection| Ok(connection.query_row(HOLDS_SEALED, [], |row| row.get(0))?))
    }

    fn write<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.database.write(work)
    }
}

impl Store for SqliteStore {
    fn seal(&self, submission: &mut Submission) {
        submission.seal_with(&self.sealer);
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        self.write(|connection| write::apply(connection, &self.sealer, changes))
    }

    fn next_epoch(&self) -> Result<u64, StoreError> {
        self.write(|connection| {
            let bump = "UPDATE meta SET value = value + 1 WHERE key = 'epoch' RETURNING value";
            Ok(connection.query_row(bump, [], |row| row.get::<_, i64>(0))? as u64)
        })
    }

    fn next_file_id(&self) -> Result<u64, StoreError> {
        let text = "SELECT value FROM meta WHERE key = 'next_file'";
        self.readers
            .with(|connection| Ok(connection.query_row(text, [], |row| row.get::<_, i64>(0))? as u64))
    }

    fn restore(&self, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
        self.readers.with(|connection| read::restore(connection, below, each))
    }

    fn job(&self, id: Uuid) -> Result<Option<job::Job>, StoreError> {
        self.readers.with(|connection| read::job(connection, id))
    }

    fn files(&self, job: Uuid) -> Result<Vec<job::File>, StoreError> {
        self.readers.with(|connection| read::files(connection, job))
    }

    fn file(&self, id: u64) -> Result<Option<job::File>, StoreError> {
        self.readers.with(|connection| read::file(connection, id))
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<job::Job>, StoreError> {
        self.readers
            .with(|connection| at_most(connection, LISTING_MAX, || read::jobs(connection, filter)))
    }

    fn overdue(&self, now: i64) -> Result<Vec<Overdue>, StoreError> {
        self.readers.with(|connection| read::overdue(connection, now))
    }

    fn retries(&self, file: u64) -> Result<Vec<job::Retry>, StoreError> {
        self.readers.with(|connection| read::retries(connection, file))
    }

    fn reveal(&self, files: &mut [job::File]) -> Result<(), StoreError> {
        self.readers
            .with(|connection| urls::reveal(connection, &self.sealer, files))
    }

    fn settings(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.readers.with(|connection| read::settings(connection, prefix))
    }

    fn archive(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        self.write(|connection| history::archive(connection, &mut self.damaged.lock(), before, files_max))
    }

    fn keep(&self, kept: &Kept, now: Millis) -> Result<(), StoreError> {
        self.write(|connection| secrets::keep(connection, &self.sealer, kept, now))
    }

    fn replace(&self, old: &Kept, kept: &Kept) -> Result<bool, StoreError> {
        self.write(|connection| secrets::replace(connection, &self.sealer, old, kept))
    }

    fn discard(&self, name: &str) -> Result<bool, StoreError> {
        self.write(|connection| secrets::discard(connection, name))
    }

    fn forget(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        self.write(|connection| history::forget(connection, before, files_max))
    }
}

impl Orders for SqliteStore {
    fn order(&self, file: u64) -> Result<Option<Order>, StoreError> {
        self.orders
            .with(|connection| read::order(connection, &self.sealer, file))
    }

    fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.readers.with(tape::pins)
    }

    fn kept(&self, name: &str) -> Result<Option<Kept>, StoreError> {
        self.readers
            .with(|connection| secrets::kept(connection, &self.sealer, name))
    }

    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
        self.readers
            .with(|connection| renewals::renewal(connection, &self.sealer, token))
    }

    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError> {
        self.write(|connection| renewals::renewed(connection, &self.sealer, outcomes))
    }

    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.readers
            .with(|connection| renewals::due(connection, &self.sealer, now, (skip, limit)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use std::{
        os::unix::fs::PermissionsExt as _,
        panic::{AssertUnwindSafe, catch_unwind},
        path::PathBuf,
    };

    use super::*;
    use weir_executor::orders::Expiring;

    use crate::store::suite::{Keeper, submission};

    struct OnDisk {
        directory: tempfile::TempDir,
    }

    impl OnDisk {
        fn path(&self) -> PathBuf {
            self.directory.path().join("transfer.db")
        }
    }

    impl Keeper for OnDisk {
        type Store = SqliteStore;

        fn tokens(store: &SqliteStore) -> usize {
            let count = |connection: &Connection| {
                Ok(connection.query_row("SELECT count(*) FROM tokens", [], |row| row.get::<_, i64>(0))?)
            };
            store.readers.with(count).unwrap() as usize
        }

        fn new() -> Self {
            Self {
                directory: tempfile::tempdir().unwrap(),
            }
        }

        fn open(&self) -> SqliteStore {
            let sealer = weir_store::postgres::testing::sealer(&self.directory.path().join("token.key"));
            SqliteStore::open(&self.path(), sealer).unwrap()
        }
    }

    crate::store::suite::store_suite!(OnDisk);

    #[test]
    fn a_second_process_is_kept_out() {
        let keeper = OnDisk::new();
        let _first = keeper.open();
        let second = SqliteStore::open(&keeper.path(), Sealer::ephemeral());
        assert!(matches!(second, Err(StoreError::Locked { .. })));
    }

    #[test]
    fn files_are_private_and_hold_no_token() {
        let keeper = OnDisk::new();
        let store = keeper.open();
        store.apply(&[Change::Submit(Box::new(submission(1, 1, 2)))]).unwrap();
        for entry in std::fs::read_dir(keeper.directory.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{name}");
            let bytes = std::fs::read(entry.path()).unwrap();
            assert!(
                !bytes.windows(10).any(|window| window == b"token-of-1"),
                "{name} holds a token"
            );
        }
    }

    #[test]
    fn attempts_begin_while_others_read() {
        // Four listings once kept every transfer from starting.
        let keeper = OnDisk::new();
        let store = keeper.open();
        store.apply(&[Change::Submit(Box::new(submission(1, 1, 1)))]).unwrap();
        let (all, done) = (
            std::sync::Barrier::new(READERS + 1),
            std::sync::Barrier::new(READERS + 1),
        );
        let read = |_: &Connection| {
            all.wait();
            done.wait();
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| store.readers.with(read).unwrap());
            }
            all.wait();
            assert!(store.order(1).unwrap().is_some());
            done.wait();
        });
    }

    #[test]
    fn a_users_jobs_are_listed_without_a_look_at_those_of_all_others() {
        let keeper = OnDisk::new();
        let store = keeper.open();
        let own = [
            ("finished IS NULL", "jobs"),
            ("state IN (3, 4)", "jobs"),
            ("finished >= 7", "history"),
        ];
        for (which, table) in own {
            let text = format!(
                "EXPLAIN QUERY PLAN SELECT * FROM {table}
                WHERE {which} AND user_dn = 'x' AND cred_id = 'y' ORDER BY job_no DESC LIMIT 10"
            );
            let plan = |connection: &Connection| Ok(connection.query_row(&text, [], |row| row.get::<_, String>(3))?);
            let plan = store.readers.with(plan).unwrap();
            assert!(plan.contains(&format!("INDEX {table}_of (user_dn=?)")), "{plan}");
        }
    }

    #[test]
    fn a_listing_without_end_comes_to_one() {
        // Four of them once kept every status poll waiting for as long as they liked.
        let keeper = OnDisk::new();
        let store = keeper.open();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
        let count = |connection: &Connection, text: &str| {
            at_most(connection, Duration::from_millis(20), || {
                Ok(connection.query_row(text, [], |row| row.get::<_, i64>(0))?)
            })
        };
        let outcomes = store.readers.with(|connection| {
            let stopped = count(connection, endless);
            std::thread::sleep(Duration::from_millis(40));
            Ok((
                stopped,
                connection.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?,
            ))
        });
        let (stopped, after) = outcomes.unwrap();
        assert!(matches!(stopped, Err(StoreError::Unavailable(_))), "{stopped:?}");
        assert_eq!(after, 7, "the next reader has all the time it needs");
    }

    #[test]
    fn a_reader_that_panics_gives_its_connection_back() {
        // Otherwise four defects later every request would wait for ever.
        let keeper = OnDisk::new();
        let store = keeper.open();
        for _ in 0..=READERS {
            let panics = || {
                store
                    .readers
                    .with(|_| -> Result<(), StoreError> { panic!("on purpose") })
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        }
        assert_eq!(store.next_file_id().unwrap(), 1);
    }

    #[test]
    fn a_row_that_cannot_be_read_keeps_no_other_back() {
        // One damaged job once kept every other from starting, and from being listed.
        let keeper = OnDisk::new();
        let store = keeper.open();
        for (job, first) in [(1, 1), (2, 3), (3, 5)] {
            store
                .apply(&[Change::Submit(Box::new(submission(job, first, 2)))])
                .unwrap();
        }
        let damage = |text: &str| {
            store
                .write(|connection| Ok(connection.execute(text, []).map(|_| ())?))
                .unwrap();
        };
        damage("UPDATE jobs SET params = '{}garbage' WHERE job_no = 1");
        damage("UPDATE files SET attempts = 'many' WHERE file_id = 4");
        damage("UPDATE files SET source = 'srm://a/f' WHERE file_id = 5");
        damage("INSERT INTO tape (file_id, pinned) VALUES (5, 1), (6, 1)");
        let (mut jobs, mut passed_over) = (Vec::new(), Vec::new());
        let mut take = |restored| match restored {
            Restored::Job(job) => jobs.push((job.job.id.as_u128(), job.files.len())),
            Restored::Unreadable(row) => passed_over.push(row.what),
        };
        store.restore(100, &mut take).unwrap();
        assert_eq!(jobs, [(2, 1), (3, 1)]);
        assert_eq!(
            passed_over,
            [
                format!("job {}", Uuid::from_u128(1)),
                "file 4".to_owned(),
                "file 5".to_owned()
            ]
        );
        let listed = store.jobs(&JobFilter::default()).unwrap();
        assert_eq!(
            listed.iter().map(|job| job.spec.id.as_u128()).collect::<Vec<_>>(),
            [2, 3]
        );
        assert!(matches!(store.job(Uuid::from_u128(1)), Err(StoreError::Unreadable(_))));
        let refused = store.file(5).unwrap_err().to_string();
        assert!(
            refused.contains("Unsupported scheme, use https or davs (srm://a/f)"),
            "{refused}"
        );
        let pinned = store.pins().unwrap().iter().map(|pin| pin.file).collect::<Vec<_>>();
        assert_eq!(pinned, [6]);
    }

    #[test]
    fn a_job_that_cannot_be_read_holds_no_other_back_from_history() {
        let keeper = OnDisk::new();
        let store = keeper.open();
        for (job, first) in [(1, 1), (2, 3)] {
            store
                .apply(&[Change::Submit(Box::new(submission(job, first, 2)))])
                .unwrap();
        }
        let damage = "UPDATE files SET finished = 3000, state = 2; UPDATE jobs SET finished = 3000, state = 4;
            UPDATE files SET attempts = 'many' WHERE file_id = 1;";
        store.write(|connection| Ok(connection.execute_batch(damage)?)).unwrap();
        assert_eq!(store.archive(3000, 100).unwrap(), 3);
        assert_eq!(store.archive(3000, 100).unwrap(), 0);
        assert!(store.order(3).unwrap().is_none() && store.file(3).unwrap().is_some());
        assert!(matches!(
            store.files(Uuid::from_u128(1)),
            Err(StoreError::Unreadable(_))
        ));
    }

    #[test]
    fn parameters_that_an_older_version_did_not_write_have_their_defaults() {
        let keeper = OnDisk::new();
        let store = keeper.open();
        store.apply(&[Change::Submit(Box::new(submission(1, 1, 1)))]).unwrap();
        store
            .write(|connection| {
                Ok(connection
                    .execute("UPDATE jobs SET params = '{\"retry\":7}'", [])
                    .map(|_| ())?)
            })
            .unwrap();
        let params = store.job(Uuid::from_u128(1)).unwrap().unwrap().spec.params;
        assert_eq!((params.retry, params.verify_checksum), (7, job::ChecksumMode::None));
    }

    #[test]
    fn a_token_of_another_key_is_not_opened() {
        let keeper = OnDisk::new();
        let mut expiring = submission(1, 1, 1);
        let hash = *expiring.tokens.keys().next().unwrap();
        expiring.expiring.insert(hash, Expiring { expires: 9, due: 5 });
        keeper.open().apply(&[Change::Submit(Box::new(expiring))]).unwrap();
        let other = SqliteStore::open(&keeper.path(), Sealer::ephemeral()).unwrap();
        assert!(matches!(other.order(1), Err(StoreError::Sealed(_))));
        // It must not keep the tokens of others from being renewed.
        let due = other.due_renewals(9, 0, 10).unwrap();
        assert!(due[0].hash == hash && due[0].token.is_none());
    }
}
