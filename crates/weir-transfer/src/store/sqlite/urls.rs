//! URLs, and their sealed queries.

use rusqlite::{Connection, Row, Transaction, params, types::Type};
use weir_executor::{
    job::{File, NewFile},
    surl::Surl,
};

use crate::store::{
    Sealer, StoreError,
    urls::{SealedUrls, hidden_range, opened, put_back},
};

/// A URL as its row has it.
pub(super) fn surl(row: &Row<'_>, column: usize) -> rusqlite::Result<Surl> {
    let url = Surl::try_from(row.get::<_, String>(column)?);
    url.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

pub(super) fn keep(transaction: &Transaction<'_>, sealed: &SealedUrls) -> Result<(), StoreError> {
    transaction
        .prepare_cached("INSERT INTO urls VALUES (?1, ?2, ?3)")?
        .execute(params![sealed.file as i64, sealed.source, sealed.destination])?;
    Ok(())
}

/// See [`crate::store::Store::reveal`].
pub(super) fn reveal(connection: &Connection, sealer: &Sealer, files: &mut [File]) -> Result<(), StoreError> {
    let Some(range) = hidden_range(files.iter().map(|file| &file.spec)) else {
        return Ok(());
    };
    let sealed = between(connection, range)?;
    put_back(files.iter_mut().map(|file| &mut file.spec), &sealed, sealer);
    Ok(())
}

/// For the executor, which can do nothing without.
pub(super) fn open(connection: &Connection, sealer: &Sealer, file: &mut NewFile) -> Result<(), StoreError> {
    let Some(range) = hidden_range([&*file]) else {
        return Ok(());
    };
    put_back([&mut *file], &between(connection, range)?, sealer);
    opened(file)
}

fn between(connection: &Connection, range: [i64; 2]) -> Result<Vec<SealedUrls>, StoreError> {
    let text = "SELECT file_id, source, dest FROM urls WHERE file_id BETWEEN ?1 AND ?2 ORDER BY file_id";
    let mut statement = connection.prepare_cached(text)?;
    let rows = statement.query_map(range, |row| {
        Ok(SealedUrls {
            file: row.get::<_, i64>(0)? as u64,
            source: row.get(1)?,
            destination: row.get(2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
