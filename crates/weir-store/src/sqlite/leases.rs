//! Leases on pieces of work: see [`crate::Lease`].

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::StoreError;
use crate::lease::Lease;

/// Seconds since the epoch, with fractions.
const NOW: &str = "(julianday('now') - 2440587.5) * 86400.0";

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
    term  INTEGER PRIMARY KEY AUTOINCREMENT,
    name  TEXT NOT NULL UNIQUE,
    until REAL NOT NULL
);",
            self.table
        )
    }

    /// Takes the lease of a piece, for so long. `None`: another worker has it.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn take(&self, connection: &mut Connection, name: &str, life: Duration) -> Result<Option<Lease>, StoreError> {
        let Self { table } = self;
        let transaction = connection.transaction()?;
        transaction.execute(
            &format!("DELETE FROM {table} WHERE name = ?1 AND until < {NOW}"),
            [name],
        )?;
        let text = format!(
            "INSERT INTO {table} (name, until) VALUES (?1, {NOW} + ?2) ON CONFLICT (name) DO NOTHING RETURNING term"
        );
        let term = transaction
            .query_row(&text, params![name, life.as_secs_f64()], |row| row.get(0))
            .optional()?;
        transaction.commit()?;
        Ok(term.map(|term| Lease {
            name: name.to_owned(),
            term,
        }))
    }

    /// Keeps a lease for so long from now.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: another worker has taken it, or may have.
    pub fn renew(&self, connection: &Connection, lease: &Lease, life: Duration) -> Result<(), StoreError> {
        let text = format!(
            "UPDATE {} SET until = {NOW} + ?3 WHERE term = ?1 AND name = ?2",
            self.table
        );
        match connection.execute(&text, params![lease.term, lease.name, life.as_secs_f64()])? {
            0 => Err(StoreError::LeadershipLost),
            _ => Ok(()),
        }
    }

    /// Confirms the lease in the transaction that applies the result.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: another worker has taken it, or may have. Nothing may be applied then.
    pub fn confirm(&self, connection: &Connection, lease: &Lease) -> Result<(), StoreError> {
        let text = format!("SELECT 1 FROM {} WHERE term = ?1 AND name = ?2", self.table);
        let found = connection.query_row(&text, params![lease.term, lease.name], |_| Ok(()));
        found.optional()?.ok_or(StoreError::LeadershipLost)
    }

    /// Gives a lease back, so that the next worker need not wait for its end.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn give_back(&self, connection: &Connection, lease: &Lease) -> Result<(), StoreError> {
        let text = format!("DELETE FROM {} WHERE term = ?1 AND name = ?2", self.table);
        connection.execute(&text, params![lease.term, lease.name])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::sqlite::Database;

    const LIFE: Duration = Duration::from_secs(60);

    #[test]
    fn a_piece_has_one_worker_and_a_term_is_never_given_twice() {
        // A paused worker would overwrite the results of its successor.
        let leases = Leases::new("work");
        let database = Database::in_memory(&[&leases.schema()]).unwrap();
        let take = |life| database.write(|connection| leases.take(connection, "a", life)).unwrap();
        let confirm = |lease: &Lease| database.write(|connection| leases.confirm(connection, lease));
        let frozen = take(Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let second = take(LIFE).unwrap();
        assert!(second.term > frozen.term && take(LIFE).is_none());
        assert!(matches!(confirm(&frozen), Err(StoreError::LeadershipLost)));
        let renewed = database.write(|connection| leases.renew(connection, &frozen, LIFE));
        assert!(matches!(renewed, Err(StoreError::LeadershipLost)));
        database
            .write(|connection| leases.give_back(connection, &frozen))
            .unwrap();
        confirm(&second).unwrap();
        database
            .write(|connection| leases.renew(connection, &second, LIFE))
            .unwrap();
        database
            .write(|connection| leases.give_back(connection, &second))
            .unwrap();
        let third = take(LIFE).unwrap();
        assert!(third.term > second.term, "also after every row is gone");
        assert!(matches!(confirm(&second), Err(StoreError::LeadershipLost)));
    }
}
