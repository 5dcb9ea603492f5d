//! Identities: the certificates, passwords and tokens with which people and programs use accounts.

use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, pbkdf2, rand};
use weir_auth::Secret;
use weir_database::{Row, Session, values};
use weir_model::catalog::{AccountName, IdentityType};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::{
    accounts,
    refusal::{Class, Refusal},
};

/// Rounds of PBKDF2 with HMAC-SHA-512 for a password (OWASP, Password Storage Cheat Sheet, 2023).
const ROUNDS: NonZeroU32 = NonZeroU32::new(210_000).expect("it is not zero");

/// Bytes of a password's hash, and of its salt.
const HASH: usize = 64;
const SALT: usize = 16;

/// A password as it is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl std::fmt::Debug for PasswordHash {
    /// A weak password is guessed from its hash.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash")
    }
}

impl PasswordHash {
    /// Hashes a password, with a salt of its own: a tenth of a second of a processor, so not on a thread that others wait for.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(password: &Secret) -> Result<Self, StoreError> {
        let mut salt = [0; SALT];
        rand::fill(&mut salt).map_err(|_| StoreError::Broken("the system gives no random bytes".into()))?;
        let hash = derive(&salt, password);
        Ok(Self {
            salt: salt.into(),
            hash: hash.into(),
        })
    }

    /// Whether this is the password. Costs as much as [`Self::new`].
    pub fn fits(&self, password: &Secret) -> bool {
        constant_time::verify_slices_are_equal(&derive(&self.salt, password), &self.hash).is_ok()
    }
}

fn derive(salt: &[u8], password: &Secret) -> [u8; HASH] {
    let mut hash = [0; HASH];
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA512,
        ROUNDS,
        salt,
        password.expose().as_bytes(),
        &mut hash,
    );
    hash
}

/// An identity of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The subject of a certificate, a user name, `SUB=…, ISS=…`.
    pub identity: String,
    /// How it is proven.
    pub kind: IdentityType,
    /// Where its owner is written to.
    pub email: Option<String>,
}

/// Lets an identity use an account. An identity that is known keeps its password.
///
/// # Errors
/// [`Class::AccountNotFound`], [`Class::Duplicate`], [`Class::IdentityError`] if a password belongs there and is missing.
pub fn add(
    session: &mut dyn Session,
    identity: &Identity,
    account: &AccountName,
    is_default: bool,
    password: Option<&PasswordHash>,
    now: Millis,
) -> Result<(), StoreError> {
    accounts::existing(session, account)?;
    let (name, kind) = (identity.identity.as_str(), identity.kind.letter());
    let known = "SELECT identity FROM identities WHERE identity = $1 AND type = $2";
    if session.row(known, &values![name, kind])?.is_none() {
        if identity.kind == IdentityType::UserPass && password.is_none() {
            return Err(Refusal::new(Class::IdentityError, "You must provide a password!").into());
        }
        let text =
            "INSERT INTO identities (identity, type, email, salt, password, created) VALUES ($1, $2, $3, $4, $5, $6)";
        let salt = password.map(|password| password.salt.clone());
        let hash = password.map(|password| password.hash.clone());
        session.execute(text, &values![name, kind, identity.email.as_deref(), salt, hash, now])?;
    }
    let text =
        "INSERT INTO account_identities (account, identity, type, is_default, created) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (identity, type, account) DO NOTHING";
    let values = values![account.as_str(), name, kind, is_default, now];
    if session.execute(text, &values)? == 0 {
        let message = format!("Identity pair '{name}',{} already exists!", identity.kind);
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    Ok(())
}

/// Takes an account from an identity. An identity without accounts is deleted, and so are its sessions.
///
/// # Errors
/// [`Class::IdentityError`].
pub fn remove(
    session: &mut dyn Session,
    identity: &str,
    kind: IdentityType,
    account: &AccountName,
) -> Result<(), StoreError> {
    let text = "DELETE FROM account_identities WHERE identity = $1 AND type = $2 AND account = $3";
    if session.execute(text, &values![identity, kind.letter(), account.as_str()])? == 0 {
        let message = format!("Identity ({identity},{kind}) does not exist for the account {account}!");
        return Err(Refusal::new(Class::IdentityError, message).into());
    }
    let text = "DELETE FROM sessions WHERE identity = $1 AND account = $2";
    session.execute(text, &values![identity, account.as_str()])?;
    let text = "DELETE FROM identities WHERE identity = $1 AND type = $2 AND NOT EXISTS
        (SELECT 1 FROM account_identities a WHERE a.identity = $1 AND a.type = $2)";
    session.execute(text, &values![identity, kind.letter()])?;
    Ok(())
}

/// The identities of an account.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn of(session: &mut dyn Session, account: &AccountName) -> Result<Vec<Identity>, StoreError> {
    accounts::existing(session, account)?;
    let text = "SELECT i.identity, i.type, i.email FROM account_identities a
        JOIN identities i ON i.identity = a.identity AND i.type = a.type WHERE a.account = $1 ORDER BY 1, 2";
    let rows = session.query(text, &values![account.as_str()])?;
    rows.iter().map(identity).collect()
}

fn identity(row: &Row) -> Result<Identity, StoreError> {
    Ok(Identity {
        identity: row.text(0)?.to_owned(),
        kind: row.parsed(1)?,
        email: row.optional(2, Row::text)?.map(str::to_owned),
    })
}

/// The accounts that an identity may use and that may be used, the default one first.
pub fn accounts_of(
    session: &mut dyn Session,
    identity: &str,
    kind: IdentityType,
) -> Result<Vec<AccountName>, StoreError> {
    let text = "SELECT i.account FROM account_identities i JOIN accounts a USING (account)
        WHERE i.identity = $1 AND i.type = $2 AND a.status = 'A' ORDER BY i.is_default DESC, i.account";
    let rows = session.query(text, &values![identity, kind.letter()])?;
    rows.iter().map(|row| row.parsed(0)).collect()
}

/// The password of a user, if that has one.
pub fn password(session: &mut dyn Session, user: &str) -> Result<Option<PasswordHash>, StoreError> {
    let text = "SELECT salt, password FROM identities WHERE identity = $1 AND type = 'U' AND password IS NOT NULL";
    let Some(row) = session.row(text, &values![user])? else {
        return Ok(None);
    };
    Ok(Some(PasswordHash {
        salt: row.bytes(0)?.to_vec(),
        hash: row.bytes(1)?.to_vec(),
    }))
}
