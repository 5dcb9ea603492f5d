//! Secrets that are left with the service for a while.

use weir_executor::{job::hash_of, orders::Kept};
use weir_service::time::Millis;
use weir_store::postgres::Session;

use crate::store::{Sealer, StoreError};

/// One statement: expired secrets are deleted, the new one is stored. A secret of the same name that expires after
/// `fresh` stays as it is.
pub(super) fn keep(
    session: &mut Session,
    sealer: &Sealer,
    kept: &Kept,
    now: Millis,
    fresh: Millis,
) -> Result<(), StoreError> {
    let sealed = sealer.seal(hash_of(&kept.name), &kept.secret);
    session.execute(
        "WITH gone AS (DELETE FROM secrets WHERE until <= $4 AND name <> $1)
         INSERT INTO secrets VALUES ($1, $2, $3)
         ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, until = excluded.until WHERE secrets.until <= $5",
        &[&kept.name, &sealed, &kept.until, &now, &fresh],
    )?;
    Ok(())
}

/// The stored value is compared here, and once more, sealed, in the update: another node may have been faster.
pub(super) fn replace(session: &mut Session, sealer: &Sealer, old: &Kept, kept: &Kept) -> Result<bool, StoreError> {
    let Some(row) = session.row("SELECT sealed FROM secrets WHERE name = $1", &[&old.name])? else {
        return Ok(false);
    };
    let there: Vec<u8> = row.get(0);
    if sealer
        .open(hash_of(&old.name), &there)
        .is_none_or(|secret| secret != old.secret)
    {
        return Ok(false);
    }
    let sealed = sealer.seal(hash_of(&kept.name), &kept.secret);
    let changed = session.execute(
        "UPDATE secrets SET sealed = $2, until = $3 WHERE name = $1 AND sealed = $4",
        &[&kept.name, &sealed, &kept.until, &there],
    )?;
    Ok(changed == 1)
}

pub(super) fn kept(session: &mut Session, sealer: &Sealer, name: &str) -> Result<Option<Kept>, StoreError> {
    let Some(row) = session.row("SELECT sealed, until FROM secrets WHERE name = $1", &[&name])? else {
        return Ok(None);
    };
    let secret = sealer.open(hash_of(name), row.get(0));
    Ok(Some(Kept {
        name: name.to_owned(),
        secret: secret.ok_or_else(|| StoreError::Sealed(name.to_owned()))?,
        until: row.get(1),
    }))
}

pub(super) fn discard(session: &mut Session, name: &str) -> Result<bool, StoreError> {
    Ok(session.execute("DELETE FROM secrets WHERE name = $1", &[&name])? > 0)
}
