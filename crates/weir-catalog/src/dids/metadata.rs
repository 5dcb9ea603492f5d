//! Metadata of DIDs: the columns that Rucio has for all of them, and any other keys.

use serde_json::{Map, Value, json};
use weir_database::{Session, values};
use weir_model::catalog::{Did, DidType};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::{Known, get_locked};
use crate::refusal::{Class, Refusal};

/// Columns of Rucio's table that clients set. All other keys are a client's own.
pub const COLUMNS: [&str; 22] = [
    "campaign",
    "datatype",
    "events",
    "guid",
    "is_archive",
    "lumiblocknr",
    "panda_id",
    "phys_group",
    "prod_step",
    "project",
    "provenance",
    "run_number",
    "stream_name",
    "task_id",
    "version",
    "eol_at",
    "hidden",
    "is_new",
    "purge_replicas",
    "suppressed",
    "transient",
    "complete",
];

/// Keys that follow from other operations.
const FIXED: [&str; 19] = [
    "scope",
    "name",
    "account",
    "did_type",
    "is_open",
    "monotonic",
    "obsolete",
    "availability",
    "bytes",
    "length",
    "md5",
    "adler32",
    "expired_at",
    "deleted_at",
    "created_at",
    "updated_at",
    "accessed_at",
    "closed_at",
    "access_cnt",
];

/// The longest metadata of a DID, in bytes of JSON.
const META_MAX: usize = 65_536;

/// The keys that a DID was given.
///
/// # Errors
/// They cannot be read.
pub fn given(known: &Known) -> Result<Map<String, Value>, StoreError> {
    let unreadable =
        |error: serde_json::Error| StoreError::Unreadable(format!("the metadata of {}: {error}", known.did));
    match serde_json::from_str(&known.meta).map_err(unreadable)? {
        Value::Object(keys) => Ok(keys),
        _ => Ok(Map::new()),
    }
}

/// Rucio's columns of a DID. Times are as `date` writes them.
///
/// # Errors
/// The metadata cannot be read.
pub fn columns(known: &Known, date: fn(Millis) -> String) -> Result<Map<String, Value>, StoreError> {
    let is_file = known.kind == DidType::File;
    let mut all = Map::new();
    let fixed = json!({
        "scope": known.did.scope, "name": known.did.name, "account": known.account, "did_type": known.kind,
        "is_open": (!is_file).then_some(known.is_open), "monotonic": known.monotonic, "obsolete": false, "availability": "AVAILABLE",
        "bytes": known.bytes, "length": null, "md5": known.md5, "adler32": known.adler32, "expired_at": known.expires.map(date),
        "deleted_at": null, "created_at": date(known.created), "updated_at": date(known.updated), "accessed_at": null,
        "closed_at": known.closed.map(date), "access_cnt": null, "constituent": null, "hidden": false, "suppressed": false,
        "purge_replicas": true, "transient": false, "is_new": true,
    });
    if let Value::Object(fixed) = fixed {
        all.extend(fixed);
    }
    for key in COLUMNS {
        all.entry(key).or_insert(Value::Null);
    }
    all.extend(
        given(known)?
            .into_iter()
            .filter(|(key, _)| COLUMNS.contains(&key.as_str())),
    );
    Ok(all)
}

/// Sets keys. `lifetime` is the end of the DID, in seconds from now.
///
/// # Errors
/// [`Class::DidNotFound`]; [`Class::UnsupportedOperation`] for keys that follow from other operations; [`Class::InvalidObject`]: too much.
pub fn set(session: &mut dyn Session, did: &Did, keys: &Map<String, Value>, now: Millis) -> Result<(), StoreError> {
    let known = get_locked(session, did)?;
    let (mut meta, mut expires) = (given(&known)?, known.expires);
    for (key, value) in keys {
        match key.as_str() {
            "lifetime" => {
                let seconds = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                expires = seconds.map(|seconds| now.saturating_add((seconds * 1000.0) as Millis));
            }
            key if FIXED.contains(&key) => {
                let message = format!("{key} for {did} cannot be updated");
                return Err(Refusal::new(Class::UnsupportedOperation, message).into());
            }
            key => {
                meta.insert(key.to_owned(), value.clone());
            }
        }
    }
    write(session, &known, &meta, expires, now)
}

/// Takes a key away.
///
/// # Errors
/// [`Class::DidNotFound`], [`Class::KeyNotFound`].
pub fn remove(session: &mut dyn Session, did: &Did, key: &str, now: Millis) -> Result<(), StoreError> {
    let known = get_locked(session, did)?;
    let mut meta = given(&known)?;
    if meta.remove(key).is_none() {
        return Err(Refusal::new(Class::KeyNotFound, format!("{did} has no key '{key}'")).into());
    }
    write(session, &known, &meta, known.expires, now)
}

fn write(
    session: &mut dyn Session,
    known: &Known,
    meta: &Map<String, Value>,
    expires: Option<Millis>,
    now: Millis,
) -> Result<(), StoreError> {
    let meta = Value::Object(meta.clone()).to_string();
    if meta.len() > META_MAX {
        let message = format!(
            "the metadata of {} would have {} bytes; {META_MAX} are allowed",
            known.did,
            meta.len()
        );
        return Err(Refusal::new(Class::InvalidObject, message).into());
    }
    let text = "UPDATE dids SET meta = $2, expires = $3, updated = $4 WHERE did_id = $1";
    session
        .execute(text, &values![known.id.0, meta, expires, now])
        .map(drop)
}
