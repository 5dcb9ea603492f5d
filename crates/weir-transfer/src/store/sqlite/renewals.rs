//! What issuers gave for tokens.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use crate::{
    model::TokenHash,
    store::{Due, Expiring, Renewal, Sealer, StoreError, renewals::LOOK_MAX},
    time::Millis,
};

/// A submission names a token that may be renewed. What was renewed is not due again.
pub(super) fn expect(
    transaction: &Transaction<'_>,
    token_no: i64,
    expiring: Expiring,
    (first, last): (u64, u64),
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO renewals (token_no, expires, due, first_file, last_file) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (token_no) DO UPDATE SET due = iif(sealed IS NULL, excluded.due, NULL),
             last_file = max(last_file, excluded.last_file)",
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
    let mut statement = connection
        .prepare_cached("SELECT r.sealed FROM renewals r JOIN tokens t ON t.token_no = r.token_no WHERE t.hash = ?1")?;
    let sealed: Option<Option<Vec<u8>>> = statement.query_row([token.0], |row| row.get(0)).optional()?;
    let sealed = sealed.flatten();
    sealed.map(|sealed| Renewal::open(token, &sealed, sealer)).transpose()
}

pub(super) fn renewed(
    connection: &mut Connection,
    sealer: &Sealer,
    outcomes: &[(TokenHash, Option<Renewal>)],
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut keep = transaction.prepare_cached(
            "INSERT INTO renewals (token_no, expires, due, first_file, last_file, sealed)
             SELECT token_no, 0, NULL, 0, 0, ?2 FROM tokens WHERE hash = ?1
             ON CONFLICT (token_no) DO UPDATE SET due = NULL, sealed = coalesce(excluded.sealed, sealed)",
        )?;
        for (token, renewal) in outcomes {
            keep.execute(params![
                token.0,
                renewal.as_ref().map(|renewal| renewal.seal(*token, sealer))
            ])?;
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
        "SELECT r.token_no, t.hash, t.sealed, r.first_file, r.last_file FROM renewals r
         JOIN tokens t ON t.token_no = r.token_no WHERE r.due <= ?1 ORDER BY r.expires, r.token_no LIMIT ?2 OFFSET ?3",
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
        let Some(token) = sealer.open(hash, &sealed) else {
            return Err(StoreError::Sealed(hash.short()));
        };
        let looked = live.exists(params![token_no, first, last, LOOK_MAX as i64])?;
        let needed = looked || last - first >= LOOK_MAX as i64;
        due.push(Due { hash, token, needed });
    }
    Ok(due)
}
