//! Secrets that are left with the service for a while.

use rusqlite::{Connection, OptionalExtension as _};
use weir_executor::{job::hash_of, orders::Kept};
use weir_service::time::Millis;

use crate::store::{Sealer, StoreError};

pub(super) fn keep(connection: &mut Connection, sealer: &Sealer, kept: &Kept, now: Millis) -> Result<(), StoreError> {
    let sealed = sealer.seal(hash_of(&kept.name), &kept.secret);
    let transaction = connection.transaction()?;
    transaction.execute("DELETE FROM secrets WHERE until <= ?1", [now])?;
    transaction.execute(
        "INSERT INTO secrets VALUES (?1, ?2, ?3)
         ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, until = excluded.until",
        (&kept.name, sealed, kept.until),
    )?;
    Ok(transaction.commit()?)
}

pub(super) fn replace(
    connection: &mut Connection,
    sealer: &Sealer,
    old: &Kept,
    kept: &Kept,
) -> Result<bool, StoreError> {
    let transaction = connection.transaction()?;
    if self::kept(&transaction, sealer, &old.name)?.is_none_or(|there| there.secret != old.secret) {
        return Ok(false);
    }
    let sealed = sealer.seal(hash_of(&kept.name), &kept.secret);
    let changed = transaction.execute(
        "UPDATE secrets SET sealed = ?2, until = ?3 WHERE name = ?1",
        (&kept.name, sealed, kept.until),
    )?;
    transaction.commit()?;
    Ok(changed == 1)
}

pub(super) fn kept(connection: &Connection, sealer: &Sealer, name: &str) -> Result<Option<Kept>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT sealed, until FROM secrets WHERE name = ?1")?;
    let row = statement.query_row([name], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((sealed, until)): Option<(Vec<u8>, Millis)> = row.optional()? else {
        return Ok(None);
    };
    let secret = sealer.open(hash_of(name), &sealed);
    let secret = secret.ok_or_else(|| StoreError::Sealed(name.to_owned()))?;
    let name = name.to_owned();
    Ok(Some(Kept { name, secret, until }))
}

pub(super) fn discard(connection: &Connection, name: &str) -> Result<bool, StoreError> {
    Ok(connection.execute("DELETE FROM secrets WHERE name = ?1", [name])? > 0)
}
