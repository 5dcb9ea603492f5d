//! Why a change is refused that the database could take.

use uuid::Uuid;

use super::StoreError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum Conflict {
    /// A job id that exists already.
    #[error("job {0} exists already")]
    Duplicate(Uuid),
    /// A transfer that has not ended writes to this destination.
    #[error("a transfer to {0} is under way")]
    Taken(String),
    /// Operations on these files were taken from this node, and given to another; none: it may not write such a change at all.
    #[error("files {0:?} are not this node's any more")]
    NoLease(Vec<u64>),
}

impl From<Conflict> for StoreError {
    fn from(conflict: Conflict) -> Self {
        Self::refused(conflict)
    }
}
