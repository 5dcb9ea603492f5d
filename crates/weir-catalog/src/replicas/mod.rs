//! Replicas: which files lie at which RSEs.

pub mod check;
pub mod datasets;
pub mod deletion;
pub mod holders;

use std::collections::BTreeMap;

use weir_database::{Row, Session, values};
use weir_model::{
    RseName,
    catalog::{AccountName, Did, DidType, ReplicaState, RseType},
};
use weir_rules::{
    ids::{DidId, RseId},
    place::{End, Place},
};
use weir_store::StoreError;

use weir_service::time::Millis;

use self::holders::{Folders, Holder};
use crate::{
    dids, paths,
    places::{self, Change, Terms, timestamp},
    refusal::{Class, Refusal},
    rses::rse_id,
};

/// A file that a client has put at an RSE.
#[derive(Debug, Clone)]
pub struct NewReplica {
    /// The file.
    pub did: Did,
    /// Its size.
    pub bytes: u64,
    /// Its checksum: eight hexadecimal digits.
    pub adler32: Option<String>,
    /// Its other checksum: 32 hexadecimal digits.
    pub md5: Option<String>,
    /// Where it is, at an RSE whose paths do not follow from DIDs.
    pub path: Option<String>,
    /// Whether the client is still to put it there, and says when it has.
    pub is_coming: bool,
    /// Metadata of the file: a JSON object.
    pub meta: String,
}

/// Registers replicas, and the files that are not known yet; all or none. A file that is known must be the same; a replica that is known stays.
///
/// # Errors
/// [`Class::ScopeNotFound`]; [`Class::FileConsistencyMismatch`]; [`Class::Duplicate`] if a file is given twice, or has the path of another one;
/// [`Class::InvalidPath`] if a path is in the folder of another RSE.
pub fn add(
    session: &mut dyn Session,
    rse: RseId,
    files: &[NewReplica],
    account: &AccountName,
    now: Millis,
) -> Result<(), StoreError> {
    let mut scopes = std::collections::BTreeSet::new();
    for file in files {
        if scopes.insert(&file.did.scope) {
            crate::accounts::scopes::owner(session, &file.did.scope)?;
        }
    }
    claim(session, rse, files)?;
    let text =
        "INSERT INTO dids (scope, name, type, account, bytes, adler32, md5, is_open, monotonic, meta, created, updated)
        VALUES ($1, $2, 'F', $3, $4, $5, $6, $7, $7, $8, $9, $9) ON CONFLICT (scope, name) DO NOTHING";
    let did = |file: &NewReplica| {
        let (scope, name) = (file.did.scope.as_str(), file.did.name.as_str());
        let (adler32, md5) = (file.adler32.as_deref(), file.md5.as_deref());
        values![
            scope,
            name,
            account.as_str(),
            file.bytes,
            adler32,
            md5,
            false,
            file.meta.as_str(),
            now
        ]
        .to_vec()
    };
    session.execute_later(text, files.iter().map(did).collect())?;
    let text = "INSERT INTO replicas (did_id, rse_id, bytes, state, n_locks, path, created, updated)
        SELECT d.did_id, CAST($3 AS BIGINT), d.bytes, CAST($9 AS TEXT), 0, CAST($4 AS TEXT), CAST($5 AS BIGINT), CAST($5 AS BIGINT) FROM dids d WHERE d.scope = $1 AND d.name = $2 AND d.type = 'F'
        AND d.deleted IS NULL AND d.bytes = $6 AND (CAST($7 AS TEXT) IS NULL OR d.adler32 IS NULL OR d.adler32 = $7) AND (CAST($8 AS TEXT) IS NULL OR d.md5 IS NULL OR d.md5 = $8)
        ON CONFLICT DO NOTHING";
    let replica = |file: &NewReplica| {
        let (scope, name) = (file.did.scope.as_str(), file.did.name.as_str());
        // Checksums that the client leaves out are not compared.
        let (adler32, md5) = (file.adler32.as_deref(), file.md5.as_deref());
        let state = if file.is_coming {
            ReplicaState::Copying
        } else {
            ReplicaState::Available
        };
        let path = file.path.as_deref();
        values![scope, name, rse.0, path, now, file.bytes, adler32, md5, state.letter()].to_vec()
    };
    let n_made = session.execute_many(text, &files.iter().map(replica).collect::<Vec<_>>())?;
    uploads(session, rse, files, account, now)?;
    if n_made < files.len() as u64 {
        return look(session, rse, files);
    }
    Ok(())
}

/// Refuses a path that follows from another file's DID, or that another RSE holds. The unique index `replicas_by_path` refuses a path that another file
/// was registered with.
fn claim(session: &mut dyn Session, rse: RseId, files: &[NewReplica]) -> Result<(), StoreError> {
    let folders = Folders::of(session, rse)?;
    for file in files {
        let hashed = paths::hashed(&file.did);
        let path = file.path.as_deref().unwrap_or(&hashed);
        if file.path.is_some()
            && let Some(inner) = folders.inner(path)
        {
            let message = format!(
                "The path {path} of {} is one of the RSE {inner}, whose folder lies there",
                file.did
            );
            return Err(Refusal::new(Class::InvalidPath, message).into());
        }
        if folders.is_alone() && paths::dids_of(path).iter().all(|did| *did == file.did) {
            continue;
        }
        if let Some(holder) = folders.holder(session, &file.did, path)? {
            return Err(taken(&file.did, path, &holder).into());
        }
    }
    Ok(())
}

fn taken(did: &Did, path: &str, holder: &Holder) -> Refusal {
    let message = format!("{did} cannot be registered at the path {path}: that is the path of {holder}");
    Refusal::new(Class::Duplicate, message)
}

/// Notes that a client brings files itself: locks on them wait for it, and no transfer is made.
fn uploads(
    session: &mut dyn Session,
    rse: RseId,
    files: &[NewReplica],
    account: &AccountName,
    now: Millis,
) -> Result<(), StoreError> {
    let text = "INSERT INTO requests (did_id, rse_id, state, n_failures, cancel, not_before, created, updated, attempt, activity, priority,
        account) SELECT p.did_id, p.rse_id, 'W', 0, CAST($4 AS BOOLEAN), 0, CAST($5 AS BIGINT), CAST($5 AS BIGINT), 1, 'Upload', 3,
        CAST($6 AS TEXT) FROM dids d JOIN replicas p ON p.did_id = d.did_id WHERE d.scope = $1 AND d.name = $2 AND p.rse_id = $3
        AND p.state = 'C' ON CONFLICT (did_id, rse_id) DO NOTHING";
    let row = |file: &NewReplica| {
        let (scope, name) = (file.did.scope.as_str(), file.did.name.as_str());
        values![scope, name, rse.0, false, now, account.as_str()].to_vec()
    };
    let coming = files.iter().filter(|file| file.is_coming).map(row);
    session.execute_later(text, coming.collect())
}

/// Refuses files of which one is not the same as a known one, is given twice, or has the path of another one. Otherwise the RSE has some of
/// them already.
fn look(session: &mut dyn Session, rse: RseId, files: &[NewReplica]) -> Result<(), StoreError> {
    let mut seen = std::collections::BTreeSet::new();
    for file in files {
        let known = dids::get(session, &file.did)?;
        let differs =
            |said: &Option<String>, known: &Option<String>| said.is_some() && known.is_some() && said != known;
        if known.kind != DidType::File
            || known.bytes != Some(file.bytes)
            || differs(&file.adler32, &known.adler32)
            || differs(&file.md5, &known.md5)
        {
            let message = format!("{} is known with another size or checksum, or is no file", file.did);
            return Err(Refusal::new(Class::FileConsistencyMismatch, message).into());
        }
        if !seen.insert(&file.did) {
            let message = format!("{} is given twice", file.did);
            return Err(Refusal::new(Class::Duplicate, message).into());
        }
        if let Some(path) = file.path.as_deref() {
            let folders = Folders {
                rse,
                overlaps: Vec::new(),
            };
            if let Some(holder) = folders.holder(session, &file.did, path)? {
                return Err(taken(&file.did, path, &holder).into());
            }
            let text = "SELECT path FROM replicas WHERE did_id = $1 AND rse_id = $2";
            let known = session.row(text, &values![known.id.0, rse.0])?;
            let known = known
                .map(|row| row.optional(0, Row::text).map(|path| path.map(str::to_owned)))
                .transpose()?
                .flatten();
            if known.as_deref().is_some_and(|known| known != path) {
                let message = format!("{} is registered at another path there, not at {path}", file.did);
                return Err(Refusal::new(Class::Duplicate, message).into());
            }
        }
    }
    Ok(())
}

/// A replica as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The file.
    pub file: DidId,
    /// The RSE.
    pub rse: RseId,
    /// Its name.
    pub rse_name: RseName,
    /// The id of the RSE that clients see.
    pub rse_uid: String,
    /// Disk or tape.
    pub rse_type: RseType,
    /// Whether files may vanish there at any time.
    pub is_volatile: bool,
    /// Its state.
    pub state: ReplicaState,
    /// The size of the file.
    pub bytes: u64,
    /// Locks that hold it.
    pub n_locks: u64,
    /// From when on it may be deleted.
    pub tombstone: Option<Millis>,
    /// Where it is, if that does not follow from the DID.
    pub path: Option<String>,
    /// When it last changed.
    pub updated: Millis,
}

fn replica(row: &Row) -> Result<Replica, StoreError> {
    Ok(Replica {
        file: DidId(row.size(0)?),
        rse: rse_id(row, 1)?,
        rse_name: row.parsed(2)?,
        state: row.parsed(3)?,
        bytes: row.size(4)?,
        n_locks: row.size(5)?,
        tombstone: row.optional(6, Row::int)?,
        path: row.optional(7, Row::text)?.map(str::to_owned),
        rse_uid: row.text(8)?.to_owned(),
        rse_type: row.parsed(9)?,
        is_volatile: row.bool(10)?,
        updated: row.int(11)?,
    })
}

/// The replicas of files, by file and RSE.
pub fn of(session: &mut dyn Session, files: &[DidId]) -> Result<Vec<Replica>, StoreError> {
    let text = "SELECT p.did_id, p.rse_id, r.name, p.state, p.bytes, p.n_locks, p.tombstone, p.path, r.uid, r.type, r.volatile, p.updated FROM replicas p
        JOIN rses r ON r.rse_id = p.rse_id WHERE p.did_id = $1 ORDER BY p.rse_id";
    let rows = session.query_many(text, &dids::numbers(files))?;
    rows.iter().map(replica).collect()
}

/// Sets the states of replicas, as clients tell them: all or none. Locks follow.
///
/// # Errors
/// [`Class::ReplicaNotFound`]; [`Class::UnsupportedOperation`]: a transfer brings the file, or it is being deleted.
pub fn set_states(
    session: &mut dyn Session,
    rse: RseId,
    states: &BTreeMap<DidId, ReplicaState>,
    now: Millis,
) -> Result<(), StoreError> {
    let all = states.keys().map(|file| (*file, rse)).collect::<Vec<_>>();
    let before = places::read(session, &all)?;
    found(u64::from(before.len() == all.len()))?;
    let mut changes = Vec::new();
    for (at, before) in before {
        let state = states.get(&at.0).copied().unwrap_or(before.replica);
        let busy = || {
            Refusal::new(
                Class::UnsupportedOperation,
                "A transfer brings the file, or it is being deleted",
            )
        };
        let after = before.told(state).ok_or_else(busy)?;
        changes.push(Change {
            at,
            before,
            after: Some(after),
        });
    }
    places::write(session, &changes, Terms::NONE, now)
}

/// An upload that a client has not ended for so long is given up, in milliseconds.
const UPLOAD_MAX: Millis = 86_400_000;

/// Gives up uploads that clients began long ago, at most so many: their rest is deleted, and rules that want the files are stuck.
///
/// # Errors
/// The database fails.
pub fn give_up_uploads(session: &mut dyn Session, now: Millis, limit: usize) -> Result<(), StoreError> {
    let text =
        "SELECT q.did_id, q.rse_id FROM requests q JOIN replicas p ON p.did_id = q.did_id AND p.rse_id = q.rse_id
        WHERE q.state = 'W' AND p.state = 'C' AND q.updated < $1 ORDER BY q.did_id, q.rse_id LIMIT $2";
    let rows = session.query(text, &values![now - UPLOAD_MAX, limit as u64])?;
    let all = rows.iter().map(places::at).collect::<Result<Vec<_>, _>>()?;
    let given_up = End::Failed {
        recoverable: false,
        has_other_source: false,
    };
    let change = |(at, before): (places::At, Place)| Change {
        at,
        before,
        after: Some(before.ended(given_up, timestamp(now))),
    };
    let changes = places::read(session, &all)?.into_iter().map(change);
    places::write(session, &changes.collect::<Vec<_>>(), Terms::NONE, now)
}

/// Sets the time from which a replica may be deleted. One that a lock holds may not.
///
/// # Errors
/// [`Class::ReplicaNotFound`], [`Class::ReplicaIsLocked`].
pub fn set_tombstone(
    session: &mut dyn Session,
    (file, rse): (DidId, RseId),
    tombstone: Millis,
    now: Millis,
) -> Result<(), StoreError> {
    let text = "SELECT n_locks FROM replicas WHERE did_id = $1 AND rse_id = $2 FOR UPDATE";
    let row = session.row(text, &values![file.0, rse.0])?;
    let n_locks = row.map(|row| row.size(0)).transpose()?;
    found(u64::from(n_locks.is_some()))?;
    if n_locks > Some(0) {
        return Err(Refusal::new(Class::ReplicaIsLocked, "A rule holds the replica").into());
    }
    let text = "UPDATE replicas SET tombstone = $3, updated = $4 WHERE did_id = $1 AND rse_id = $2";
    found(session.execute(text, &values![file.0, rse.0, tombstone, now])?)
}

fn found(n_rows: u64) -> Result<(), StoreError> {
    if n_rows == 0 {
        return Err(Refusal::new(Class::ReplicaNotFound, "There is no such replica").into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
