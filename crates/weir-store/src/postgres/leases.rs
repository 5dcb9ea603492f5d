//! Leases on pieces of work: see [`crate::Lease`].

use std::time::Duration;

use super::Session;
use crate::error::StoreError;
use crate::lease::Lease;

/// The leases of one service: a table, see [`Self::schema`].
#[derive(Debug, Clone, Copy)]
pub struct Leases {
    table: &'static str,
}

impl Leases {
    /// In this table.
    pub fn new(table: &'static str) -> Self {
        Self { table }
    }

    /// The table, as a statement.
    pub fn schema(&self) -> String {
        format!(
            "CREATE TABLE {} (
    term  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name  text COLLATE \"C\" NOT NULL UNIQUE,
    until timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 1000);",
            self.table
        )
    }

    /// Takes the lease of a piece, for so long by the database's clock. `None`: another worker has it.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn take(&self, session: &mut Session, name: &str, life: Duration) -> Result<Option<Lease>, StoreError> {
        let ended = format!(
            "DELETE FROM {} WHERE name = $1 AND until < clock_timestamp()",
            self.table
        );
        let fresh = format!(
            "INSERT INTO {} (name, until) VALUES ($1, clock_timestamp() + make_interval(secs => $2))
             ON CONFLICT (name) DO NOTHING RETURNING term",
            self.table
        );
        session.transaction("BEGIN", |session| {
            session.execute(&ended, &[&name])?;
            let row = session.row(&fresh, &[&name, &life.as_secs_f64()])?;
            Ok(row.map(|row| Lease {
                name: name.to_owned(),
                term: row.get(0),
            }))
        })
    }

    /// Keeps a lease for so long from now.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: another worker has taken it, or may have.
    pub fn renew(&self, session: &mut Session, lease: &Lease, life: Duration) -> Result<(), StoreError> {
        let text = format!(
            "UPDATE {} SET until = clock_timestamp() + make_interval(secs => $3) WHERE term = $1 AND name = $2",
            self.table
        );
        match session.execute(&text, &[&lease.term, &lease.name, &life.as_secs_f64()])? {
            0 => Err(StoreError::LeadershipLost),
            _ => Ok(()),
        }
    }

    /// Confirms the lease in the transaction that applies the result: it cannot be taken before the transaction's end.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: another worker has taken it, or may have. Nothing may be applied then.
    pub fn confirm(&self, session: &mut Session, lease: &Lease) -> Result<(), StoreError> {
        let text = format!("SELECT FROM {} WHERE term = $1 AND name = $2 FOR SHARE", self.table);
        match session.row(&text, &[&lease.term, &lease.name])? {
            Some(_) => Ok(()),
            None => Err(StoreError::LeadershipLost),
        }
    }

    /// Gives a lease back, so that the next worker need not wait for its end.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn give_back(&self, session: &mut Session, lease: &Lease) -> Result<(), StoreError> {
        let text = format!("DELETE FROM {} WHERE term = $1 AND name = $2", self.table);
        session.execute(&text, &[&lease.term, &lease.name]).map(drop)
    }
}
