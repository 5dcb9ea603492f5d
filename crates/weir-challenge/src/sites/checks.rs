//! The checks of a site and of a link, and the file that they move.

use futures_util::future::BoxFuture;
use serde::Serialize;
use weir_service::check::{Check, Outcome};

use crate::services::storage::StorageDoor;

/// Size of the files that are written and copied: more than fits into one packet or one buffer, little enough for any line.
pub(super) const FILE_SIZE: u64 = 262_144;

/// A storage that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteChecks {
    /// The RSE, `transfer service`, or `catalogue`.
    pub rse: String,
    /// Its base.
    pub url: String,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// A copy that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyCheck {
    /// Source RSE.
    pub source: String,
    /// Destination RSE.
    pub destination: String,
    /// The copy mode that the plan forces; none where the transfer service chooses.
    pub mode: Option<&'static str>,
    /// The copy mode that worked, where the transfer service tells.
    pub worked: Option<String>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in seconds.
    pub took_s: f64,
}

/// The file that is written at a storage and read by others.
#[derive(Debug, Clone)]
pub(crate) struct TestFile {
    pub(crate) path: String,
    pub(crate) seed: u64,
    pub(crate) number: u64,
    pub(crate) size: u64,
}

impl TestFile {
    pub(crate) fn of(door: &StorageDoor, number: usize, seed: u64) -> Self {
        Self {
            path: format!("{}/preflight/{number}", door.directory),
            seed,
            number: number as u64,
            size: FILE_SIZE,
        }
    }
}

/// Measures a check.
pub(crate) fn timed<'w>(name: &'static str, work: impl Future<Output = Outcome> + Send + 'w) -> BoxFuture<'w, Check> {
    Box::pin(Check::of(name, work))
}

/// Ends a check at the deadline.
pub(crate) async fn in_time(deadline: tokio::time::Instant, work: impl Future<Output = Outcome>) -> Outcome {
    let late = || {
        Outcome::failed(
            "it took longer than the preflight may",
            "give it more time with --preflight TIME",
        )
    };
    tokio::time::timeout_at(deadline, work).await.unwrap_or_else(|_| late())
}
