//! Tells one batch from another.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::store::Change;

/// Tells a batch from the one before it.
pub(super) fn mark(changes: &[Change]) -> i64 {
    let mut hasher = DefaultHasher::new();
    changes.len().hash(&mut hasher);
    for change in changes {
        std::mem::discriminant(change).hash(&mut hasher);
        match change {
            Change::Submit(submission) => submission.job.id.hash(&mut hasher),
            Change::Begin { file, attempt, at, .. } | Change::Again { file, attempt, at, .. } => {
                (file, attempt, at).hash(&mut hasher);
            }
            Change::End { file, at, .. } | Change::Advance { file, at, .. } => (file, at).hash(&mut hasher),
            Change::Requested { files, request } => (files, request).hash(&mut hasher),
            Change::Unpinned { files } | Change::Force { files } => files.hash(&mut hasher),
            Change::Cancel { job, at, settled, .. } => (job, at, settled.len()).hash(&mut hasher),
            Change::Release { file } => file.hash(&mut hasher),
            Change::Metadata { file, metadata } => (file, metadata.get()).hash(&mut hasher),
            Change::Claim { file, claim } => (file, claim.map(|claim| (claim.since, claim.until))).hash(&mut hasher),
            Change::Priority { job, priority } => (job, priority).hash(&mut hasher),
            Change::Setting { key, value } => (key, value).hash(&mut hasher),
        }
    }
    // 0 means unmarked.
    (hasher.finish() as i64) | 1
}
