//! RSEs: storage elements as the catalogue knows them.

pub mod areas;
pub mod attributes;
mod described;
pub mod distances;
pub mod protocols;
pub mod space;

use weir_database::{Row, Session, Value, values};
use weir_model::{RseName, catalog::RseType};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::refusal::{Class, Refusal};
pub use described::{Described, by_number, list, matching};

/// An RSE as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rse {
    /// Its number in the database.
    pub id: RseId,
    /// The id that clients see: 32 hexadecimal digits.
    pub uid: String,
    /// Its name; unique among the RSEs that are not deleted.
    pub name: RseName,
    /// How it is.
    pub traits: Traits,
    /// When it was made.
    pub created: Millis,
    /// When it last changed.
    pub updated: Millis,
}

/// How an RSE is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "flags of the API, each its own")]
pub struct Traits {
    /// Disk or tape.
    pub kind: RseType,
    /// Whether paths of files follow from their DIDs.
    pub deterministic: bool,
    /// Whether files may vanish at any time, as in a cache.
    pub volatile: bool,
    /// Whether it is a buffer in front of tape.
    pub staging_area: bool,
    /// Whether files may be read now.
    pub can_read: bool,
    /// Whether files may be written now.
    pub can_write: bool,
    /// Whether files may be deleted now.
    pub can_delete: bool,
    /// A JSON object with city, country and the like.
    pub about: String,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            kind: RseType::Disk,
            deterministic: true,
            volatile: false,
            staging_area: false,
            can_read: true,
            can_write: true,
            can_delete: true,
            about: "{}".to_owned(),
        }
    }
}

const COLUMNS: &str =
    "rse_id, uid, name, type, deterministic, volatile, staging_area, can_read, can_write, can_delete, about,
    created, updated";

fn rse(row: &Row) -> Result<Rse, StoreError> {
    Ok(Rse {
        id: rse_id(row, 0)?,
        uid: row.text(1)?.to_owned(),
        name: row.parsed(2)?,
        traits: Traits {
            kind: row.parsed(3)?,
            deterministic: row.bool(4)?,
            volatile: row.bool(5)?,
            staging_area: row.bool(6)?,
            can_read: row.bool(7)?,
            can_write: row.bool(8)?,
            can_delete: row.bool(9)?,
            about: row.text(10)?.to_owned(),
        },
        created: row.int(11)?,
        updated: row.int(12)?,
    })
}

pub(crate) fn rse_id(row: &Row, column: usize) -> Result<RseId, StoreError> {
    let number = row.int(column)?;
    let id = u32::try_from(number).map(RseId);
    id.map_err(|_| StoreError::Unreadable(format!("{number} is no number of an RSE")))
}

/// The values of the columns from `type` to `about`.
fn columns(traits: &Traits) -> [Value; 8] {
    values![
        traits.kind.letter(),
        traits.deterministic,
        traits.volatile,
        traits.staging_area,
        traits.can_read,
        traits.can_write,
        traits.can_delete,
        traits.about.as_str(),
    ]
}

/// Adds an RSE. `uid` is a new random number of 32 hexadecimal digits.
///
/// # Errors
/// [`Class::Duplicate`].
pub fn add(
    session: &mut dyn Session,
    (name, uid): (&RseName, &str),
    traits: &Traits,
    now: Millis,
) -> Result<RseId, StoreError> {
    let text = "INSERT INTO rses (uid, name, created, updated, type, deterministic, volatile, staging_area, can_read, can_write,
        can_delete, about) VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (name) WHERE deleted IS NULL DO NOTHING RETURNING rse_id";
    let mut values = values![uid, name.as_str(), now].to_vec();
    values.extend(columns(traits));
    let made = session.row(text, &values)?;
    let duplicate = || Refusal::new(Class::Duplicate, format!("RSE '{name}' already exists!"));
    rse_id(&made.ok_or_else(duplicate)?, 0)
}

/// An RSE by its name.
///
/// # Errors
/// [`Class::RseNotFound`].
pub fn get(session: &mut dyn Session, name: &RseName) -> Result<Rse, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rses WHERE name = $1 AND deleted IS NULL");
    let row = session.row(&text, &values![name.as_str()])?;
    rse(&row.ok_or_else(|| missing(name))?)
}

fn missing(name: &RseName) -> Refusal {
    Refusal::new(Class::RseNotFound, format!("RSE '{name}' cannot be found"))
}

/// Changes how an RSE is, and its name.
///
/// # Errors
/// [`Class::Duplicate`] if another one has the name.
pub fn change(
    session: &mut dyn Session,
    id: RseId,
    (name, traits): (&RseName, &Traits),
    now: Millis,
) -> Result<(), StoreError> {
    let text = "SELECT rse_id FROM rses WHERE name = $1 AND deleted IS NULL AND rse_id <> $2";
    if session.row(text, &values![name.as_str(), id.0])?.is_some() {
        let message = format!("RSE '{name}' already exists!");
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    let text =
        "UPDATE rses SET name = $1, updated = $2, type = $4, deterministic = $5, volatile = $6, staging_area = $7,
        can_read = $8, can_write = $9, can_delete = $10, about = $11 WHERE rse_id = $3";
    let mut values = values![name.as_str(), now, id.0].to_vec();
    values.extend(columns(traits));
    session.execute(text, &values).map(drop)
}

/// Deletes an RSE: nothing is placed there any more, and its name may be given again. Its row stays for the history of files.
///
/// # Errors
/// [`Class::RseOperationNotSupported`]: it has replicas.
pub fn delete(session: &mut dyn Session, id: RseId, now: Millis) -> Result<(), StoreError> {
    let replica = session.row("SELECT did_id FROM replicas WHERE rse_id = $1 LIMIT 1", &values![id.0])?;
    if replica.is_some() {
        let message = "The RSE is not empty: delete its replicas, and the rules that want files there";
        return Err(Refusal::new(Class::RseOperationNotSupported, message).into());
    }
    session.execute("UPDATE rses SET deleted = $2 WHERE rse_id = $1", &values![id.0, now])?;
    let text = "DELETE FROM distances WHERE source = $1 OR destination = $1";
    session.execute(text, &values![id.0]).map(drop)
}

#[cfg(test)]
mod tests;
