//! One interface to both databases: SQLite, which one process has to itself, and PostgreSQL, which several nodes of a
//! service share.
//!
//! Statements are written once, in the common dialect of both databases: parameters are `$1`, `$2`, …. Whole numbers
//! are `BIGINT`, truth values `BOOLEAN`, bytes `BYTEA`. `FOR UPDATE`, with `OF` and `SKIP LOCKED`, stands at the end of
//! a statement, and is left out for SQLite, where a transaction that writes has the database to itself.

mod bulk;
mod postgres;
mod session;
mod sqlite;
mod value;

use std::{path::Path, sync::Arc};

use weir_store::StoreError;

pub use session::{Session, Work};
pub use value::{Row, Value};

/// A database that is open. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Database {
    backend: Backend,
    /// Writes only while this is the epoch of the leader. `None`: writes as all nodes do.
    epoch: Option<u64>,
}

#[derive(Debug, Clone)]
enum Backend {
    Sqlite(Arc<sqlite::Sqlite>),
    Postgres(Arc<postgres::Postgres>),
}

impl<T, F: Fn(&mut dyn Session) -> Result<T, StoreError> + Send + 'static> Work<T> for F {}

impl Database {
    /// Opens the database file, or makes it (mode 0600), and brings its tables up to date.
    ///
    /// # Errors
    /// See [`weir_store::sqlite::Database::open`].
    pub fn open_file(path: &Path, migrations: &[&str]) -> Result<Self, StoreError> {
        let sqlite = sqlite::Sqlite::open(path, migrations)?;
        Ok(Self::new(Backend::Sqlite(sqlite.into())))
    }

    /// Uses a database of a PostgreSQL server, and brings its tables up to date.
    ///
    /// # Errors
    /// The server is not reached, or refuses; see [`weir_store::postgres::migrate`].
    pub fn on_server(connector: weir_store::postgres::Connector, migrations: &[&str]) -> Result<Self, StoreError> {
        let postgres = postgres::Postgres::open(connector, migrations)?;
        Ok(Self::new(Backend::Postgres(postgres.into())))
    }

    fn new(backend: Backend) -> Self {
        Self { backend, epoch: None }
    }

    /// Reads in one transaction, which sees one state of the database.
    ///
    /// # Errors
    /// Errors of the work, and [`StoreError::Unavailable`].
    pub async fn read<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        let backend = self.backend.clone();
        let read = tokio::task::spawn_blocking(move || match backend {
            Backend::Sqlite(sqlite) => sqlite.read(&work),
            Backend::Postgres(postgres) => postgres.read(&work),
        });
        read.await.unwrap_or_else(|error| Err(StoreError::Broken(error.into())))
    }

    /// Changes rows in one transaction. It is durable once this returns `Ok`.
    ///
    /// # Errors
    /// Errors of the work, and of the database; nothing was changed then.
    pub async fn write<T: Send + 'static>(&self, work: impl Work<T>) -> Result<T, StoreError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.write(work).await,
            Backend::Postgres(postgres) => {
                let (postgres, epoch) = (postgres.clone(), self.epoch);
                let write = tokio::task::spawn_blocking(move || postgres.write(&work, epoch));
                write
                    .await
                    .unwrap_or_else(|error| Err(StoreError::Broken(error.into())))
            }
        }
    }
}

impl Database {
    /// Has this node lead, if no other one does: `None` if one does. On SQLite there is one node, which leads for ever.
    ///
    /// # Errors
    /// Here and below: the database cannot be used.
    pub async fn stand(&self) -> Result<Option<Leadership>, StoreError> {
        let Backend::Postgres(postgres) = &self.backend else {
            return Ok(Some(Leadership {
                database: self.clone(),
                held: None,
            }));
        };
        let postgres = postgres.clone();
        let stood = {
            let postgres = postgres.clone();
            weir_store::blocking(move || postgres.stand()).await?
        };
        let lead = |held: weir_store::postgres::Leadership| Leadership {
            database: Self {
                epoch: Some(held.epoch),
                ..self.clone()
            },
            held: Some((postgres, held)),
        };
        Ok(stood.map(lead))
    }
}

/// The right to do the standing work of the catalogue.
#[derive(Debug, Clone)]
pub struct Leadership {
    database: Database,
    held: Option<(Arc<postgres::Postgres>, weir_store::postgres::Leadership)>,
}

impl Leadership {
    /// The database for that work: nothing is written once another node leads.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Whether it has to be renewed.
    pub fn ends(&self) -> bool {
        self.held.is_some()
    }

    /// Goes on leading for another term.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`] too: another node leads.
    pub async fn renew(&self) -> Result<(), StoreError> {
        let Some((postgres, held)) = self.held.clone() else {
            return Ok(());
        };
        weir_store::blocking(move || postgres.renew(held)).await
    }

    /// Stops leading, so that the next node need not wait for the end of the term.
    pub async fn resign(&self) -> Result<(), StoreError> {
        let Some((postgres, held)) = self.held.clone() else {
            return Ok(());
        };
        weir_store::blocking(move || postgres.resign(held)).await
    }
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
