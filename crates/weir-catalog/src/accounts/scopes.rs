//! Scopes: namespaces of DIDs, each of which belongs to an account.

use weir_database::{Session, values};
use weir_model::catalog::{AccountName, Scope};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::{
    accounts,
    refusal::{Class, Refusal},
};

/// Gives an account a scope.
///
/// # Errors
/// [`Class::AccountNotFound`], [`Class::Duplicate`].
pub fn add(session: &mut dyn Session, scope: &Scope, owner: &AccountName, now: Millis) -> Result<(), StoreError> {
    accounts::existing(session, owner)?;
    let text = "INSERT INTO scopes (scope, account, created) VALUES ($1, $2, $3) ON CONFLICT (scope) DO NOTHING";
    if session.execute(text, &values![scope.as_str(), owner.as_str(), now])? == 0 {
        let message = format!("Scope '{scope}' already exists!");
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    Ok(())
}

/// All scopes with their owners, by scope.
pub fn list(session: &mut dyn Session) -> Result<Vec<(Scope, AccountName)>, StoreError> {
    let rows = session.query("SELECT scope, account FROM scopes ORDER BY scope", &[])?;
    rows.iter().map(|row| Ok((row.parsed(0)?, row.parsed(1)?))).collect()
}

/// The scopes of an account, by name.
///
/// # Errors
/// [`Class::AccountNotFound`].
pub fn of(session: &mut dyn Session, owner: &AccountName) -> Result<Vec<Scope>, StoreError> {
    accounts::existing(session, owner)?;
    let text = "SELECT scope FROM scopes WHERE account = $1 ORDER BY scope";
    let rows = session.query(text, &values![owner.as_str()])?;
    rows.iter().map(|row| row.parsed(0)).collect()
}

/// The owner of a scope.
///
/// # Errors
/// [`Class::ScopeNotFound`].
pub fn owner(session: &mut dyn Session, scope: &Scope) -> Result<AccountName, StoreError> {
    let found = session.row("SELECT account FROM scopes WHERE scope = $1", &values![scope.as_str()])?;
    let missing = || Refusal::new(Class::ScopeNotFound, format!("Scope '{scope}' does not exist"));
    found.ok_or_else(missing)?.parsed(0)
}
