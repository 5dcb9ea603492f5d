//! An attempt at a request, and its end.

use weir_database::Row;
use weir_rules::{
    ids::{DidId, RequestId},
    place::End,
};
use weir_service::time::Millis;
use weir_store::StoreError;

use crate::{places::At, rses::rse_id};

/// An attempt of a request. The id of its job is derived from request and number, so that a repeated submission is the same job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The request. A file that goes to the same RSE once more has another one.
    pub request: RequestId,
    /// The file and the RSE that it goes to.
    pub at: At,
    /// The number of the attempt, from 1.
    pub number: u64,
}

pub(super) fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        at: (DidId(row.size(0)?), rse_id(row, 1)?),
        number: row.size(2)?,
        request: RequestId(row.size(3)?),
    })
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The attempt.
    pub attempt: Attempt,
    /// Its end.
    pub end: End,
    /// The reason of a failure, for people.
    pub reason: Option<String>,
    /// When the transfer service carried it out.
    pub times: CopyTimes,
}

/// When a transfer service carried an attempt out, by its own clock; `None` where it does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyTimes {
    /// The copy began.
    pub started: Option<Millis>,
    /// The copy ended, verified or not.
    pub finished: Option<Millis>,
}
