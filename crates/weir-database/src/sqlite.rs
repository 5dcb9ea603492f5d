//! SQLite: one thread writes. Transactions that wait for it are committed together, and flushed to disk once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc,
    thread,
};

use rusqlite::{Connection, types::ValueRef};
use tokio::sync::oneshot;
use weir_store::{StoreError, sqlite};

use crate::session::POSTGRESQL_ONLY;
use crate::{Row, Session, Value, Work};

/// Transactions that wait for the writer. Beyond that callers wait for a place in the queue.
const QUEUE: usize = 1024;

/// Transactions that are committed together, at most.
const BATCH: usize = 256;

/// Connections for reading.
const READERS: usize = 8;

#[derive(Debug)]
pub(crate) struct Sqlite {
    readers: sqlite::Readers,
    /// Closed when this is dropped; the writer ends with what is queued.
    queue: tokio::sync::mpsc::Sender<Box<dyn Job>>,
}

/// A transaction that waits for the writer.
trait Job: Send {
    /// Does its work, within a savepoint; whether it is to be kept.
    fn run(&mut self, connection: &mut Connected<'_>) -> bool;

    /// Answers the waiting caller, once its batch is on disk or has failed.
    fn tell(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Waiting<T, W> {
    work: W,
    outcome: Option<Result<T, StoreError>>,
    told: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, W: Work<T>> Job for Waiting<T, W> {
    fn run(&mut self, connection: &mut Connected<'_>) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(connection)));
        let outcome = outcome.unwrap_or_else(|_| Err(StoreError::Broken("the work panicked".into())));
        let is_good = outcome.is_ok();
        self.outcome = Some(outcome);
        is_good
    }

    fn tell(self: Box<Self>, committed: Result<(), StoreError>) {
        let outcome = self
            .outcome
            .unwrap_or_else(|| Err(StoreError::Broken("the work was not done".into())));
        let told = committed.and(outcome);
        // No caller waits any more if the request was dropped.
        let _ = self.told.send(told);
    }
}

impl Sqlite {
    /// Opens the file, or makes it, and brings its tables up to date.
    pub(crate) fn open(path: &Path, migrations: &[&str]) -> Result<Self, StoreError> {
        let migrations = migrations.iter().map(|one| schema(one)).collect::<Vec<_>>();
        let migrations = migrations.iter().map(String::as_str).collect::<Vec<_>>();
        let database = sqlite::Database::open(path, &migrations)?;
        let readers = database.readers(READERS)?;
        let (queue, mut jobs) = tokio::sync::mpsc::channel::<Box<dyn Job>>(QUEUE);
        let (ready, is_ready) = mpsc::channel();
        let write = move || {
            let _ = ready.send(());
            while let Some(first) = jobs.blocking_recv() {
                let mut batch = vec![first];
                while batch.len() < BATCH
                    && let Ok(next) = jobs.try_recv()
                {
                    batch.push(next);
                }
                commit(&database, batch);
            }
        };
        let started = thread::Builder::new().name("catalogue".into()).spawn(write);
        started.map_err(|error| StoreError::Broken(error.into()))?;
        is_ready.recv().map_err(|error| StoreError::Broken(error.into()))?;
        Ok(Self { readers, queue })
    }

    pub(crate) fn read<T>(&self, work: &impl Work<T>) -> Result<T, StoreError> {
        self.readers.with(|connection| {
            // The work before may have panicked.
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK")?;
            }
            connection.execute_batch("BEGIN")?;
            let outcome = work(&mut Connected(connection));
            connection.execute_batch("ROLLBACK")?;
            outcome
        })
    }

    pub(crate) async fn write<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        let (told, outcome) = oneshot::channel();
        let job = Box::new(Waiting {
            work,
            outcome: None,
            told,
        });
        let gone = || StoreError::Unavailable("the catalogue is stopping".into());
        self.queue.send(job).await.map_err(|_| gone())?;
        outcome.await.map_err(|_| gone())?
    }
}

fn commit(database: &sqlite::Database, mut batch: Vec<Box<dyn Job>>) {
    let committed = database.write(|connection| {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let outcome = in_savepoints(connection, &mut batch).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
        if outcome.is_err() && !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        outcome
    });
    let failure = committed.err().map(|error| weir_auth::error_chain(&error));
    for job in batch {
        job.tell(match &failure {
            None => Ok(()),
            Some(failure) => Err(StoreError::Unavailable(failure.clone().into())),
        });
    }
}

fn in_savepoints(connection: &Connection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    for job in batch {
        connection.execute_batch("SAVEPOINT one")?;
        let is_good = job.run(&mut Connected(connection));
        // After a full disk SQLite may have rolled everything back by itself.
        if connection.is_autocommit() {
            return Err(StoreError::Unavailable(
                "the database rolled the transaction back".into(),
            ));
        }
        connection.execute_batch(if is_good {
            "RELEASE one"
        } else {
            "ROLLBACK TO one; RELEASE one"
        })?;
    }
    Ok(())
}

/// A connection within a transaction.
struct Connected<'a>(&'a Connection);

/// The statement as SQLite has it.
fn translated(text: &str) -> String {
    let end = text.rfind("FOR UPDATE").unwrap_or(text.len());
    text[..end].trim_end().replace('$', "?")
}

impl Session for Connected<'_> {
    fn query(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let mut statement = self.0.prepare_cached(&translated(text))?;
        rows_of(&mut statement, values, &mut rows)?;
        Ok(rows)
    }

    fn query_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        let mut statement = self.0.prepare_cached(&translated(text))?;
        for values in many {
            rows_of(&mut statement, values, &mut rows)?;
        }
        Ok(rows)
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, StoreError> {
        let mut statement = self.0.prepare_cached(&translated(text))?;
        Ok(statement.execute(rusqlite::params_from_iter(values))? as u64)
    }

    fn execute_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<u64, StoreError> {
        let mut statement = self.0.prepare_cached(&translated(text))?;
        let mut n_rows = 0;
        for values in many {
            n_rows += statement.execute(rusqlite::params_from_iter(values))? as u64;
        }
        Ok(n_rows)
    }

    fn execute_later(&mut self, text: &str, many: Vec<Vec<Value>>) -> Result<(), StoreError> {
        self.execute_many(text, &many).map(drop)
    }
}

fn rows_of(statement: &mut rusqlite::Statement<'_>, values: &[Value], rows: &mut Vec<Row>) -> Result<(), StoreError> {
    let n_columns = statement.column_count();
    let mut found = statement.query(rusqlite::params_from_iter(values))?;
    while let Some(row) = found.next()? {
        let columns = (0..n_columns).map(|column| Ok(owned(row.get_ref(column)?)));
        rows.push(Row(columns.collect::<Result<_, StoreError>>()?));
    }
    Ok(())
}

fn owned(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

/// Tables as SQLite has them: `ID` is the type of a column whose numbers the database gives. It never gives one again: messages about a row
/// that is gone must not be taken for another row's.
fn schema(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with(POSTGRESQL_ONLY));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replace("ID PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_translated() {
        let check = |text: &str, expected: &str| assert_eq!(translated(text), expected);
        check("SELECT $1, $2", "SELECT ?1, ?2");
        check(
            "SELECT a FROM b WHERE c = $1 FOR UPDATE SKIP LOCKED ",
            "SELECT a FROM b WHERE c = ?1",
        );
        check("SELECT a FROM b FOR UPDATE OF b", "SELECT a FROM b");
    }
}
