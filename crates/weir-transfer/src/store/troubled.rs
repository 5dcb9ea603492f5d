//! A store in memory that restores as it is told: for tests.

use parking_lot::Mutex;
use uuid::Uuid;
use weir_executor::orders::{Due, Kept, Order, Orders, Pin, Renewal};

use super::{Change, JobFilter, Overdue, Restored, Store, StoreError, Submission, sqlite::SqliteStore};
use weir_executor::job::{File, Job, Retry, TokenHash};
use weir_service::time::Millis;

/// Called before each restore.
type Before = Box<dyn FnMut() -> Result<(), StoreError> + Send>;

pub(crate) struct TroubledStore {
    inner: SqliteStore,
    before: Mutex<Before>,
    /// Changes that it will never take.
    refused: fn(&Change) -> bool,
}

impl TroubledStore {
    pub(crate) fn new(before: impl FnMut() -> Result<(), StoreError> + Send + 'static) -> Self {
        Self {
            inner: SqliteStore::in_memory(),
            before: Mutex::new(Box::new(before)),
            refused: |_| false,
        }
    }

    /// A store that refuses such changes for ever.
    pub(crate) fn refusing(refused: fn(&Change) -> bool) -> Self {
        Self {
            refused,
            ..Self::new(|| Ok(()))
        }
    }
}

impl Store for TroubledStore {
    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        if changes.iter().any(self.refused) {
            return Err(StoreError::Broken("no such value".into()));
        }
        self.inner.apply(changes)
    }

    fn next_epoch(&self) -> Result<u64, StoreError> {
        self.inner.next_epoch()
    }

    fn next_file_id(&self) -> Result<u64, StoreError> {
        self.inner.next_file_id()
    }

    fn restore(&self, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
        (self.before.lock())()?;
        self.inner.restore(below, each)
    }

    fn job(&self, id: Uuid) -> Result<Option<Job>, StoreError> {
        self.inner.job(id)
    }

    fn files(&self, job: Uuid) -> Result<Vec<File>, StoreError> {
        self.inner.files(job)
    }

    fn file(&self, id: u64) -> Result<Option<File>, StoreError> {
        self.inner.file(id)
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>, StoreError> {
        self.inner.jobs(filter)
    }

    fn overdue(&self, now: i64) -> Result<Vec<Overdue>, StoreError> {
        self.inner.overdue(now)
    }

    fn retries(&self, file: u64) -> Result<Vec<Retry>, StoreError> {
        self.inner.retries(file)
    }

    fn reveal(&self, files: &mut [File]) -> Result<(), StoreError> {
        self.inner.reveal(files)
    }

    fn settings(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.inner.settings(prefix)
    }

    fn seal(&self, submission: &mut Submission) {
        self.inner.seal(submission);
    }

    fn archive(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        self.inner.archive(before, files_max)
    }

    fn keep(&self, kept: &Kept, now: Millis) -> Result<(), StoreError> {
        self.inner.keep(kept, now)
    }

    fn replace(&self, old: &Kept, kept: &Kept) -> Result<bool, StoreError> {
        self.inner.replace(old, kept)
    }

    fn discard(&self, name: &str) -> Result<bool, StoreError> {
        self.inner.discard(name)
    }

    fn forget(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        self.inner.forget(before, files_max)
    }
}

impl Orders for TroubledStore {
    fn order(&self, file: u64) -> Result<Option<Order>, StoreError> {
        self.inner.order(file)
    }

    fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.inner.pins()
    }

    fn kept(&self, name: &str) -> Result<Option<Kept>, StoreError> {
        self.inner.kept(name)
    }

    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
        self.inner.renewal(token)
    }

    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError> {
        self.inner.renewed(outcomes)
    }

    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.inner.due_renewals(now, skip, limit)
    }
}
