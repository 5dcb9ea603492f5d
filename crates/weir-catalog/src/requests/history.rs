//! Attempts that have ended, kept for some time: clients ask for them, and sources are ranked by them.

use std::collections::BTreeMap;

use weir_database::{Session, values};
use weir_model::catalog::RequestState;
use weir_rules::{
    ids::{RequestId, RseId},
    place::End,
};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::Ended;
use crate::rses::rse_id;

/// Failures that are younger than this count when sources are ranked, in milliseconds.
const RECENT: Millis = 3_600_000;

/// Rows that are forgotten in one transaction, at most.
const FORGOTTEN: u64 = 10_000;

/// The state in which an attempt ended, as Rucio calls it.
fn state(end: End) -> RequestState {
    match end {
        End::Done => RequestState::Done,
        End::Failed { .. } | End::Cancelled => RequestState::Failed,
        End::Lost => RequestState::Lost,
        End::NoSource(state) => state,
    }
}

/// Stores the end of an attempt, which is now that of the request.
pub(super) fn keep(session: &mut dyn Session, ended: &Ended, now: Millis) -> Result<(), StoreError> {
    let text = "INSERT INTO request_history (request_id, attempt, did_id, rse_id, source, state, service, job, reason, activity, account,
        created, submitted, ended, started, finished) SELECT request_id, attempt, did_id, rse_id, source, CAST($3 AS TEXT), service, job,
        CAST($4 AS TEXT), activity, account, created, submitted, CAST($5 AS BIGINT), CAST($6 AS BIGINT), CAST($7 AS BIGINT) FROM requests WHERE request_id = $1 AND attempt = $2 ON CONFLICT DO NOTHING";
    let (request, reason) = (ended.attempt.request, ended.reason.as_deref());
    let state = state(ended.end).letter();
    let times = ended.times;
    let values = values![
        request.0,
        ended.attempt.number,
        state,
        reason,
        now,
        times.started,
        times.finished
    ];
    session.execute(text, &values).map(drop)
}

/// The sources with which attempts of these requests failed: so often each.
pub(super) fn failed_sources(
    session: &mut dyn Session,
    requests: &[RequestId],
) -> Result<BTreeMap<(RequestId, RseId), u32>, StoreError> {
    let text = "SELECT request_id, source, count(*) FROM request_history WHERE request_id = $1 AND state IN ('F', 'L')
        AND source IS NOT NULL GROUP BY request_id, source";
    let numbers = requests.iter().map(|one| values![one.0].to_vec()).collect::<Vec<_>>();
    let rows = session.query_many(text, &numbers)?;
    let failed = rows
        .iter()
        .map(|row| Ok(((RequestId(row.size(0)?), rse_id(row, 1)?), row.size(2)? as u32)));
    failed.collect()
}

/// Of each link with recent failures: how many of a thousand recent attempts failed. Links are pairs of source and destination.
pub(super) fn failing(session: &mut dyn Session, now: Millis) -> Result<BTreeMap<(RseId, RseId), u32>, StoreError> {
    let text = "SELECT source, rse_id, CAST(1000 * sum(CASE WHEN state = 'D' THEN 0 ELSE 1 END) / count(*) AS BIGINT) FROM request_history
        WHERE ended > $1 AND source IS NOT NULL GROUP BY source, rse_id";
    let rows = session.query(text, &values![now - RECENT])?;
    let mut failing = BTreeMap::new();
    for row in rows {
        let permille = row.size(2)? as u32;
        if permille > 0 {
            failing.insert((rse_id(&row, 0)?, rse_id(&row, 1)?), permille);
        }
    }
    Ok(failing)
}

/// Forgets attempts that ended before this time, a part of them; whether there may be more.
///
/// # Errors
/// The database fails.
pub fn forget(session: &mut dyn Session, before: Millis) -> Result<bool, StoreError> {
    let text =
        "DELETE FROM request_history WHERE (request_id, attempt) IN (SELECT request_id, attempt FROM request_history
        WHERE ended < $1 ORDER BY ended LIMIT $2)";
    Ok(session.execute(text, &values![before, FORGOTTEN])? == FORGOTTEN)
}
