//! The content of datasets and containers.

use std::collections::HashMap;

use weir_database::{Session, values};
use weir_model::catalog::{Did, DidType};
use weir_rules::ids::DidId;
use weir_store::StoreError;

use super::{COLUMNS, Known, get_locked, known, missing};
use weir_service::time::Millis;

use crate::refusal::{Class, Refusal};

/// Attaches DIDs to a collection; all or none. DIDs that are in it already are refused, unless `ignore_duplicates` is set.
///
/// # Errors
/// [`Class::DidNotFound`]; [`Class::UnsupportedOperation`]: the collection is closed, a type does not fit, or a container would be in itself;
/// [`Class::FileAlreadyExists`] of a dataset, [`Class::DuplicateContent`] of a container.
pub fn attach(
    session: &mut dyn Session,
    parent: &Did,
    children: &[Did],
    ignore_duplicates: bool,
    now: Millis,
) -> Result<(), StoreError> {
    let unsupported = |message: String| Refusal::new(Class::UnsupportedOperation, message);
    let into = get_locked(session, parent)?;
    if !into.is_open {
        return Err(unsupported(format!("Data identifier '{parent}' is closed")).into());
    }
    if into.kind == DidType::Container {
        // Two containers that are attached to each other at the same time would be a circle.
        session.query("SELECT name FROM guards WHERE name = 'containers' FOR UPDATE", &[])?;
    }
    let fitting = if into.kind == DidType::Dataset {
        "d.type = 'F'"
    } else {
        "d.type <> 'F'"
    };
    let text = format!(
        "INSERT INTO contents (parent, child, created) SELECT CAST($1 AS BIGINT), d.did_id, CAST($4 AS BIGINT) FROM dids d
         WHERE d.scope = $2 AND d.name = $3 AND d.deleted IS NULL AND {fitting} ON CONFLICT (parent, child) DO NOTHING"
    );
    let row = |child: &Did| values![into.id.0, child.scope.as_str(), child.name.as_str(), now].to_vec();
    let rows = children.iter().map(row).collect::<Vec<_>>();
    if session.execute_many(&text, &rows)? < children.len() as u64 {
        refuse_first(session, (&into, parent), children, ignore_duplicates)?;
    }
    if into.kind == DidType::Container && contains_itself(session, into.id)? {
        return Err(unsupported(format!("Container '{parent}' would be in itself")).into());
    }
    let text = "UPDATE dids SET updated = $2 WHERE did_id = $1";
    session.execute(text, &values![into.id.0, now]).map(drop)
}

/// Why one of these was not attached.
fn refuse_first(
    session: &mut dyn Session,
    (into, parent): (&Known, &Did),
    children: &[Did],
    ignore_duplicates: bool,
) -> Result<(), StoreError> {
    let mut seen = std::collections::BTreeSet::new();
    let class = match into.kind {
        DidType::Dataset => Class::FileAlreadyExists,
        _ => Class::DuplicateContent,
    };
    for child in children {
        let found = super::get(session, child)?;
        if !found.kind.fits_into(into.kind) {
            let message = format!(
                "A {} cannot be attached to a {}: {child} to {parent}",
                found.kind, into.kind
            );
            return Err(Refusal::new(Class::UnsupportedOperation, message).into());
        }
        if !seen.insert(child) && !ignore_duplicates {
            let message = format!("{child} is given twice for {parent}");
            return Err(Refusal::new(class, message).into());
        }
    }
    if ignore_duplicates {
        return Ok(());
    }
    let names = children.iter().map(Did::to_string).collect::<Vec<_>>();
    let shown = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Refusal::new(class, format!("At least one of {shown} is in {parent} already")).into())
}

/// Whether a container is among its own members.
fn contains_itself(session: &mut dyn Session, container: DidId) -> Result<bool, StoreError> {
    let text = "WITH RECURSIVE below (id) AS (SELECT child FROM contents WHERE parent = $1
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id) SELECT 1 FROM below WHERE id = $1";
    Ok(session.row(text, &values![container.0])?.is_some())
}

/// Fills a dataset that was just made with files that are there.
///
/// # Errors
/// The database fails.
pub(crate) fn fill(session: &mut dyn Session, dataset: DidId, files: &[DidId], now: Millis) -> Result<(), StoreError> {
    let text = "INSERT INTO contents (parent, child, created) VALUES ($1, $2, $3)";
    let rows = files.iter().map(|file| values![dataset.0, file.0, now].to_vec());
    session.execute_later(text, rows.collect())
}

/// Takes DIDs out of a collection; all or none.
///
/// # Errors
/// [`Class::DidNotFound`] if one is not in it; [`Class::UnsupportedOperation`]: the collection is monotonic.
pub fn detach(session: &mut dyn Session, parent: &Did, children: &[Did], now: Millis) -> Result<(), StoreError> {
    let from = get_locked(session, parent)?;
    if from.monotonic {
        let message = format!("Nothing leaves {parent}: it is monotonic");
        return Err(Refusal::new(Class::UnsupportedOperation, message).into());
    }
    let text =
        "DELETE FROM contents WHERE parent = $1 AND child = (SELECT did_id FROM dids WHERE scope = $2 AND name = $3)";
    for child in children {
        if session.execute(text, &values![from.id.0, child.scope.as_str(), child.name.as_str()])? == 0 {
            let message = format!("{}; it is not in {parent}", missing(child));
            return Err(Refusal::new(Class::DidNotFound, message).into());
        }
    }
    let text = "UPDATE dids SET updated = $2 WHERE did_id = $1";
    session.execute(text, &values![from.id.0, now]).map(drop)
}

/// The numbers of a collection's direct members, in their order: after this one, and at most so many.
pub fn children(session: &mut dyn Session, of: &Known, after: DidId, limit: usize) -> Result<Vec<DidId>, StoreError> {
    let text = "SELECT child FROM contents WHERE parent = $1 AND child > $2 ORDER BY child LIMIT $3";
    numbers(session, text, of, (after, limit))
}

/// The numbers of the files in a collection, however deep, each once, in their order: after this one, and at most so many.
pub fn files(session: &mut dyn Session, of: &Known, after: DidId, limit: usize) -> Result<Vec<DidId>, StoreError> {
    if of.kind == DidType::Dataset {
        return children(session, of, after, limit);
    }
    let text = "WITH RECURSIVE below (id) AS (SELECT child FROM contents WHERE parent = $1
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id)
        SELECT b.id FROM below b WHERE b.id > $2 AND (SELECT d.type FROM dids d WHERE d.did_id = b.id) = 'F' ORDER BY b.id LIMIT $3";
    numbers(session, text, of, (after, limit))
}

fn numbers(
    session: &mut dyn Session,
    text: &str,
    of: &Known,
    (after, limit): (DidId, usize),
) -> Result<Vec<DidId>, StoreError> {
    let rows = session.query(text, &values![of.id.0, after.0, limit as u64])?;
    rows.iter().map(|row| row.size(0).map(DidId)).collect()
}

/// The collections that a DID is directly in, by scope and name.
pub fn parents(session: &mut dyn Session, of: DidId) -> Result<Vec<Known>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS} FROM contents c JOIN dids d ON d.did_id = c.parent WHERE c.child = $1 AND d.deleted IS NULL
         ORDER BY d.scope, d.name"
    );
    session.query(&text, &values![of.0])?.iter().map(known).collect()
}

/// The collections that files are in, however deep, by scope and name: of each file that has some.
pub fn ancestors(session: &mut dyn Session, files: &[DidId]) -> Result<HashMap<DidId, Vec<Did>>, StoreError> {
    let mut all = HashMap::<_, Vec<Did>>::new();
    let text = "WITH RECURSIVE above (id) AS (SELECT parent FROM contents WHERE child = $1
        UNION SELECT c.parent FROM contents c JOIN above a ON c.child = a.id)
        SELECT CAST($1 AS BIGINT), d.scope, d.name FROM above a JOIN dids d ON d.did_id = a.id WHERE d.deleted IS NULL
        ORDER BY d.scope, d.name";
    for row in session.query_many(text, &super::numbers(files))? {
        let did = Did {
            scope: row.parsed(1)?,
            name: row.parsed(2)?,
        };
        all.entry(DidId(row.size(0)?)).or_default().push(did);
    }
    Ok(all)
}

/// How many files are in a collection, however deep, and their size.
pub fn size(session: &mut dyn Session, of: DidId) -> Result<(u64, u64), StoreError> {
    let text = "WITH RECURSIVE below (id) AS (SELECT child FROM contents WHERE parent = $1
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id)
        SELECT count(*), CAST(coalesce(sum(d.bytes), 0) AS BIGINT) FROM below b JOIN dids d ON d.did_id = b.id WHERE d.type = 'F'";
    let row = session.row(text, &values![of.0])?;
    row.map_or(Ok((0, 0)), |row| Ok((row.size(0)?, row.size(1)?)))
}
