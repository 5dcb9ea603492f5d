//! Accounts, identities, scopes, limits.

use std::collections::{BTreeMap, HashMap};

use axum::extract::{Path, Query};
use serde_json::{Value, json};
use weir_auth::Secret;
use weir_database::Session;
use weir_model::{
    RseName,
    catalog::{AccountName, AccountStatus, AccountType, IdentityType, Scope},
};
use weir_service::time;
use weir_store::StoreError;

use super::{
    State,
    answer::{Answer, Failure, created, done, json_answer, lines, see_other},
    auth::hashing,
    body::Object,
    caller::Caller,
};
use crate::{
    accounts::{
        self, Account, AccountChange, AccountFilter,
        identities::{self, Identity, PasswordHash},
        limits, scopes,
    },
    permissions::Operation,
    refusal::{Class, Refusal},
    rses,
};

fn name(text: &str) -> Result<AccountName, Failure> {
    text.parse().map_err(|error| {
        let message = format!("Problem validating account: {error}");
        Refusal::new(Class::InvalidObject, message).into()
    })
}

fn rse_name(text: &str) -> Result<RseName, Failure> {
    let parsed = text.parse::<RseName>();
    parsed.map_err(|error| Refusal::new(Class::InvalidObject, format!("Problem validating rse: {error}")).into())
}

fn kind(text: &str) -> Result<AccountType, Failure> {
    let invalid = |_| {
        let message = format!("{text} is an invalid account type. Choose from ['USER', 'GROUP', 'SERVICE']");
        Refusal::new(Class::InvalidAccountType, message).into()
    };
    text.parse().map_err(invalid)
}

fn shown(account: &Account) -> Value {
    let at = |millis: Option<i64>| millis.map(time::format);
    json!({
        "account": account.name, "account_type": account.kind, "status": account.status, "email": account.email,
        "created_at": time::format(account.created), "updated_at": time::format(account.updated),
        "suspended_at": at(account.suspended), "deleted_at": at(account.deleted),
    })
}

/// `GET /accounts/{account}`.
pub(crate) async fn get(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    let account = name(&account)?;
    let read = move |session: &mut dyn Session| accounts::get(session, &account);
    Ok(json_answer(&shown(&door.database.read(read).await?)))
}

/// `GET /accounts/whoami`.
pub(crate) async fn whoami(caller: Caller) -> Answer {
    Ok(see_other(caller.account().as_str()))
}

/// `GET /accounts/`.
pub(crate) async fn list(door: State, _: Caller, Query(query): Query<HashMap<String, String>>) -> Answer {
    let filter = AccountFilter {
        kind: query.get("account_type").map(|text| kind(text)).transpose()?,
        identity: query.get("identity").cloned(),
    };
    let read = move |session: &mut dyn Session| accounts::list(session, &filter);
    let found = door.database.read(read).await?;
    let row = |account: &Account| json!({ "account": account.name, "type": account.kind, "email": account.email });
    Ok(lines(found.iter().map(row)))
}

/// `POST /accounts/{account}`.
pub(crate) async fn add(door: State, caller: Caller, Path(account): Path<String>, body: Object) -> Answer {
    let (account, now) = (name(&account)?, time::now());
    let (kind, email) = (kind(body.needed("type")?)?, body.text("email")?.map(str::to_owned));
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        accounts::add(session, &account, kind, email.as_deref(), now)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `PUT /accounts/{account}`.
pub(crate) async fn change(door: State, caller: Caller, Path(account): Path<String>, body: Object) -> Answer {
    let (account, now) = (name(&account)?, time::now());
    let mut changes = Vec::new();
    if let Some(email) = body.text("email")? {
        changes.push(AccountChange::Email(email.to_owned()));
    }
    if let Some(text) = body.text("account_type")? {
        changes.push(AccountChange::Kind(kind(text)?));
    }
    if let Some(text) = body.text("status")? {
        let status = text.parse::<AccountStatus>();
        changes.push(AccountChange::Status(
            status.map_err(|error| Failure::value(error.to_string()))?,
        ));
    }
    changing(&door, caller, account, changes, now).await
}

/// `DELETE /accounts/{account}`.
pub(crate) async fn delete(door: State, caller: Caller, Path(account): Path<String>) -> Answer {
    let deleted = AccountChange::Status(AccountStatus::Deleted);
    changing(&door, caller, name(&account)?, vec![deleted], time::now()).await
}

async fn changing(door: &State, caller: Caller, account: AccountName, changes: Vec<AccountChange>, now: i64) -> Answer {
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        let mut changes = changes.iter();
        changes.try_for_each(|change| accounts::change(session, &account, change, now))
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `GET /accounts/{account}/attr/`.
pub(crate) async fn attributes(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    let account = name(&account)?;
    let read = move |session: &mut dyn Session| accounts::attributes(session, &account);
    let found = door.database.read(read).await?;
    let row = |(key, value): (String, String)| json!({ "key": key, "value": as_bool(&value) });
    Ok(json_answer(&found.into_iter().map(row).collect::<Vec<_>>()))
}

/// Rucio gives the texts `true` and `false` back as truth values.
pub(super) fn as_bool(value: &str) -> Value {
    match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        text => Value::from(text),
    }
}

/// An attribute's value as text: clients send texts, numbers and truth values.
pub(super) fn as_text(value: Option<&Value>) -> Result<String, Failure> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => Ok(value.to_string()),
        _ => Err(Failure::value("'value' is neither a text, a number, true nor false")),
    }
}

/// `POST /accounts/{account}/attr/{key}`.
pub(crate) async fn add_attribute(
    door: State,
    caller: Caller,
    Path((account, key)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (account, value) = (name(&account)?, as_text(body.value("value"))?);
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        accounts::add_attribute(session, &account, &key, &value)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `DELETE /accounts/{account}/attr/{key}`.
pub(crate) async fn remove_attribute(
    door: State,
    caller: Caller,
    Path((account, key)): Path<(String, String)>,
) -> Answer {
    let account = name(&account)?;
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        accounts::remove_attribute(session, &account, &key)
    };
    door.database.write(write).await?;
    Ok(done())
}

fn identity_type(body: &Object) -> Result<IdentityType, Failure> {
    let parsed = body.needed("authtype")?.parse::<IdentityType>();
    parsed.map_err(|error| Failure::value(error.to_string()))
}

/// `GET /accounts/{account}/identities`.
pub(crate) async fn identities(door: State, caller: Caller, Path(account): Path<String>) -> Answer {
    let account = name(&account)?;
    let read = move |session: &mut dyn Session| {
        caller.may(session, Operation::SeeIdentities, Some(&account))?;
        identities::of(session, &account)
    };
    let found = door.database.read(read).await?;
    let row = |one: &Identity| json!({ "type": one.kind, "identity": one.identity, "email": one.email });
    Ok(lines(found.iter().map(row)))
}

/// `POST /accounts/{account}/identities`.
pub(crate) async fn add_identity(door: State, caller: Caller, Path(account): Path<String>, body: Object) -> Answer {
    let (account, now) = (name(&account)?, time::now());
    let identity = Identity {
        identity: body.needed("identity")?.to_owned(),
        kind: identity_type(&body)?,
        email: body.text("email")?.map(str::to_owned),
    };
    let is_default = body.flag("default")?.unwrap_or_default();
    let password = match body.text("password")? {
        Some(password) => {
            // Before it costs anything.
            let (of, asks) = (account.clone(), caller.clone());
            let may = move |session: &mut dyn Session| asks.may(session, Operation::ChangeAccounts, Some(&of));
            door.database.read(may).await?;
            let password = Secret::new(password);
            Some(hashing(&door, move || PasswordHash::new(&password)).await??)
        }
        None => None,
    };
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        identities::add(session, &identity, &account, is_default, password.as_ref(), now)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `DELETE /accounts/{account}/identities`.
pub(crate) async fn remove_identity(door: State, caller: Caller, Path(account): Path<String>, body: Object) -> Answer {
    let (account, kind) = (name(&account)?, identity_type(&body)?);
    let identity = body.needed("identity")?.to_owned();
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        identities::remove(session, &identity, kind, &account)
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `GET /accounts/{account}/scopes/`.
pub(crate) async fn scopes(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    let account = name(&account)?;
    let of = account.clone();
    let read = move |session: &mut dyn Session| scopes::of(session, &of);
    let found = door.database.read(read).await?;
    if found.is_empty() {
        let message = format!("no scopes found for account ID '{account}'");
        return Err(Refusal::new(Class::ScopeNotFound, message).into());
    }
    Ok(json_answer(&found))
}

/// `POST /accounts/{account}/scopes/{scope}`.
pub(crate) async fn add_scope(door: State, caller: Caller, Path((account, scope)): Path<(String, String)>) -> Answer {
    let (account, now) = (name(&account)?, time::now());
    let scope = scope.parse::<Scope>();
    let scope =
        scope.map_err(|error| Refusal::new(Class::InvalidObject, format!("Problem validating scope: {error}")))?;
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::AddScope, Some(&account))?;
        scopes::add(session, &scope, &account, now)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `GET /scopes/`.
pub(crate) async fn all_scopes(door: State, _: Caller) -> Answer {
    let found = door.database.read(scopes::list).await?;
    Ok(json_answer(
        &found.into_iter().map(|(scope, _)| scope).collect::<Vec<_>>(),
    ))
}

/// `GET /scopes/owner`.
pub(crate) async fn scope_owners(door: State, _: Caller) -> Answer {
    let found = door.database.read(scopes::list).await?;
    let row = |(scope, account): (Scope, AccountName)| json!({ "scope": scope, "account": account });
    Ok(json_answer(&found.into_iter().map(row).collect::<Vec<_>>()))
}

/// The names of RSEs, by number.
fn names(session: &mut dyn Session) -> Result<BTreeMap<weir_rules::ids::RseId, (RseName, String)>, StoreError> {
    let all = rses::list(session)?;
    Ok(all
        .into_iter()
        .map(|one| (one.rse.id, (one.rse.name, one.rse.uid)))
        .collect())
}

/// `GET /accounts/{account}/limits/local`.
pub(crate) async fn limits(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    Ok(json_answer(&limits_of(&door, name(&account)?).await?))
}

/// `GET /accounts/{account}/limits/local/{rse}`.
pub(crate) async fn limits_at(door: State, _: Caller, Path((account, rse)): Path<(String, String)>) -> Answer {
    let mut all = limits_of(&door, name(&account)?).await?;
    all.retain(|name, _| *name == rse);
    Ok(json_answer(&all))
}

async fn limits_of(door: &State, account: AccountName) -> Result<BTreeMap<String, u64>, Failure> {
    let read = move |session: &mut dyn Session| {
        let names = names(session)?;
        let limits = limits::of(session, &account)?.into_iter();
        Ok(limits
            .filter_map(|(rse, bytes)| Some((names.get(&rse)?.0.to_string(), bytes)))
            .collect())
    };
    Ok(door.database.read(read).await?)
}

/// `POST /accounts/{account}/limits/local/{rse}`. A negative limit is none: as much as there is.
pub(crate) async fn set_limit(
    door: State,
    caller: Caller,
    Path((account, rse)): Path<(String, String)>,
    body: Object,
) -> Answer {
    let (account, rse) = (name(&account)?, rse_name(&rse)?);
    let bytes = body.number("bytes")?.ok_or_else(|| super::body::missing("bytes"))?;
    let bytes = u64::try_from(bytes).unwrap_or(i64::MAX as u64);
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        accounts::existing(session, &account)?;
        let rse = rses::get(session, &rse)?.id;
        limits::set(session, &account, rse, bytes)
    };
    door.database.write(write).await?;
    Ok(created())
}

/// `DELETE /accounts/{account}/limits/local/{rse}`.
pub(crate) async fn remove_limit(door: State, caller: Caller, Path((account, rse)): Path<(String, String)>) -> Answer {
    let (account, rse) = (name(&account)?, rse_name(&rse)?);
    let write = move |session: &mut dyn Session| {
        caller.may(session, Operation::ChangeAccounts, None)?;
        let rse = rses::get(session, &rse)?.id;
        limits::remove(session, &account, rse)
    };
    door.database.write(write).await?;
    Ok(done())
}

/// `GET /accounts/{account}/usage/global`: no account has a limit for an RSE expression here, and so no usage of one.
pub(crate) async fn global_usage(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    exists(&door, name(&account)?).await?;
    Ok(lines(std::iter::empty::<Value>()))
}

/// `GET /accounts/{account}/limits/global`.
pub(crate) async fn global_limits(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    exists(&door, name(&account)?).await?;
    Ok(json_answer(&json!({})))
}

async fn exists(door: &State, account: AccountName) -> Result<(), Failure> {
    let read = move |session: &mut dyn Session| accounts::existing(session, &account).map(drop);
    Ok(door.database.read(read).await?)
}

/// `GET /accounts/{account}/usage/local`.
pub(crate) async fn usage(door: State, _: Caller, Path(account): Path<String>) -> Answer {
    Ok(lines(usage_of(&door, name(&account)?, None).await?))
}

/// `GET /accounts/{account}/usage/local/{rse}`.
pub(crate) async fn usage_at(door: State, _: Caller, Path((account, rse)): Path<(String, String)>) -> Answer {
    Ok(lines(usage_of(&door, name(&account)?, Some(rse_name(&rse)?)).await?))
}

async fn usage_of(door: &State, account: AccountName, at: Option<RseName>) -> Result<Vec<Value>, Failure> {
    let read = move |session: &mut dyn Session| {
        accounts::existing(session, &account)?;
        if let Some(at) = &at {
            rses::get(session, at)?;
        }
        let names = names(session)?;
        let (usage, limits) = (limits::usage(session, &account)?, limits::of(session, &account)?);
        let wanted = names.iter().filter(|(rse, (name, _))| {
            at.as_ref().is_none_or(|at| at == name) && (usage.contains_key(rse) || limits.contains_key(rse))
        });
        let row = |(rse, (name, uid)): (&weir_rules::ids::RseId, &(RseName, String))| {
            let used = usage.get(rse).copied().unwrap_or_default();
            let limit = limits.get(rse).copied().unwrap_or_default();
            let left = limit as i64 - used.bytes as i64;
            json!({ "rse": name, "rse_id": uid, "bytes": used.bytes, "files": used.files, "bytes_limit": limit, "bytes_remaining": left })
        };
        Ok(wanted.map(row).collect())
    };
    Ok(door.database.read(read).await?)
}
