//! Destinations with one writer.

use std::collections::HashSet;

use weir_store::postgres::Session;

use super::decode::get;
use crate::store::{Conflict, StoreError, Submission};

/// Claims the destinations of submissions. A row without a file that can be seen is another node's, which is about to commit.
const CLAIM: &str = "INSERT INTO destinations SELECT * FROM unnest($1::bigint[], $2::bytea[])
    ON CONFLICT (name) DO UPDATE SET file_id = excluded.file_id
    WHERE EXISTS (SELECT 1 FROM files f JOIN jobs j USING (job_no) WHERE f.file_id = destinations.file_id
        AND (f.finished IS NOT NULL OR j.finished IS NOT NULL)) RETURNING file_id";

/// # Errors
/// [`Conflict::Taken`]: a transfer that has not ended writes to one of them.
pub(super) fn claim(session: &mut Session, submissions: &[&Submission]) -> Result<(), StoreError> {
    let mut wanted = submissions
        .iter()
        .flat_map(|submission| submission.destinations())
        .collect::<Vec<_>>();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut seen = HashSet::new();
    if let Some((file, _)) = wanted.iter().find(|(_, name)| !seen.insert(*name)) {
        return Err(Conflict::Taken(file.destination.to_string()).into());
    }
    // In one order everywhere: two nodes that want the same ones must not wait for each other.
    wanted.sort_unstable_by_key(|(_, name)| *name);
    let ids = wanted.iter().map(|(file, _)| file.id as i64).collect::<Vec<_>>();
    let names = wanted.iter().map(|(_, name)| name.0.to_vec()).collect::<Vec<_>>();
    let rows = session.query(CLAIM, &[&ids, &names])?;
    let ours = rows
        .iter()
        .map(|row| get::<i64>(row, 0))
        .collect::<Result<HashSet<_>, _>>()?;
    match wanted.iter().find(|(file, _)| !ours.contains(&(file.id as i64))) {
        None => Ok(()),
        Some((file, _)) => Err(Conflict::Taken(file.destination.to_string()).into()),
    }
}
