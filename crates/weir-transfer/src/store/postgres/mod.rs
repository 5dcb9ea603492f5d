//! The store on PostgreSQL: for several nodes, and for sites that run a database anyway.
//!
//! One session writes (batches are transactions, see [`Election`]), some read, one moves ended jobs. Callers block.

mod decode;
mod destinations;
mod history;
mod leading;
mod mark;
mod nodes;
mod read;
mod relays;
mod renewals;
mod results;
mod rows;
mod schema;
mod secrets;
mod tally;
mod tape;
#[cfg(test)]
mod tests;
mod text;
mod urls;
mod write;

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use uuid::Uuid;
use weir_executor::orders::{Due, Kept, Order, Orders, Pin, Renewal, Turn};
use weir_http::TrustRoots;
use weir_store::postgres::{Connector, Election, Leadership, Members, PATIENCE, Pool, Purpose, Session, migrate};

use super::{
    Change, JobFilter, Overdue, Restored, Sealer, Standing, Store, StoreError, Submission, sealed::HOLDS_SEALED,
};
use weir_executor::job::{self, TokenHash};
use weir_service::time::Millis;

use crate::config::PostgresConfig;
#[cfg(test)]
pub(super) use tests::{bench, open_on};

use mark::mark;
pub(crate) use nodes::{DOORS, LEASES, Lease, LeaseReport};
pub use relays::Asked;
use write::BatchPlan;

/// Sessions for reading. A status poll holds one for milliseconds; the database does the work.
const READERS: usize = 8;

/// Name of this program at a database server.
const APPLICATION: &str = "weir-transfer";

/// File ids that a node takes at once: a second of submissions.
const ID_BLOCK: u64 = 10_000;

/// See the module.
pub(crate) struct PostgresStore {
    /// Held by the writer. `None`: this handle does not schedule, and writes only through [`Self::deposit`].
    writer: Mutex<Option<Leadership>>,
    /// A copy for callers that must not wait for a batch.
    leadership: Mutex<Option<Leadership>>,
    writing: Pool,
    readers: Pool,
    /// Sessions for starts of attempts, which must not wait for listings.
    orders: Pool,
    keeper: Pool,
    /// Sessions for heartbeats and other statements that must never wait.
    pub(crate) members: Arc<Members>,
    /// For staying the leader, which may have to wait for a batch.
    terms: Pool,
    /// Sessions for writes of a node that does not lead.
    deposits: Pool,
    /// Sessions for operations that this node runs for others.
    executing: Pool,
    /// Sessions for the scheduler's work with other nodes.
    leading: Pool,
    damaged: Mutex<BTreeSet<i64>>,
    sealer: Sealer,
    election: Arc<Election>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresStore")
    }
}

impl PostgresStore {
    /// Connects, and brings the tables up to date.
    ///
    /// # Errors
    /// [`StoreError::Database`] says which database, and why.
    pub(crate) fn open(config: &PostgresConfig, trust: &TrustRoots, sealer: Sealer) -> Result<Self, StoreError> {
        let connector = Arc::new(Connector::new(&config.address(APPLICATION), trust)?);
        let fail = |source: StoreError| StoreError::Database {
            database: config.to_string(),
            source: source.into(),
        };
        let mut session = Session::open(&connector, Purpose::Batches, PATIENCE).map_err(fail)?;
        migrate(&mut session, schema::MIGRATIONS).map_err(fail)?;
        let election = Arc::new(Election::new("scheduler"));
        Ok(Self {
            writer: Mutex::default(),
            leadership: Mutex::default(),
            writing: Pool::new(connector.clone(), Purpose::Batches, 1),
            readers: Pool::new(connector.clone(), Purpose::Rows, READERS),
            orders: Pool::new(connector.clone(), Purpose::Rows, 2),
            keeper: Pool::new(connector.clone(), Purpose::Batches, 1),
            members: Arc::new(Members::new(connector.clone(), election.clone())),
            terms: Pool::new(connector.clone(), Purpose::Rows, 1),
            deposits: Pool::new(connector.clone(), Purpose::Batches, 1),
            executing: Pool::new(connector.clone(), Purpose::Batches, 1),
            leading: Pool::new(connector, Purpose::Batches, 1),
            damaged: Mutex::default(),
            sealer,
            election,
        })
    }
}

impl PostgresStore {
    /// Whether anything in it was sealed with a key.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn holds_sealed(&self) -> Result<bool, StoreError> {
        self.readers.with(|session| {
            let row = session.row(HOLDS_SEALED, &[])?;
            row.as_ref().map_or(Ok(false), |row| decode::get(row, 0))
        })
    }

    fn enter(&self, writer: &mut Option<Leadership>, leadership: Leadership) -> u64 {
        *writer = Some(leadership);
        *self.leadership.lock() = Some(leadership);
        leadership.epoch
    }
}

impl Store for PostgresStore {
    fn seal(&self, submission: &mut Submission) {
        submission.seal_with(&self.sealer);
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let Some(leadership) = writer.as_mut() else {
            return Err(StoreError::LeadershipLost);
        };
        // The plan is computed before the transaction takes its locks.
        let plan = BatchPlan::of(changes);
        self.writing.with(|session| {
            let write = |session: &mut Session| plan.write(session, &self.sealer);
            self.election.write(leadership, session, mark(changes), write)
        })
    }

    fn next_epoch(&self) -> Result<u64, StoreError> {
        let mut writer = self.writer.lock();
        let leadership = self.writing.with(|session| self.election.seize(session))?;
        Ok(self.enter(&mut writer, leadership))
    }

    fn stand(&self) -> Result<Standing, StoreError> {
        let mut writer = self.writer.lock();
        Ok(match self.writing.with(|session| self.election.stand(session))? {
            weir_store::Standing::Elected(leadership) => Standing::Elected(self.enter(&mut writer, leadership)),
            weir_store::Standing::HeldBy(holder) => Standing::HeldBy(holder),
        })
    }

    fn renew(&self) -> Result<(), StoreError> {
        // Not on the writer's session, nor on those of readers. While a batch is under way this waits for its end,
        // which extends the term too.
        let leadership = *self.leadership.lock();
        match leadership {
            Some(leadership) => self.terms.with(|session| self.election.renew(leadership, session)),
            None => Ok(()),
        }
    }

    fn resign(&self) -> Result<(), StoreError> {
        self.leadership.lock().take();
        match self.writer.lock().take() {
            Some(leadership) => self.writing.with(|session| self.election.resign(leadership, session)),
            None => Ok(()),
        }
    }

    fn next_file_id(&self) -> Result<u64, StoreError> {
        self.readers.with(|session| {
            let row = session.row("SELECT next_file FROM ids", &[])?;
            let next = row.ok_or_else(|| StoreError::Broken("the table ids has lost its row".into()))?;
            Ok(next.get::<_, i64>(0) as u64)
        })
    }

    fn take_file_ids(&self, n: u64) -> Result<std::ops::Range<u64>, StoreError> {
        self.take_ids(n.max(ID_BLOCK))
    }

    fn restore(&self, below: u64, each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
        self.readers.with(|session| read::restore(session, below, each))
    }

    fn job(&self, id: Uuid) -> Result<Option<job::Job>, StoreError> {
        self.readers.with(|session| read::job(session, id))
    }

    fn files(&self, job: Uuid) -> Result<Vec<job::File>, StoreError> {
        self.readers.with(|session| read::files(session, job))
    }

    fn file(&self, id: u64) -> Result<Option<job::File>, StoreError> {
        self.readers.with(|session| read::file(session, id))
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<job::Job>, StoreError> {
        self.readers.with(|session| read::jobs(session, filter))
    }

    fn overdue(&self, now: i64) -> Result<Vec<Overdue>, StoreError> {
        self.readers.with(|session| read::overdue(session, now))
    }

    fn retries(&self, file: u64) -> Result<Vec<job::Retry>, StoreError> {
        self.readers.with(|session| read::retries(session, file))
    }

    fn reveal(&self, files: &mut [job::File]) -> Result<(), StoreError> {
        self.readers.with(|session| urls::reveal(session, &self.sealer, files))
    }

    fn settings(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.readers.with(|session| read::settings(session, prefix))
    }

    fn archive(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        let mut damaged = self.damaged.lock();
        self.keeper
            .with(|session| history::archive(session, &mut damaged, before, files_max))
    }

    fn keep(&self, kept: &Kept, now: Millis) -> Result<(), StoreError> {
        self.readers
            .with(|session| secrets::keep(session, &self.sealer, kept, now, Millis::MAX))
    }

    fn keep_first(&self, kept: &Kept, now: Millis, fresh: Millis) -> Result<Kept, StoreError> {
        self.readers.with(|session| {
            secrets::keep(session, &self.sealer, kept, now, fresh)?;
            let there = secrets::kept(session, &self.sealer, &kept.name)?;
            there.ok_or_else(|| StoreError::Unavailable("a secret was forgotten while it was kept".into()))
        })
    }

    fn replace(&self, old: &Kept, kept: &Kept) -> Result<bool, StoreError> {
        self.readers
            .with(|session| secrets::replace(session, &self.sealer, old, kept))
    }

    fn discard(&self, name: &str) -> Result<bool, StoreError> {
        self.readers.with(|session| secrets::discard(session, name))
    }

    fn forget(&self, before: Millis, files_max: usize) -> Result<usize, StoreError> {
        self.keeper.with(|session| history::forget(session, before, files_max))
    }
}

impl Orders for PostgresStore {
    fn order(&self, file: u64) -> Result<Option<Order>, StoreError> {
        self.orders.with(|session| read::order(session, &self.sealer, file))
    }

    fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        self.readers.with(tape::pins)
    }

    fn kept(&self, name: &str) -> Result<Option<Kept>, StoreError> {
        self.readers.with(|session| secrets::kept(session, &self.sealer, name))
    }

    fn renewal(&self, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
        self.readers
            .with(|session| renewals::renewal(session, &self.sealer, token))
    }

    fn claim_renewal(&self, token: TokenHash, life: Millis) -> Result<Turn, StoreError> {
        self.readers
            .with(|session| renewals::claim(session, &self.sealer, token, life))
    }

    fn renewed(&self, outcomes: &[(TokenHash, Option<Renewal>)]) -> Result<(), StoreError> {
        self.readers
            .with(|session| renewals::renewed(session, &self.sealer, outcomes))
    }

    fn release_renewals(&self, tokens: &[TokenHash]) -> Result<(), StoreError> {
        self.readers.with(|session| renewals::release(session, tokens))
    }

    fn due_renewals(&self, now: Millis, skip: usize, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.readers
            .with(|session| renewals::due(session, &self.sealer, now, (skip, limit)))
    }
}
