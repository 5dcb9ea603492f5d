//! Sessions: after a login a token stands for the account for an hour. The database holds its hash only.

use aws_lc_rs::{digest, rand};
use weir_auth::Secret;
use weir_database::{Session, values};
use weir_model::catalog::AccountName;
use weir_store::StoreError;

use weir_service::time::Millis;

/// How long a token is good (Rucio's default).
pub const LIFETIME: Millis = 3_600_000;

/// Sessions that ended are forgotten so many at a time.
const FORGET: i64 = 1000;

/// The account behind a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The account.
    pub account: AccountName,
    /// The identity that was proven.
    pub identity: String,
    /// When the token ends.
    pub expires: Millis,
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

/// Begins a session; gives its token, of 256 random bits.
///
/// # Errors
/// The system gives no random bytes, or the database fails.
pub fn begin(
    session: &mut dyn Session,
    account: &AccountName,
    identity: &str,
    now: Millis,
) -> Result<Secret, StoreError> {
    let mut random = [0_u8; 32];
    rand::fill(&mut random).map_err(|_| StoreError::Broken("the system gives no random bytes".into()))?;
    let token = random.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = "INSERT INTO sessions (token, account, identity, created, expires) VALUES ($1, $2, $3, $4, $5)";
    let values = values![hash(&token), account.as_str(), identity, now, now + LIFETIME];
    session.execute(text, &values)?;
    Ok(Secret::new(token))
}

/// The account behind a token; `None` if the token is unknown, has expired, or the account may not be used.
pub fn bearer(session: &mut dyn Session, token: &str, now: Millis) -> Result<Option<Bearer>, StoreError> {
    let text = "SELECT s.account, s.identity, s.expires FROM sessions s JOIN accounts a USING (account)
        WHERE s.token = $1 AND s.expires > $2 AND a.status = 'A'";
    let Some(row) = session.row(text, &values![hash(token), now])? else {
        return Ok(None);
    };
    Ok(Some(Bearer {
        account: row.parsed(0)?,
        identity: row.text(1)?.to_owned(),
        expires: row.int(2)?,
    }))
}

/// Forgets sessions that have ended; whether there may be more of them.
pub fn forget(session: &mut dyn Session, now: Millis) -> Result<bool, StoreError> {
    let text = "DELETE FROM sessions WHERE token IN (SELECT token FROM sessions WHERE expires <= $1 ORDER BY expires LIMIT $2)";
    Ok(session.execute(text, &values![now, FORGET])? == FORGET as u64)
}
