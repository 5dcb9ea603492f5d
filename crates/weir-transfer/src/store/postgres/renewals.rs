//! Tokens, and their renewed tokens from issuers.
//!
//! A row of `renewals` is deleted with its token. There is no foreign key, as it would be checked for every token of a
//! submission. Instead, a writer of a row holds its token's row (`FOR KEY SHARE`, or has just written it). A
//! transaction that removes a token checks for its row after that.

use std::collections::{BTreeMap, HashMap};

use weir_store::postgres::Session;

use super::decode::get;
use weir_executor::{
    job::TokenHash,
    orders::{Due, Expiring, Renewal, Turn},
};
use weir_service::time::Millis;

use crate::store::{
    Sealer, StoreError, Submission,
    renewals::{self, LOOK_MAX},
};

/// A token as submissions of one batch name it.
struct NamedToken<'a> {
    hash: TokenHash,
    by: &'a Submission,
    files: i64,
    expiring: Option<(Expiring, u64, u64)>,
}

impl NamedToken<'_> {
    fn expiring<T>(&self, of: impl Fn(&(Expiring, u64, u64)) -> T) -> Option<T> {
        self.expiring.as_ref().map(of)
    }
}

/// The tokens of a batch, in the order of hashes, so that no two writers wait for each other.
fn named<'a>(submissions: &[&'a Submission]) -> Vec<NamedToken<'a>> {
    let mut named = BTreeMap::<TokenHash, NamedToken<'a>>::new();
    for submission in submissions {
        for file in &submission.files {
            for hash in [file.source_token, file.destination_token].into_iter().flatten() {
                let fresh = || NamedToken {
                    hash,
                    by: submission,
                    files: 0,
                    expiring: None,
                };
                named.entry(hash).or_insert_with(fresh).files += 1;
            }
        }
        let (first, last) = submission.range();
        for (hash, expiring) in &submission.expiring {
            if let Some(token) = named.get_mut(hash) {
                let since = token.expiring.map_or(first, |(_, since, _)| since);
                token.expiring = Some((*expiring, since, last));
            }
        }
    }
    named.into_values().collect()
}

/// The numbers of the tokens that submissions name: unknown ones are written. A renewed token is not due again.
pub(super) fn tokens(
    session: &mut Session,
    sealer: &Sealer,
    submissions: &[&Submission],
) -> Result<HashMap<TokenHash, i64>, StoreError> {
    let named = named(submissions);
    if named.is_empty() {
        return Ok(HashMap::new());
    }
    let column = |of: fn(&NamedToken<'_>) -> i64| named.iter().map(of).collect::<Vec<_>>();
    let maybe = |of: fn(&NamedToken<'_>) -> Option<i64>| named.iter().map(of).collect::<Vec<_>>();
    let sealed = named.iter().map(|token| token.by.sealed_token(token.hash, sealer));
    let sealed = sealed.collect::<Result<Vec<_>, _>>()?;
    let rows = session.query(
        "INSERT INTO tokens (hash, sealed, first_seen, n_refs, expires, due, first_file, last_file)
         SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
             $8::bigint[])
         ON CONFLICT (hash) DO UPDATE SET n_refs = tokens.n_refs + excluded.n_refs,
             expires = coalesce(excluded.expires, tokens.expires),
             due = CASE WHEN excluded.due IS NULL THEN tokens.due WHEN NOT tokens.renewed THEN excluded.due END,
             first_file = coalesce(tokens.first_file, excluded.first_file),
             last_file = greatest(tokens.last_file, excluded.last_file)
         RETURNING hash, token_no",
        &[
            &named.iter().map(|token| token.hash.0.as_slice()).collect::<Vec<_>>(),
            &sealed.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>(),
            &column(|token| token.by.job.submitted),
            &column(|token| token.files),
            &maybe(|token| token.expiring(|(expiring, ..)| expiring.expires)),
            &maybe(|token| token.expiring(|(expiring, ..)| expiring.due)),
            &maybe(|token| token.expiring(|(_, first, _)| *first as i64)),
            &maybe(|token| token.expiring(|(.., last)| *last as i64)),
        ],
    )?;
    rows.iter().map(|row| Ok((hash_in(row)?, get(row, 1)?))).collect()
}

/// The hash in a row's first column.
fn hash_in(row: &tokio_postgres::Row) -> Result<TokenHash, StoreError> {
    let hash = <[u8; 32]>::try_from(get::<&[u8]>(row, 0)?).map_err(|error| StoreError::Broken(error.into()))?;
    Ok(TokenHash(hash))
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
    sealed.map(|sealed| renewals::open(token, sealed, sealer)).transpose()
}

/// One statement: of two nodes the second waits for the first one's row and then finds it taken. Uses the database's
/// clock, as those of two nodes may be hours apart.
pub(super) fn claim(
    session: &mut Session,
    sealer: &Sealer,
    token: TokenHash,
    life: Millis,
) -> Result<Turn, StoreError> {
    let row = session.row(
        "INSERT INTO renewals (token_no, claimed)
         SELECT token_no, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2 FROM tokens WHERE hash = $1 FOR KEY SHARE
         ON CONFLICT (token_no) DO UPDATE SET claimed = excluded.claimed
         WHERE renewals.claimed IS NULL OR renewals.claimed <= excluded.claimed - $2 RETURNING sealed",
        &[&token.0.as_slice(), &life],
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
    let seal = |(token, renewal): &(TokenHash, Option<Renewal>)| {
        renewal.as_ref().map(|one| renewals::seal(one, *token, sealer))
    };
    let sealed = outcomes.iter().map(seal).collect::<Vec<_>>();
    session.execute(
        "WITH met AS (SELECT t.token_no, d.sealed FROM unnest($1::bytea[], $2::bytea[]) AS d (hash, sealed)
             JOIN tokens t ON t.hash = d.hash ORDER BY d.hash FOR NO KEY UPDATE OF t),
         done AS (UPDATE tokens t SET due = NULL, renewed = renewed OR met.sealed IS NOT NULL FROM met WHERE t.token_no = met.token_no)
         INSERT INTO renewals (token_no, sealed) SELECT * FROM met
         ON CONFLICT (token_no) DO UPDATE SET claimed = NULL, sealed = coalesce(excluded.sealed, renewals.sealed)",
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
        "SELECT t.hash, t.sealed, t.last_file - t.first_file >= $3 OR EXISTS (
             SELECT 1 FROM (SELECT finished, src_token, dst_token FROM files
                 WHERE file_id BETWEEN t.first_file AND t.last_file ORDER BY file_id DESC LIMIT $3) AS f
             WHERE f.finished IS NULL AND (f.src_token = t.token_no OR f.dst_token = t.token_no))
         FROM (SELECT * FROM tokens WHERE due <= $1 ORDER BY expires, token_no LIMIT $2 OFFSET $4) AS t
         ORDER BY t.expires, t.token_no",
        &[&now, &(limit as i64), &(LOOK_MAX as i64), &(skip as i64)],
    )?;
    let read = |row: &tokio_postgres::Row| {
        let hash = hash_in(row)?;
        Ok(Due {
            hash,
            token: sealer.open(hash, get(row, 1)?),
            needed: get(row, 2)?,
        })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_executor::orders::Orders as _;
    use weir_executor::{
        job::hash_of,
        orders::{Renewal, Turn},
    };
    use weir_store::postgres::testing::wanted;

    use crate::store::{
        Store as _,
        postgres::{
            PostgresStore,
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
        let claim = |store: &PostgresStore| ours(store.claim_renewal(token, 3_600_000).unwrap());
        assert_eq!((claim(&one), claim(&other)), (Some(false), None));
        one.release_renewals(&[token]).unwrap();
        assert_eq!((claim(&other), claim(&one)), (Some(false), None));
        let renewal = Renewal {
            access: None,
            expires: 0,
            good_until: 0,
            refresh: Some(weir_auth::Secret::new("r")),
        };
        other.renewed(&[(token, Some(renewal))]).unwrap();
        assert_eq!((claim(&one), claim(&other)), (Some(true), None));
        // A node that died gives nothing back.
        let an_hour_later = "UPDATE renewals SET claimed = claimed - 3600000";
        other.readers.with(|session| session.run(an_hour_later)).unwrap();
        assert_eq!((claim(&other), claim(&one)), (Some(true), None));
    }
}
