//! DIDs: files, datasets, containers.

pub mod content;
pub mod ending;
pub mod metadata;

use std::collections::HashMap;

use weir_database::{Row, Session, values};
use weir_model::catalog::{AccountName, Did, DidName, DidType, Scope};
use weir_rules::ids::DidId;
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::{
    accounts::scopes,
    refusal::{Class, Refusal},
};

/// A DID as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its number in the database.
    pub id: DidId,
    /// Its scope and name.
    pub did: Did,
    /// File, dataset or container.
    pub kind: DidType,
    /// Its owner.
    pub account: AccountName,
    /// The size of a file.
    pub bytes: Option<u64>,
    /// The checksum of a file: eight hexadecimal digits.
    pub adler32: Option<String>,
    /// The other checksum of a file: 32 hexadecimal digits.
    pub md5: Option<String>,
    /// Whether a collection takes more.
    pub is_open: bool,
    /// Whether nothing leaves a collection.
    pub monotonic: bool,
    /// Metadata: a JSON object.
    pub meta: String,
    /// When it was made.
    pub created: Millis,
    /// When it last changed.
    pub updated: Millis,
    /// When a collection was closed.
    pub closed: Option<Millis>,
    /// When it ends.
    pub expires: Option<Millis>,
}

/// The columns of a [`Known`], of the table `d`.
const COLUMNS: &str = "d.did_id, d.scope, d.name, d.type, d.account, d.bytes, d.adler32, d.md5, d.is_open, d.monotonic, d.meta, d.created,
    d.updated, d.closed, d.expires";

fn known(row: &Row) -> Result<Known, StoreError> {
    let text = |column| Ok::<_, StoreError>(row.optional(column, Row::text)?.map(str::to_owned));
    Ok(Known {
        id: DidId(row.size(0)?),
        did: Did {
            scope: row.parsed(1)?,
            name: row.parsed(2)?,
        },
        kind: row.parsed(3)?,
        account: row.parsed(4)?,
        bytes: row.optional(5, Row::size)?,
        adler32: text(6)?,
        md5: text(7)?,
        is_open: row.bool(8)?,
        monotonic: row.bool(9)?,
        meta: row.text(10)?.to_owned(),
        created: row.int(11)?,
        updated: row.int(12)?,
        closed: row.optional(13, Row::int)?,
        expires: row.optional(14, Row::int)?,
    })
}

/// A collection, or a file, that is to be added.
#[derive(Debug, Clone)]
pub struct NewDid {
    /// Its scope and name.
    pub did: Did,
    /// File, dataset or container.
    pub kind: DidType,
    /// Its owner.
    pub account: AccountName,
    /// The size of a file.
    pub bytes: Option<u64>,
    /// The checksum of a file.
    pub adler32: Option<String>,
    /// The other checksum of a file.
    pub md5: Option<String>,
    /// Whether nothing leaves a collection.
    pub monotonic: bool,
    /// Metadata: a JSON object.
    pub meta: String,
    /// When it ends.
    pub expires: Option<Millis>,
}

/// Adds DIDs; all or none.
///
/// # Errors
/// [`Class::ScopeNotFound`], [`Class::DidAlreadyExists`]: also of a name that was given and deleted.
pub fn add(session: &mut dyn Session, all: &[NewDid], now: Millis) -> Result<(), StoreError> {
    let mut scopes_seen = std::collections::BTreeSet::new();
    for new in all {
        if scopes_seen.insert(&new.did.scope) {
            scopes::owner(session, &new.did.scope)?;
        }
    }
    let text = "INSERT INTO dids (scope, name, type, account, bytes, adler32, md5, is_open, monotonic, meta, created, updated, expires)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) ON CONFLICT (scope, name) DO NOTHING";
    let row = |new: &NewDid| {
        let (scope, name) = (new.did.scope.as_str(), new.did.name.as_str());
        let (adler32, md5) = (new.adler32.as_deref(), new.md5.as_deref());
        let is_open = new.kind != DidType::File;
        let (kind, account, meta) = (new.kind.letter(), new.account.as_str(), new.meta.as_str());
        let about = values![
            scope,
            name,
            kind,
            account,
            new.bytes,
            adler32,
            md5,
            is_open,
            new.monotonic,
            meta,
            now,
            new.expires
        ];
        about.to_vec()
    };
    let rows = all.iter().map(row).collect::<Vec<_>>();
    if session.execute_many(text, &rows)? < all.len() as u64 {
        return Err(first_known(session, all, now)?.into());
    }
    Ok(())
}

/// The first of new DIDs that exists already, for people.
fn first_known(session: &mut dyn Session, all: &[NewDid], now: Millis) -> Result<Refusal, StoreError> {
    let mut seen = std::collections::BTreeSet::new();
    for new in all {
        let text = "SELECT created < $3 OR deleted IS NOT NULL FROM dids WHERE scope = $1 AND name = $2";
        let found = session.row(text, &values![new.did.scope.as_str(), new.did.name.as_str(), now])?;
        let is_older = found.map_or(Ok(false), |row| row.bool(0))?;
        if is_older || !seen.insert(&new.did) {
            return Ok(exists(&new.did));
        }
    }
    // Of the same millisecond.
    Ok(all.first().map_or_else(
        || Refusal::new(Class::InvalidObject, "no DID was given"),
        |new| exists(&new.did),
    ))
}

fn exists(did: &Did) -> Refusal {
    let message = format!("Data Identifier Already Exists. {did} was added before, and its name is not given again.");
    Refusal::new(Class::DidAlreadyExists, message)
}

fn missing(did: &Did) -> Refusal {
    let message = format!("Data identifier '{did}' not found");
    Refusal::new(Class::DidNotFound, message)
}

/// A DID that is not deleted.
///
/// # Errors
/// [`Class::DidNotFound`].
pub fn get(session: &mut dyn Session, did: &Did) -> Result<Known, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM dids d WHERE d.scope = $1 AND d.name = $2 AND d.deleted IS NULL");
    let row = session.row(&text, &values![did.scope.as_str(), did.name.as_str()])?;
    known(&row.ok_or_else(|| missing(did))?)
}

/// A DID by its number, if it is not deleted.
pub fn by_id(session: &mut dyn Session, id: DidId) -> Result<Option<Known>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM dids d WHERE d.did_id = $1 AND d.deleted IS NULL");
    session.row(&text, &values![id.0])?.as_ref().map(known).transpose()
}

/// DIDs by their numbers, without those that are deleted.
pub fn by_number(session: &mut dyn Session, ids: &[DidId]) -> Result<HashMap<DidId, Known>, StoreError> {
    let found = in_order(session, ids)?;
    Ok(found.into_iter().map(|one| (one.id, one)).collect())
}

/// The same in the order of the numbers.
pub fn in_order(session: &mut dyn Session, ids: &[DidId]) -> Result<Vec<Known>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM dids d WHERE d.did_id = $1 AND d.deleted IS NULL");
    session.query_many(&text, &numbers(ids))?.iter().map(known).collect()
}

/// DIDs as values of a statement.
pub(crate) fn numbers(all: &[DidId]) -> Vec<Vec<weir_database::Value>> {
    all.iter().map(|one| values![one.0].to_vec()).collect()
}

/// DIDs of a scope whose names begin with this prefix, by name: after this one, and at most so many.
pub fn with_prefix(
    session: &mut dyn Session,
    scope: &Scope,
    prefix: &str,
    after: Option<&DidName>,
    limit: usize,
) -> Result<Vec<Known>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS} FROM dids d WHERE d.scope = $1 AND d.name > $2 AND d.name LIKE $3 ESCAPE '\\' AND d.deleted IS NULL
         ORDER BY d.name LIMIT $4"
    );
    let escaped = prefix.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let after = after.map_or("", DidName::as_str);
    let rows = session.query(
        &text,
        &values![scope.as_str(), after, format!("{escaped}%"), limit as u64],
    )?;
    rows.iter().map(known).collect()
}

/// The same, which no other transaction changes before the end of this one.
fn get_locked(session: &mut dyn Session, did: &Did) -> Result<Known, StoreError> {
    let text =
        format!("SELECT {COLUMNS} FROM dids d WHERE d.scope = $1 AND d.name = $2 AND d.deleted IS NULL FOR UPDATE");
    let row = session.row(&text, &values![did.scope.as_str(), did.name.as_str()])?;
    known(&row.ok_or_else(|| missing(did))?)
}

/// Closes a collection, or opens it again.
///
/// # Errors
/// [`Class::DidNotFound`], [`Class::UnsupportedOperation`] of a file, or if it is so already.
pub fn set_open(session: &mut dyn Session, did: &Did, is_open: bool, now: Millis) -> Result<(), StoreError> {
    let found = get_locked(session, did)?;
    let unsupported = |message: String| Err(Refusal::new(Class::UnsupportedOperation, message).into());
    if found.kind == DidType::File {
        return unsupported(format!(
            "The status of the data identifier {did} cannot be changed: it is a file"
        ));
    }
    if found.is_open == is_open {
        let state = if is_open { "open" } else { "closed" };
        return unsupported(format!("The data identifier {did} is {state} already"));
    }
    let text = "UPDATE dids SET is_open = $2, closed = $3, updated = $4 WHERE did_id = $1";
    let closed = (!is_open).then_some(now);
    session
        .execute(text, &values![found.id.0, is_open, closed, now])
        .map(drop)
}

#[cfg(test)]
mod tests;
