//! Brings tables up to date.

use super::Session;
use crate::error::StoreError;

/// Lock that keeps two starting services from making the same tables.
const LOCK: i64 = 0x5745_4952;

/// Brings a database up to date, in one transaction. Migrations are statements, in order; the table `schema_version`
/// counts the applied ones, so a released one must never change.
///
/// # Errors
/// The database was used by a newer version, or is not in UTF-8, or refuses a statement.
pub fn migrate(session: &mut Session, migrations: &[&str]) -> Result<(), StoreError> {
    let encoding: String = session
        .row("SHOW server_encoding", &[])?
        .map_or_else(String::new, |row| row.get(0));
    if encoding != "UTF8" {
        let text = format!("the database's encoding is {encoding}; make it with ENCODING 'UTF8'");
        return Err(StoreError::Broken(text.into()));
    }
    session.transaction("BEGIN", |session| {
        session.query("SELECT pg_advisory_xact_lock($1)", &[&LOCK])?;
        session.run("CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY)")?;
        let newest = "SELECT coalesce(max(version), 0) FROM schema_version";
        let done: i32 = session.row(newest, &[])?.map_or(0, |row| row.get(0));
        let known = migrations.len() as i32;
        if done > known {
            let text =
                format!("the database has version {done} of its tables, this service knows {known}; use a newer one");
            return Err(StoreError::Broken(text.into()));
        }
        for (number, migration) in migrations.iter().enumerate().skip(done as usize) {
            session.run(migration)?;
            let version = number as i32 + 1;
            session.execute("INSERT INTO schema_version VALUES ($1)", &[&version])?;
        }
        Ok(())
    })
}
