//! Reads history's packs of files.

use rusqlite::{Connection, OptionalExtension as _};

use crate::store::StoreError;

/// The packs that hold files of this range.
pub(super) fn packs(connection: &Connection, first: i64, last: i64) -> Result<Vec<String>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT files FROM history_files WHERE first_file BETWEEN ?1 AND ?2")?;
    let rows = statement.query_map([first, last], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The pack that holds this file, if history has it.
pub(super) fn pack_of(connection: &Connection, file: u64) -> Result<Option<String>, StoreError> {
    let text = "SELECT files FROM history_files WHERE first_file <= ?1 ORDER BY first_file DESC LIMIT 1";
    Ok(connection
        .prepare_cached(text)?
        .query_row([file as i64], |row| row.get(0))
        .optional()?)
}
