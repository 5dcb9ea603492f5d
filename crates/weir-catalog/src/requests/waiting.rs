//! Requests that have not ended are counted by RSE: by what they wait for, and by the room that they take on their way.

use std::collections::BTreeMap;

use weir_database::{Row, Session, values};
use weir_model::catalog::RequestWait;
use weir_rules::{ids::RseId, share};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::outgoing::{Stream, in_flight};

/// Requests that wait for the same at an RSE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// How many there are.
    pub requests: u64,
    /// When the first of them was made.
    pub since: Millis,
}

/// Requests that transfer services have, or are being handed, into an RSE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved {
    /// How many there are.
    pub requests: u64,
    /// The bytes of their files: the catalogue keeps this room at the RSE for them.
    pub bytes: u64,
}

/// The requests that have not ended, by the name of the RSE.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OpenRequests {
    /// Requests that have not gone out, or whose submission has not been answered, by what they wait for.
    pub waiting: BTreeMap<(String, RequestWait), Waiting>,
    /// Requests that have gone out, or are about to.
    pub reserved: BTreeMap<String, Reserved>,
}

/// Counts them at this time, where transfer services may have at most `most` requests.
///
/// # Errors
/// The database fails.
pub fn count(session: &mut dyn Session, now: Millis, most: u64) -> Result<OpenRequests, StoreError> {
    let names = names(session)?;
    let name = |rse: RseId| names.get(&rse).cloned().unwrap_or_default();
    let mut open = OpenRequests::default();
    for ((rse, wait), more) in waiting(session, now, most)? {
        let all = open.waiting.entry((name(rse), wait)).or_insert(Waiting {
            requests: 0,
            since: more.since,
        });
        all.requests += more.requests;
        all.since = all.since.min(more.since);
    }
    let text = "SELECT q.rse_id, count(*), CAST(coalesce(sum(p.bytes), 0) AS BIGINT) FROM requests q
        LEFT JOIN replicas p ON p.did_id = q.did_id AND p.rse_id = q.rse_id WHERE q.state IN ('G', 'S') GROUP BY q.rse_id";
    for row in session.query(text, &[])? {
        // A name may be that of a deleted RSE, too.
        let all = open.reserved.entry(name(crate::rses::rse_id(&row, 0)?)).or_default();
        all.requests += row.size(1)?;
        all.bytes += row.size(2)?;
    }
    Ok(open)
}

/// The waiting requests of an activity, with their RSE and what they wait for.
type Part = ((RseId, RequestWait), Waiting);

fn waiting(session: &mut dyn Session, now: Millis, most: u64) -> Result<Vec<Part>, StoreError> {
    let out = in_flight(session)?;
    let all = out.values().sum::<u64>();
    let is_full = |stream: &Stream| share::room(out.get(stream).copied().unwrap_or_default(), all, most) == 0;
    let text = "SELECT rse_id, activity, state, CASE WHEN not_before > $1 THEN coalesce(held, 'R') END AS held_by, count(*), min(created)
        FROM requests WHERE state = 'G' OR (state = 'Q' AND NOT cancel) GROUP BY rse_id, activity, state, held_by";
    let waiting = |row: &Row| {
        let rse = crate::rses::rse_id(row, 0)?;
        let held = row.optional(3, Row::text)?;
        let wait = match (row.text(2)?, held) {
            ("G", _) => RequestWait::Submission,
            (_, Some(held)) => held.parse().unwrap_or(RequestWait::Other),
            (_, None) if is_full(&(rse, row.text(1)?.to_owned())) => RequestWait::Share,
            (_, None) => RequestWait::Turn,
        };
        let waiting = Waiting {
            requests: row.size(4)?,
            since: row.int(5)?,
        };
        Ok(((rse, wait), waiting))
    };
    session.query(text, &values![now])?.iter().map(waiting).collect()
}

fn names(session: &mut dyn Session) -> Result<BTreeMap<RseId, String>, StoreError> {
    let rows = session.query("SELECT rse_id, name FROM rses", &[])?;
    let name = |row: &Row| Ok((crate::rses::rse_id(row, 0)?, row.text(1)?.to_owned()));
    rows.iter().map(name).collect()
}
