//! Limits of RSEs, and their reported usage.

use weir_database::{Session, values};
use weir_rules::ids::RseId;
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::refusal::{Class, Refusal};

/// Sets a limit, such as `MinFreeSpace`, in bytes.
pub fn set_limit(session: &mut dyn Session, rse: RseId, name: &str, value: i64) -> Result<(), StoreError> {
    let text = "INSERT INTO rse_limits (rse_id, name, value) VALUES ($1, $2, $3)
        ON CONFLICT (rse_id, name) DO UPDATE SET value = excluded.value";
    session.execute(text, &values![rse.0, name, value]).map(drop)
}

/// Takes a limit away.
///
/// # Errors
/// [`Class::RseAttributeNotFound`].
pub fn remove_limit(session: &mut dyn Session, rse: RseId, name: &str) -> Result<(), StoreError> {
    let text = "DELETE FROM rse_limits WHERE rse_id = $1 AND name = $2";
    if session.execute(text, &values![rse.0, name])? == 0 {
        let message = format!("RSE limit '{name}' cannot be found");
        return Err(Refusal::new(Class::RseAttributeNotFound, message).into());
    }
    Ok(())
}

/// The limits of an RSE, by name.
pub fn limits(session: &mut dyn Session, rse: RseId) -> Result<Vec<(String, i64)>, StoreError> {
    let text = "SELECT name, value FROM rse_limits WHERE rse_id = $1 ORDER BY name";
    let rows = session.query(text, &values![rse.0])?;
    rows.iter()
        .map(|row| Ok((row.text(0)?.to_owned(), row.int(1)?)))
        .collect()
}

/// The space of an RSE as one source reports it: `storage` itself, or another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceUsage {
    /// The source.
    pub source: String,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that are free.
    pub free: Option<u64>,
    /// Files.
    pub files: Option<u64>,
    /// When that was so.
    pub updated: Millis,
}

/// Stores the report of a source.
pub fn set_usage(session: &mut dyn Session, rse: RseId, usage: &SpaceUsage) -> Result<(), StoreError> {
    let text = "INSERT INTO rse_usage (rse_id, source, used, free, files, updated) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (rse_id, source) DO UPDATE SET used = excluded.used, free = excluded.free, files = excluded.files,
        updated = excluded.updated";
    let SpaceUsage {
        source,
        used,
        free,
        files,
        updated,
    } = usage;
    session
        .execute(text, &values![rse.0, source.as_str(), *used, *free, *files, *updated])
        .map(drop)
}

/// The reported space of an RSE, by source.
pub fn usage(session: &mut dyn Session, rse: RseId) -> Result<Vec<SpaceUsage>, StoreError> {
    let text = "SELECT source, used, free, files, updated FROM rse_usage WHERE rse_id = $1 ORDER BY source";
    let rows = session.query(text, &values![rse.0])?;
    let usage = |row: &weir_database::Row| {
        Ok(SpaceUsage {
            source: row.text(0)?.to_owned(),
            used: row.size(1)?,
            free: row.optional(2, weir_database::Row::size)?,
            files: row.optional(3, weir_database::Row::size)?,
            updated: row.int(4)?,
        })
    };
    rows.iter().map(usage).collect()
}

/// Bytes that may still be sent to an RSE: the reported free bytes, without files on their way, and without those that
/// arrived since. `None`: the storage does not report free space.
///
/// # Errors
/// The database fails.
pub fn room(session: &mut dyn Session, rse: RseId) -> Result<Option<u64>, StoreError> {
    let text = "SELECT u.free, (SELECT CAST(coalesce(sum(p.bytes), 0) AS BIGINT) FROM requests q JOIN replicas p ON p.did_id = q.did_id
        AND p.rse_id = q.rse_id WHERE q.rse_id = $1 AND q.state IN ('G', 'S')), (SELECT CAST(coalesce(sum(p.bytes), 0) AS BIGINT) FROM request_history h
        JOIN replicas p ON p.did_id = h.did_id AND p.rse_id = h.rse_id WHERE h.rse_id = $1 AND h.state = 'D' AND h.ended > u.updated)
        FROM rse_usage u WHERE u.rse_id = $1 AND u.source = 'storage' AND u.free IS NOT NULL";
    let Some(row) = session.row(text, &values![rse.0])? else {
        return Ok(None);
    };
    let taken = row.size(1)?.saturating_add(row.size(2)?);
    Ok(Some(row.size(0)?.saturating_sub(taken)))
}
