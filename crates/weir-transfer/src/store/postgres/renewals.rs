//! What issuers gave for tokens.
//!
//! A row goes with its token. No foreign key says so, as it would be looked up for every token of a submission: who writes a row holds its
//! token's (`FOR KEY SHARE`, or has just written it), and who removes a token looks for its row after that.

use std::collections::HashMap;

use super::{decode::get, session::Session};
use crate::{
    model::TokenHash,
    store::{Due, Renewal, Sealer, StoreError, Submission, Turn, renewals::LOOK_MAX},
    time::Millis,
};

/// Submissions name tokens that may be renewed. What was renewed is not due again. In the order of hashes, as their tokens.
pub(super) fn expect(
    session: &mut Session,
    submissions: &[&Submission],
    tokens: &HashMap<TokenHash, i64>,
) -> Result<(), StoreError> {
    let mut rows = std::collections::BTreeMap::new();
    for submission in submissions {
        let (first, last) = submission.range();
        for (hash, expiring) in &submission.expiring {
            if let Some(number) = tokens.get(hash) {
                let row = rows.entry(*hash).or_insert((*number, *expiring, first, last));
                row.3 = row.3.max(last);
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let column = |of: fn(&(i64, crate::store::Expiring, u64, u64)) -> i64| rows.values().map(of).collect::<Vec<_>>();
    session.execute(
        "INSERT INTO renewals (token_no, expires, due, first_file, last_file)
         SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         ON CONFLICT (token_no) DO UPDATE SET due = CASE WHEN renewals.sealed IS NULL THEN excluded.due END,
         last_file = greatest(renewals.last_file, excluded.last_file)",
        &[
            &column(|row| row.0),
            &column(|row| row.1.expires),
            &column(|row| row.1.due),
            &column(|row| row.2 as i64),
            &column(|row| row.3 as i64),
        ],
    )?;
    Ok(())
}

pub(super) fn renewal(session: &mut Session, sealer: &Sealer, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
    let row = session.row(
        "SELECT r.sealed FROM renewals r JOIN tokens t ON t.token_no = r.token_no WHERE t.hash = $1",
        &[&token.0.as_slice()],
    )?;
    opened(row.as_ref(), sealer, token)
}

fn opened(row: Option<&tokio_postgres::Row>, sealer: &Sealer, token: TokenHash) -> Result<Option<Renewal>, StoreError> {
    let Some(row) = row else { return Ok(None) };
    let sealed = get::<Option<&[u8]>>(row, 0)?;
    sealed.map(|sealed| Renewal::open(token, sealed, sealer)).transpose()
}

/// One statement, so that of two nodes one waits for the other's row and then finds it taken. By this node's clock and the other's:
/// they are some seconds apart at most, and a claim lasts longer than any request.
pub(super) fn claim(
    session: &mut Session,
    sealer: &Sealer,
    token: TokenHash,
    (now, until): (Millis, Millis),
) -> Result<Turn, StoreError> {
    let row = session.row(
        "INSERT INTO renewals (token_no, expires, first_file, last_file, claimed)
         SELECT token_no, 0, 0, 0, $3 FROM tokens WHERE hash = $1 FOR KEY SHARE
         ON CONFLICT (token_no) DO UPDATE SET claimed = excluded.claimed
         WHERE renewals.claimed IS NULL OR renewals.claimed <= $2 RETURNING sealed",
        &[&token.0.as_slice(), &now, &until],
    )?;
    match row {
        Some(row) => opened(Some(&row), sealer, token).map(Turn::Ours),
        None => Ok(Turn::Theirs),
    }
}

/// Also lets go of the claims.
pub(super) fn renewed(
    session: &mut Session,
    sealer: &Sealer,
    outcomes: &[(TokenHash, Option<Renewal>)],
) -> Result<(), StoreError> {
    let hashes = outcomes.iter().map(|(token, _)| token.0.to_vec()).collect::<Vec<_>>();
    let seal = |(token, renewal): &(TokenHash, Option<Renewal>)| renewal.as_ref().map(|one| one.seal(*token, sealer));
    let sealed = outcomes.iter().map(seal).collect::<Vec<_>>();
    session.execute(
        "INSERT INTO renewals (token_no, expires, first_file, last_file, sealed)
         SELECT t.token_no, 0, 0, 0, d.sealed FROM unnest($1::bytea[], $2::bytea[]) AS d (hash, sealed)
         JOIN tokens t ON t.hash = d.hash ORDER BY d.hash FOR KEY SHARE OF t
         ON CONFLICT (token_no) DO UPDATE SET due = NULL, claimed = NULL,
         sealed = coalesce(excluded.sealed, renewals.sealed)",
        &[&hashes, &sealed],
    )?;
    Ok(())
}

pub(super) fn release(session: &mut Session, tokens: &[TokenHash]) -> Result<(), StoreError> {
    let hashes = tokens.iter().map(|token| token.0.to_vec()).collect::<Vec<_>>();
    session.execute(
        "UPDATE renewals SET claimed = NULL WHERE token_no IN (SELECT token_no FROM tokens WHERE hash = ANY ($1))",
        &[&hashes],
    )?;
    Ok(())
}

pub(super) fn due(
    session: &mut Session,
    sealer: &Sealer,
    now: Millis,
    (skip, limit): (usize, usize),
) -> Result<Vec<Due>, StoreError> {
    let rows = session.query(
        "SELECT t.hash, t.sealed, r.last_file - r.first_file >= $3 OR EXISTS (
             SELECT 1 FROM (SELECT finished, src_token, dst_token FROM files
                 WHERE file_id BETWEEN r.first_file AND r.last_file ORDER BY file_id DESC LIMIT $3) AS f
             WHERE f.finished IS NULL AND (f.src_token = r.token_no OR f.dst_token = r.token_no))
         FROM (SELECT * FROM renewals WHERE due <= $1 ORDER BY expires, token_no LIMIT $2 OFFSET $4) AS r
         JOIN tokens t ON t.token_no = r.token_no ORDER BY r.expires, r.token_no",
        &[&now, &(limit as i64), &(LOOK_MAX as i64), &(skip as i64)],
    )?;
    let read = |row: &tokio_postgres::Row| {
        let hash = <[u8; 32]>::try_from(get::<&[u8]>(row, 0)?).map_err(|error| StoreError::Broken(error.into()))?;
        let hash = TokenHash(hash);
        let token = sealer.open(hash, get(row, 1)?);
        Ok(Due {
            hash,
            token: token.ok_or_else(|| StoreError::Sealed(hash.short()))?,
            needed: get(row, 2)?,
        })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use crate::store::{
        PostgresStore, Renewal, Store as _, Turn, hash_of,
        postgres::{
            server::wanted,
            tests::{OnServer, submit},
        },
        suite::Keeper as _,
    };

    #[test]
    fn of_several_nodes_one_asks_for_a_token() {
        // Two that show one refresh token make an issuer take both back.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (one, other) = (keeper.open(), keeper.handle());
        one.apply(&[submit(1, 1, 1)]).unwrap();
        let token = hash_of("token-of-1");
        let ours = |turn: Turn| match turn {
            Turn::Ours(renewal) => Some(renewal.is_some()),
            Turn::Theirs => None,
        };
        let claim = |store: &PostgresStore, now| ours(store.claim_renewal(token, now, now + 30).unwrap());
        assert_eq!((claim(&one, 0), claim(&other, 0)), (Some(false), None));
        one.release_renewals(&[token]).unwrap();
        assert_eq!((claim(&other, 1), claim(&one, 30)), (Some(false), None));
        let renewal = Renewal {
            access: None,
            expires: 0,
            good_until: 0,
            refresh: Some(weir_auth::Secret::new("r")),
        };
        other.renewed(&[(token, Some(renewal))]).unwrap();
        assert_eq!((claim(&one, 2), claim(&other, 3)), (Some(true), None));
        // A node that died gives nothing back.
        assert_eq!(claim(&other, 32), Some(true));
    }
}
