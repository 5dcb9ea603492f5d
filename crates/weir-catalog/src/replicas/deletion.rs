//! Deletion of replicas: marked first, gone from the tables once their files are gone.

use std::collections::BTreeSet;

use weir_database::{Row, Session, values};
use weir_model::catalog::{Did, ReplicaState};
use weir_rules::{
    deletion::{Goal, Replica, choose},
    ids::{DidId, RseId},
    place::Place,
};
use weir_service::time::Millis;
use weir_store::StoreError;
use weir_units::Bytes;

use super::holders::{Folders, Holder};
use crate::{
    paths,
    places::{self, At, Change, Terms, timestamp},
    rses::rse_id,
};

/// Marks the replicas of an RSE that are deleted next ([`weir_rules::deletion::choose`]), at most `limit`, so that no rule takes them for
/// available; [`deleted`] is called once their files are gone. Replicas with a request are not among them.
///
/// # Errors
/// The database fails.
pub fn mark(
    session: &mut dyn Session,
    rse: RseId,
    goal: Goal,
    now: Millis,
    limit: usize,
) -> Result<Vec<DidId>, StoreError> {
    let text = "SELECT p.did_id, p.bytes, p.n_locks, p.tombstone FROM replicas p WHERE p.rse_id = $1 AND p.tombstone <= $2 AND p.n_locks = 0
        AND p.state <> 'B' AND NOT EXISTS (SELECT 1 FROM requests q WHERE q.did_id = p.did_id AND q.rse_id = p.rse_id)
        ORDER BY p.tombstone, p.did_id LIMIT $3 FOR UPDATE OF p SKIP LOCKED";
    // Some of them may be sources of transfers, which stay.
    let rows = session.query(text, &values![rse.0, now, 2 * limit as u64])?;
    let files = rows
        .iter()
        .map(|row| row.size(0).map(DidId))
        .collect::<Result<Vec<_>, _>>()?;
    // Asked once the rows are locked: a request that takes one as a source from here on waits, and finds it marked.
    let sources = sources(session, rse, &files)?;
    let candidate = |row: &Row| {
        let file = DidId(row.size(0)?);
        Ok(Replica {
            file,
            bytes: Bytes(row.size(1)?),
            n_locks: row.size(2)?,
            tombstone: row.optional(3, Row::int)?.map(timestamp),
            is_source: sources.contains(&file),
        })
    };
    let candidates = rows.iter().map(candidate).collect::<Result<Vec<_>, StoreError>>()?;
    let chosen = choose(&candidates, goal, timestamp(now), limit);
    let marked = chosen.iter().map(|at| candidates[*at].file).collect::<Vec<_>>();
    let text = "UPDATE replicas SET state = $3, updated = $4 WHERE did_id = $1 AND rse_id = $2";
    let state = ReplicaState::BeingDeleted.letter();
    let rows = marked.iter().map(|file| values![file.0, rse.0, state, now].to_vec());
    session.execute_many(text, &rows.collect::<Vec<_>>())?;
    Ok(marked)
}

/// The files among these that transfers read at this RSE.
fn sources(session: &mut dyn Session, rse: RseId, files: &[DidId]) -> Result<BTreeSet<DidId>, StoreError> {
    let text = "SELECT did_id FROM requests WHERE did_id = $1 AND source = $2 AND state IN ('G', 'S')";
    let keys = files.iter().map(|file| (*file, rse)).collect::<Vec<_>>();
    let rows = session.query_many(text, &places::keys(&keys))?;
    rows.iter().map(|row| row.size(0).map(DidId)).collect()
}

/// A replica that was marked, and whose file may still be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The file.
    pub file: DidId,
    /// Its names.
    pub did: Did,
    /// Where it is, if that does not follow from the DID.
    pub path: Option<String>,
    /// Another file with the same path: the replica is removed, and the file on the storage stays.
    pub holder: Option<Holder>,
}

/// Marked replicas of an RSE on which no daemon has worked since this time; the oldest first.
///
/// # Errors
/// The database fails.
pub fn marked(session: &mut dyn Session, rse: RseId, before: Millis, limit: usize) -> Result<Vec<Marked>, StoreError> {
    let text = "SELECT p.did_id, d.scope, d.name, p.path FROM replicas p JOIN dids d ON d.did_id = p.did_id WHERE p.rse_id = $1
        AND p.state = 'B' AND p.updated <= $2 ORDER BY p.updated, p.did_id LIMIT $3";
    let marked = |row: &Row| {
        Ok::<_, StoreError>(Marked {
            file: DidId(row.size(0)?),
            did: Did {
                scope: row.parsed(1)?,
                name: row.parsed(2)?,
            },
            path: row.optional(3, Row::text)?.map(str::to_owned),
            holder: None,
        })
    };
    let rows = session.query(text, &values![rse.0, before, limit as u64])?;
    let mut marked = rows.iter().map(marked).collect::<Result<Vec<_>, _>>()?;
    if marked.is_empty() {
        return Ok(marked);
    }
    let folders = Folders::of(session, rse)?;
    for one in &mut marked {
        let hashed = paths::hashed(&one.did);
        let path = one.path.as_deref().unwrap_or(&hashed);
        one.holder = folders.holder(session, &one.did, path)?;
    }
    Ok(marked)
}

/// Puts the deletion of files off that could not be deleted: they are tried again `after` this time.
///
/// # Errors
/// The database fails.
pub fn put_off(session: &mut dyn Session, rse: RseId, files: &[DidId], after: Millis) -> Result<(), StoreError> {
    let text = "UPDATE replicas SET updated = $3 WHERE did_id = $1 AND rse_id = $2 AND state = 'B'";
    let row = |file: &DidId| values![file.0, rse.0, after].to_vec();
    session
        .execute_many(text, &files.iter().map(row).collect::<Vec<_>>())
        .map(drop)
}

/// RSEs with replicas that may be deleted, or are being deleted.
///
/// # Errors
/// The database fails.
pub fn rses(session: &mut dyn Session, now: Millis) -> Result<BTreeSet<RseId>, StoreError> {
    let text = "SELECT r.rse_id FROM rses r WHERE r.can_delete AND (EXISTS (SELECT 1 FROM replicas p WHERE p.rse_id = r.rse_id
        AND p.state = 'B' AND p.updated <= $1) OR EXISTS (SELECT 1 FROM replicas p WHERE p.rse_id = r.rse_id AND p.tombstone <= $1
        AND p.n_locks = 0 AND p.state <> 'B'))";
    let rows = session.query(text, &values![now])?;
    rows.iter().map(|row| rse_id(row, 0)).collect()
}

/// Records that the files of marked replicas are deleted. Files that a rule has locked meanwhile are requested again.
///
/// # Errors
/// The database fails.
pub fn deleted(session: &mut dyn Session, rse: RseId, files: &[DidId], now: Millis) -> Result<(), StoreError> {
    let mut all = files.iter().map(|file| (*file, rse)).collect::<Vec<_>>();
    all.sort_unstable();
    let before = places::read(session, &all)?;
    let marked = before
        .into_iter()
        .filter(|(_, place)| place.replica == ReplicaState::BeingDeleted);
    let change = |(at, before): (At, Place)| Change {
        at,
        before,
        after: before.deleted(),
    };
    let changes = marked.map(change).collect::<Vec<_>>();
    freed(session, rse, &changes)?;
    places::write(session, &changes, Terms::NONE, now)
}

/// Counts deleted bytes as free, until the storage reports them.
fn freed(session: &mut dyn Session, rse: RseId, changes: &[Change]) -> Result<(), StoreError> {
    let keys = changes.iter().map(|change| change.at).collect::<Vec<_>>();
    let text = "SELECT bytes FROM replicas WHERE did_id = $1 AND rse_id = $2";
    let mut bytes = 0_u64;
    for row in session.query_many(text, &places::keys(&keys))? {
        bytes = bytes.saturating_add(row.size(0)?);
    }
    let text = "UPDATE rse_usage SET free = free + $2, used = CASE WHEN used > $2 THEN used - $2 ELSE 0 END
        WHERE rse_id = $1 AND source = 'storage'";
    session.execute(text, &values![rse.0, bytes]).map(drop)
}
