//! The end of DIDs: their rules end, then their content is let go, and their names are not given again.

use weir_database::{Session, values};
use weir_rules::ids::DidId;
use weir_service::time::Millis;
use weir_store::StoreError;

use crate::rules::{PART, evaluate};

/// DIDs whose end has come, at most `limit`. A DID that a locked rule holds, and a file that is in a collection, stay.
///
/// # Errors
/// Here and below: the database fails.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<DidId>, StoreError> {
    let text = "SELECT d.did_id FROM dids d WHERE d.expires <= $1 AND d.deleted IS NULL
        AND NOT EXISTS (SELECT 1 FROM rules r WHERE r.did_id = d.did_id AND (r.is_locked OR r.expires <= $1))
        AND (d.type <> 'F' OR NOT EXISTS (SELECT 1 FROM contents c WHERE c.child = d.did_id)) ORDER BY d.expires, d.did_id LIMIT $2";
    let rows = session.query(text, &values![now, limit as u64])?;
    rows.iter().map(|row| row.size(0).map(DidId)).collect()
}

/// Brings a DID nearer to its end by one part; whether it is gone.
pub fn part(session: &mut dyn Session, did: DidId, now: Millis) -> Result<bool, StoreError> {
    let text = "UPDATE rules SET expires = $2, updated = $2 WHERE did_id = $1 AND (expires IS NULL OR expires > $2)";
    session.execute(text, &values![did.0, now])?;
    if session
        .row("SELECT 1 FROM rules WHERE did_id = $1 LIMIT 1", &values![did.0])?
        .is_some()
    {
        // Their locks are released first, part by part.
        return Ok(false);
    }
    // Rules on collections that contain it release its members.
    evaluate::content_changed(session, did, now)?;
    let text = "DELETE FROM contents WHERE (parent, child) IN (SELECT parent, child FROM contents WHERE parent = $1 OR child = $1
        ORDER BY parent, child LIMIT $2)";
    if session.execute(text, &values![did.0, PART])? == PART {
        return Ok(false);
    }
    // Copies of a file that no rule holds are of no use any more.
    let text = "UPDATE replicas SET tombstone = 0, updated = $2 WHERE did_id = $1 AND n_locks = 0 AND state <> 'B'";
    session.execute(text, &values![did.0, now])?;
    let text = "UPDATE dids SET deleted = $2, updated = $2 WHERE did_id = $1";
    session.execute(text, &values![did.0, now])?;
    Ok(true)
}
