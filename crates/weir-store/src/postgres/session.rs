//! Sessions with the database.

use std::{collections::HashMap, future::poll_fn, mem, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::future::try_join;
use parking_lot::{Condvar, Mutex};
use tokio_postgres::{Client, Row, Statement, types::ToSql};
use weir_http::TrustRoots;

use super::{
    address::Address,
    ahead::{Ahead, Owned},
    connect::{Carrier, Connector},
    wait::wait,
};
use crate::error::StoreError;

/// How long the database may take for one answer before it counts as gone. The largest batch takes a second.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Timeout of heartbeats: half of a node's term, so that a second try is in time.
pub const PULSE_PATIENCE: Duration = Duration::from_secs(4);

/// Values of a statement.
pub type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// How a session's statements are planned.
///
/// A table may grow from nothing to millions of rows between two looks of autovacuum. A plan that is kept was made for the table as it was
/// then: for a hundred rows, to read them all is best.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// Batches of rows that an index leads to: planned once, and always so that each is looked up by it. To plan each anew costs as much as
    /// a small batch.
    Batches,
    /// Rows that an index leads to, very often: planned once, and never so that a whole table is read.
    Rows,
}

impl Purpose {
    fn setting(self) -> &'static str {
        match self {
            Self::Batches => "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
            Self::Rows => "SET enable_seqscan = off",
        }
    }
}

/// Statements that a session keeps prepared, at most: each takes memory of the server too.
const STATEMENTS_MAX: usize = 512;

/// A connection with its prepared statements.
pub struct Session {
    client: Client,
    statements: HashMap<String, Statement>,
    ahead: Ahead,
    patience: Duration,
    _carrier: Carrier,
}

/// Whether a database can be reached and lets its user in. Blocks.
///
/// # Errors
/// As [`Connector::new`] and [`Session::open`].
pub fn reach(address: &Address, trust: &TrustRoots, patience: Duration) -> Result<(), StoreError> {
    let connector = Connector::new(address, trust)?;
    Session::open(&connector, Purpose::Rows, patience).map(drop)
}

impl Session {
    /// Connects, and prepares the session for its purpose.
    ///
    /// # Errors
    /// The database is not reached within `patience`, or refuses the login.
    pub fn open(connector: &Connector, purpose: Purpose, patience: Duration) -> Result<Self, StoreError> {
        let (client, carrier) = connector.connect(patience)?;
        let mut session = Self {
            client,
            statements: HashMap::new(),
            ahead: Ahead::default(),
            patience,
            _carrier: carrier,
        };
        // Acknowledged changes are durable, whatever this user's default is. A session that is silent in the middle of
        // a transaction is frozen, and may hold locks that others need. Plans are short: for one with a high estimated
        // cost, as without another way to read a table, the database would compile code each time.
        session.run(
            "SET jit = off; SET synchronous_commit = on; SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '20s'",
        )?;
        session.run(purpose.setting())?;
        Ok(session)
    }

    /// The client, for calls without a method here: see [`wait`].
    ///
    /// # Errors
    /// As [`Self::run`], of statements that were to be executed later.
    pub fn client(&mut self) -> Result<&Client, StoreError> {
        if self.ahead.begins() || self.ahead.n_statements() > 0 {
            self.flush()?;
        }
        Ok(&self.client)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let ahead = mem::take(&mut self.ahead);
        Ok(wait(ahead.sent(&self.client), self.patience)??)
    }

    /// Waits for an answer, after the answers to statements queued before.
    fn answer<T>(
        &mut self,
        answer: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let ahead = mem::take(&mut self.ahead);
        let both = try_join(ahead.sent(&self.client), answer(&self.client));
        let ((), answer) = wait(both, self.patience)??;
        Ok(answer)
    }

    /// Runs statements without values.
    ///
    /// # Errors
    /// The database refuses one, or gives no answer in time.
    pub fn run(&mut self, text: &str) -> Result<(), StoreError> {
        self.answer(async |client| client.batch_execute(text).await)
    }

    /// Prepares a statement, once for each text.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn prepare(&mut self, text: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        if self.statements.len() >= STATEMENTS_MAX {
            // Texts with numbers in them are many, and each is asked once.
            self.statements.clear();
        }
        let statement = wait(self.client.prepare(text), self.patience)??;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    /// The rows of a query.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn query(&mut self, text: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(text)?;
        self.answer(async |client| client.query(&statement, values).await)
    }

    /// The only row, if there is one.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn row(&mut self, text: &str, values: Values<'_>) -> Result<Option<Row>, StoreError> {
        Ok(self.query(text, values)?.into_iter().next())
    }

    /// Executes a statement: how many rows it changed.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn execute(&mut self, text: &str, values: Values<'_>) -> Result<u64, StoreError> {
        let statement = self.prepare(text)?;
        self.answer(async |client| client.execute(&statement, values).await)
    }

    /// Executes a statement before the next one, or at the end of the transaction, without a wait of its own.
    ///
    /// # Errors
    /// As [`Self::run`]. An error of the statement itself is returned by the next one, or by the end of the transaction.
    pub fn execute_later(&mut self, text: &str, values: Vec<Owned>) -> Result<(), StoreError> {
        let statement = self.prepare(text)?;
        self.ahead.push(statement, values);
        if self.ahead.n_statements() == Ahead::MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Runs work in a transaction. After a failure of the database the session is unusable; after an error of the work
    /// itself it is not.
    ///
    /// # Errors
    /// Errors of the work, and of the database.
    pub fn transaction<T>(
        &mut self,
        begin: &str,
        work: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.ahead = Ahead::begin(begin);
        let outcome = work(self);
        let is_known = !self.ahead.begins();
        match outcome {
            // It did nothing.
            Ok(_) | Err(_) if !is_known && self.ahead.n_statements() == 0 => self.ahead = Ahead::default(),
            Ok(_) => self.commit()?,
            Err(ref error) => {
                self.ahead = Ahead::default();
                if is_known && !error.is_passing() {
                    self.run("ROLLBACK")?;
                }
            }
        }
        outcome
    }

    /// Ends a transaction with what is queued for it.
    fn commit(&mut self) -> Result<(), StoreError> {
        let ended = self.run("COMMIT");
        // A queued statement whose refusal comes back while the next ones are still being sent keeps these back, `COMMIT` too.
        if ended.as_ref().is_err_and(|error| !error.is_passing()) {
            self.run("ROLLBACK")?;
        }
        ended
    }

    /// Reads in a transaction that sees one state of the database.
    ///
    /// # Errors
    /// As [`Self::transaction`].
    pub fn snapshot<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.ahead = Ahead::begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        let outcome = work(self);
        // Settings for later statements of the transaction may wait: they end with it.
        if mem::take(&mut self.ahead).begins() {
            return outcome;
        }
        let ended = self.end_soon();
        outcome.and_then(|found| ended.map(|()| found))
    }

    /// Ends a transaction that changed nothing, without waiting: a later statement comes after it.
    fn end_soon(&self) -> Result<(), StoreError> {
        let mut end = pin!(self.client.batch_execute("ROLLBACK"));
        let sent = poll_fn(|context| {
            Poll::Ready(match end.as_mut().poll(context) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => Ok(()),
            })
        });
        Ok(wait(sent, self.patience)??)
    }
}

/// Some sessions, handed out one at a time. A failed one is not handed out again.
pub struct Pool {
    connector: Arc<Connector>,
    purpose: Purpose,
    patience: Duration,
    /// Free sessions, and how many more may be opened.
    free: Mutex<(Vec<Session>, usize)>,
    returned: Condvar,
}

impl Pool {
    /// Opens sessions as they are needed, at most `size`.
    pub fn new(connector: Arc<Connector>, purpose: Purpose, size: usize) -> Self {
        Self {
            connector,
            purpose,
            patience: PATIENCE,
            free: Mutex::new((Vec::new(), size)),
            returned: Condvar::new(),
        }
    }

    /// With sessions that wait no longer than this for an answer.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs work with a session, as soon as one is free.
    ///
    /// # Errors
    /// Errors of the work, and of connecting.
    pub fn with<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut place = BorrowedSession {
            pool: self,
            session: self.take(),
        };
        let mut session = match place.session.take() {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::open(&self.connector, self.purpose, self.patience)?,
        };
        let outcome = work(&mut session);
        if !matches!(&outcome, Err(error) if error.is_passing()) {
            place.session = Some(session);
        }
        outcome
    }

    /// A free session; `None`: the right to open one.
    fn take(&self) -> Option<Session> {
        let mut free = self.free.lock();
        loop {
            if let Some(session) = free.0.pop() {
                return Some(session);
            }
            if free.1 > 0 {
                free.1 -= 1;
                return None;
            }
            self.returned.wait(&mut free);
        }
    }
}

/// Returns the session in every case, even after a panic.
struct BorrowedSession<'a> {
    pool: &'a Pool,
    session: Option<Session>,
}

impl Drop for BorrowedSession<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock();
        match self.session.take() {
            Some(session) => free.0.push(session),
            None => free.1 += 1,
        }
        drop(free);
        self.pool.returned.notify_one();
    }
}

impl From<tokio_postgres::Error> for StoreError {
    /// By class of SQLSTATE (PostgreSQL's documentation, appendix A). An error without SQLSTATE concerns the
    /// connection, except for values that cannot be encoded.
    fn from(error: tokio_postgres::Error) -> Self {
        // Classes about values: cardinality, data, integrity, limits of the program, and a value too long to be
        // allocated. All others concern the database: the content of a row must not make the writer wait for ever, and
        // a missing table must not cost rows.
        const VALUES: [&str; 5] = ["21", "22", "23", "54", "XX000"];
        let is_about_values = if let Some(said) = error.as_db_error() {
            VALUES.iter().any(|class| said.code().code().starts_with(class))
        } else {
            let text = error.to_string();
            text.starts_with("error serializing") || text.starts_with("error encoding")
        };
        if is_about_values {
            Self::Broken(error.into())
        } else {
            Self::Unavailable(error.into())
        }
    }
}
