//! Tokens, and their renewed tokens from issuers.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use weir_executor::{
    job::TokenHash,
    orders::{Due, Expiring, Renewal},
};
use weir_service::time::Millis;

use crate::store::{
    Sealer, StoreError, Submission,
    renewals::{self, LOOK_MAX},
};

/// Writes a token that is not known yet, with the files that name it; gives its number.
pub(super) fn write_token(
    transaction: &Transaction<'_>,
    sealer: &Sealer,
    submission: &Submission,
    (hash, files): (TokenHash, i64),
) -> Result<Option<i64>, StoreError> {
    let expiring = submission.expiring.get(&hash);
    let (first, last) = submission.range();
    let fresh = transaction
        .prepare_cached(
            "INSERT INTO tokens (hash, sealed, first_seen, n_refs, expires, due, first_file, last_file)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
             WHERE NOT EXISTS (SELECT 1 FROM tokens WHERE substr(hash, 1, 4) = substr(?1, 1, 4) AND hash = ?1)",
        )?
        .execute(params![
            hash.0,
            submission.sealed_token(hash, sealer)?,
            submission.job.submitted,
            files,
            expiring.map(|expiring| expiring.expires),
            expiring.map(|expiring| expiring.due),
            expiring.map(|_| first as i64),
            expiring.map(|_| last as i64)
        ])?;
    Ok((fresh > 0).then(|| transaction.last_insert_rowid()))
}

pub(super) fn number_of(connection: &Connection, token: TokenHash) -> Result<i64, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT token_no FROM tokens WHERE substr(hash, 1, 4) = substr(?1, 1, 4) AND hash = ?1")?;
    Ok(statement.query_row([token.0], |row| row.get(0))?)
}

/// A submission names a known token that may be renewed. A renewed token is not due again.
pub(super) fn expect(
    transaction: &Transaction<'_>,
    token_no: i64,
    expiring: Expiring,
    (first, last): (u64, u64),
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "UPDATE tokens SET expires = ?2, due = iif(renewed, NULL, ?3), first_file = coalesce(first_file, ?4),
             last_file = max(coalesce(last_file, 0), ?5) WHERE token_no = ?1",
        )?
        .execute(params![
            token_no,
            expiring.expires,
            expiring.due,
            first as i64,
            last as i64
        ])?;
    Ok(())
}

pub(super) fn renewal(
    connection: &Connection,
    sealer: &Sealer,
    token: TokenHash,
) -> Result<Option<Renewal>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT r.sealed FROM tokens t JOIN renewals r ON r.token_no = t.token_no
             WHERE substr(t.hash, 1, 4) = substr(?1, 1, 4) AND t.hash = ?1",
    )?;
    let sealed: Option<Vec<u8>> = statement.query_row([token.0], |row| row.get(0)).optional()?;
    sealed.map(|sealed| renewals::open(token, &sealed, sealer)).transpose()
}

pub(super) fn renewed(
    connection: &mut Connection,
    sealer: &Sealer,
    outcomes: &[(TokenHash, Option<Renewal>)],
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut done = transaction.prepare_cached(
            "UPDATE tokens SET due = NULL, renewed = renewed OR ?2
             WHERE substr(hash, 1, 4) = substr(?1, 1, 4) AND hash = ?1 RETURNING token_no",
        )?;
        let mut keep = transaction.prepare_cached(
            "INSERT INTO renewals VALUES (?1, ?2) ON CONFLICT (token_no) DO UPDATE SET sealed = excluded.sealed",
        )?;
        for (token, renewal) in outcomes {
            let number = done
                .query_row(params![token.0, renewal.is_some()], |row| row.get::<_, i64>(0))
                .optional()?;
            if let (Some(number), Some(renewal)) = (number, renewal) {
                keep.execute(params![number, renewals::seal(renewal, *token, sealer)])?;
            }
        }
    }
    Ok(transaction.commit()?)
}

pub(super) fn due(
    connection: &Connection,
    sealer: &Sealer,
    now: Millis,
    (skip, limit): (usize, usize),
) -> Result<Vec<Due>, StoreError> {
    let mut rows = connection.prepare_cached(
        "SELECT token_no, hash, sealed, first_file, last_file FROM tokens
         WHERE due <= ?1 ORDER BY expires, token_no LIMIT ?2 OFFSET ?3",
    )?;
    let rows = rows.query_map(params![now, limit as i64, skip as i64], |row| {
        let (first, last): (i64, i64) = (row.get(3)?, row.get(4)?);
        Ok((
            row.get::<_, i64>(0)?,
            TokenHash(row.get(1)?),
            row.get::<_, Vec<u8>>(2)?,
            (first, last),
        ))
    })?;
    let mut live = connection.prepare_cached(
        "SELECT 1 FROM (SELECT finished, src_token, dst_token FROM files WHERE file_id BETWEEN ?2 AND ?3
         ORDER BY file_id DESC LIMIT ?4) WHERE finished IS NULL AND (src_token = ?1 OR dst_token = ?1) LIMIT 1",
    )?;
    let mut due = Vec::new();
    for row in rows {
        let (token_no, hash, sealed, (first, last)) = row?;
        let token = sealer.open(hash, &sealed);
        let looked = live.exists(params![token_no, first, last, LOOK_MAX as i64])?;
        let needed = looked || last - first >= LOOK_MAX as i64;
        due.push(Due { hash, token, needed });
    }
    Ok(due)
}
