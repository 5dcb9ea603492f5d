//! Accounts: owners of data, scopes and rules.

pub mod identities;
pub mod limits;
pub mod scopes;
pub mod sessions;

use weir_database::{Row, Session, values};
use weir_model::catalog::{AccountName, AccountStatus, AccountType};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::refusal::{Class, Refusal};

/// An account as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: AccountName,
    /// Person, group or program.
    pub kind: AccountType,
    /// Whether it may be used.
    pub status: AccountStatus,
    /// Where its owner is written to.
    pub email: Option<String>,
    /// When it was made.
    pub created: Millis,
    /// When it last changed.
    pub updated: Millis,
    /// When it was suspended.
    pub suspended: Option<Millis>,
    /// When it was deleted.
    pub deleted: Option<Millis>,
    /// Whether it may do everything: `root`, and accounts whose attribute `admin` is true.
    pub is_admin: bool,
}

const COLUMNS: &str =
    "account, type, status, email, created, updated, suspended, deleted, account = 'root' OR EXISTS (SELECT 1
    FROM account_attributes t WHERE t.account = accounts.account AND t.key = 'admin' AND lower(t.value) = 'true')";

fn account(row: &Row) -> Result<Account, StoreError> {
    Ok(Account {
        name: row.parsed(0)?,
        kind: row.parsed(1)?,
        status: row.parsed(2)?,
        email: row.optional(3, Row::text)?.map(str::to_owned),
        created: row.int(4)?,
        updated: row.int(5)?,
        suspended: row.optional(6, Row::int)?,
        deleted: row.optional(7, Row::int)?,
        is_admin: row.bool(8)?,
    })
}

fn missing(name: &AccountName) -> Refusal {
    Refusal::new(
        Class::AccountNotFound,
        format!("Account with ID '{name}' cannot be found"),
    )
}

/// Adds an account.
///
/// # Errors
/// [`Class::Duplicate`]; the name of a deleted account is not given again.
pub fn add(
    session: &mut dyn Session,
    name: &AccountName,
    kind: AccountType,
    email: Option<&str>,
    now: Millis,
) -> Result<(), StoreError> {
    let text = "INSERT INTO accounts (account, type, status, email, created, updated) VALUES ($1, $2, 'A', $3, $4, $4)
        ON CONFLICT (account) DO NOTHING";
    let values = values![name.as_str(), kind.letter(), email, now];
    if session.execute(text, &values)? == 0 {
        let message = format!("Account ID '{name}' already exists!");
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    Ok(())
}

/// An account, deleted ones too.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn get(session: &mut dyn Session, name: &AccountName) -> Result<Account, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM accounts WHERE account = $1");
    let row = session.row(&text, &values![name.as_str()])?;
    account(&row.ok_or_else(|| missing(name))?)
}

/// An account that is not deleted.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn existing(session: &mut dyn Session, name: &AccountName) -> Result<Account, StoreError> {
    let account = get(session, name)?;
    if account.status == AccountStatus::Deleted {
        return Err(missing(name).into());
    }
    Ok(account)
}

/// Selects accounts for a listing.
#[derive(Debug, Clone, Default)]
pub struct AccountFilter {
    /// Accounts of this type.
    pub kind: Option<AccountType>,
    /// Accounts that this identity may use.
    pub identity: Option<String>,
}

/// Accounts that are not deleted, by name.
pub fn list(session: &mut dyn Session, filter: &AccountFilter) -> Result<Vec<Account>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS} FROM accounts WHERE status <> 'D' AND ($1 = '' OR type = $1)
         AND ($2 = '' OR account IN (SELECT i.account FROM account_identities i WHERE i.identity = $2)) ORDER BY account"
    );
    let kind = filter.kind.map(|kind| kind.letter().to_string()).unwrap_or_default();
    let values = values![kind, filter.identity.as_deref().unwrap_or_default()];
    session.query(&text, &values)?.iter().map(account).collect()
}

/// A change of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountChange {
    /// Whether it may be used.
    Status(AccountStatus),
    /// Where its owner is written to.
    Email(String),
    /// Person, group or program.
    Kind(AccountType),
}

/// Changes an account. Sessions of an unusable account end.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn change(
    session: &mut dyn Session,
    name: &AccountName,
    change: &AccountChange,
    now: Millis,
) -> Result<(), StoreError> {
    existing(session, name)?;
    match change {
        AccountChange::Email(email) => {
            let text = "UPDATE accounts SET email = $2, updated = $3 WHERE account = $1";
            session.execute(text, &values![name.as_str(), email.as_str(), now])?;
        }
        AccountChange::Kind(kind) => {
            let text = "UPDATE accounts SET type = $2, updated = $3 WHERE account = $1";
            session.execute(text, &values![name.as_str(), kind.letter(), now])?;
        }
        AccountChange::Status(status) => {
            let text = "UPDATE accounts SET status = $2, updated = $3, suspended = $4, deleted = $5 WHERE account = $1";
            let at = |wanted| (*status == wanted).then_some(now);
            let (suspended, deleted) = (at(AccountStatus::Suspended), at(AccountStatus::Deleted));
            session.execute(text, &values![name.as_str(), status.letter(), now, suspended, deleted])?;
            if *status != AccountStatus::Active {
                session.execute("DELETE FROM sessions WHERE account = $1", &values![name.as_str()])?;
            }
        }
    }
    Ok(())
}

/// The attributes of an account, by key.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn attributes(session: &mut dyn Session, name: &AccountName) -> Result<Vec<(String, String)>, StoreError> {
    existing(session, name)?;
    let text = "SELECT key, value FROM account_attributes WHERE account = $1 ORDER BY key";
    let rows = session.query(text, &values![name.as_str()])?;
    rows.iter()
        .map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))
        .collect()
}

/// Whether an attribute of an account is true.
///
/// # Errors
/// The database fails.
pub fn has_attribute(session: &mut dyn Session, name: &AccountName, key: &str) -> Result<bool, StoreError> {
    let text = "SELECT 1 FROM account_attributes WHERE account = $1 AND key = $2 AND lower(value) = 'true'";
    Ok(session.row(text, &values![name.as_str(), key])?.is_some())
}

/// Gives an account an attribute.
///
/// # Errors
/// [`Class::AccountNotFound`], [`Class::Duplicate`] if it has one of this key.
pub fn add_attribute(session: &mut dyn Session, name: &AccountName, key: &str, value: &str) -> Result<(), StoreError> {
    existing(session, name)?;
    let text = "INSERT INTO account_attributes (account, key, value) VALUES ($1, $2, $3) ON CONFLICT (account, key) DO NOTHING";
    if session.execute(text, &values![name.as_str(), key, value])? == 0 {
        let message = format!("Key {key} already exist for account {name}!");
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    Ok(())
}

/// Takes an attribute away.
///
/// # Errors
/// [`Class::AccountNotFound`]: of an account, or of an attribute, as in Rucio.
pub fn remove_attribute(session: &mut dyn Session, name: &AccountName, key: &str) -> Result<(), StoreError> {
    existing(session, name)?;
    let text = "DELETE FROM account_attributes WHERE account = $1 AND key = $2";
    if session.execute(text, &values![name.as_str(), key])? == 0 {
        let message = format!("Attribute ({key}) does not exist for the account {name}!");
        return Err(Refusal::new(Class::AccountNotFound, message).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
