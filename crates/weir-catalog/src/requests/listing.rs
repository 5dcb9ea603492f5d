//! Requests and ended attempts, for people and clients.

use weir_database::{Row, Session, Value, values};
use weir_model::catalog::{Did, RequestState};
use weir_rules::ids::{RequestId, RseId, RuleId};
use weir_service::time::Millis;
use weir_store::StoreError;

use crate::{places::At, requests::CopyTimes, rses::rse_id};

/// A request, or an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRequest {
    /// The request.
    pub request: RequestId,
    /// The number of the attempt.
    pub number: u64,
    /// The file.
    pub did: Did,
    /// Its size.
    pub bytes: Option<u64>,
    /// Its checksums: adler32 and MD5.
    pub checksums: [Option<String>; 2],
    /// The destination.
    pub destination: RseId,
    /// The source, once one was chosen.
    pub source: Option<RseId>,
    /// Its state.
    pub state: RequestState,
    /// The transfer service and the job that have it.
    pub job: Option<(String, String)>,
    /// Why it waits, or why it failed.
    pub reason: Option<String>,
    /// Its activity.
    pub activity: String,
    /// The account of the rule that made it.
    pub account: String,
    /// Its priority, while it is open.
    pub priority: Option<u64>,
    /// The first of the rules that hold the place, with its DID.
    pub rule: Option<(String, Did)>,
    /// When the request was made.
    pub created: Millis,
    /// When it last changed; of an attempt that ended, when it did.
    pub updated: Millis,
    /// When it was submitted.
    pub submitted: Option<Millis>,
    /// It does not go out before this time.
    pub not_before: Option<Millis>,
    /// When the transfer service carried it out; only of an attempt that ended.
    pub times: CopyTimes,
}

const COLUMNS: &str = "q.request_id, q.attempt, d.scope, d.name, d.bytes, d.adler32, d.md5, q.rse_id, q.source, q.state, q.service, q.job,
    q.reason, q.activity, q.account, q.created, q.submitted, r.uid, w.scope, w.name";

/// Columns of open requests, and of ended attempts.
const OPEN: &str = "q.updated, q.not_before, q.priority, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT) FROM requests q";
const ENDED: &str = "q.ended, CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), q.started, q.finished FROM request_history q";

fn shown(row: &Row) -> Result<ListedRequest, StoreError> {
    let text = |column| Ok::<_, StoreError>(row.optional(column, Row::text)?.map(str::to_owned));
    Ok(ListedRequest {
        request: RequestId(row.size(0)?),
        number: row.size(1)?,
        did: Did {
            scope: row.parsed(2)?,
            name: row.parsed(3)?,
        },
        bytes: row.optional(4, Row::size)?,
        checksums: [text(5)?, text(6)?],
        destination: rse_id(row, 7)?,
        source: row.optional(8, rse_id)?,
        state: row.parsed(9)?,
        job: text(10)?.zip(text(11)?),
        reason: text(12)?,
        activity: row.text(13)?.to_owned(),
        account: row.text(14)?.to_owned(),
        created: row.int(15)?,
        submitted: row.optional(16, Row::int)?,
        rule: rule(row)?,
        updated: row.int(20)?,
        not_before: row.optional(21, Row::int)?,
        priority: row.optional(22, Row::size)?,
        times: CopyTimes {
            started: row.optional(23, Row::int)?,
            finished: row.optional(24, Row::int)?,
        },
    })
}

fn rule(row: &Row) -> Result<Option<(String, Did)>, StoreError> {
    let Some(uid) = row.optional(17, Row::text)? else {
        return Ok(None);
    };
    let did = Did {
        scope: row.parsed(18)?,
        name: row.parsed(19)?,
    };
    Ok(Some((uid.to_owned(), did)))
}

fn listed(
    session: &mut dyn Session,
    from: &str,
    rest: &str,
    values: &[Value],
) -> Result<Vec<ListedRequest>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS}, {from} JOIN dids d ON d.did_id = q.did_id LEFT JOIN rules r ON r.rule_id = (SELECT min(f.rule_id) FROM locks f
         WHERE f.did_id = q.did_id AND f.rse_id = q.rse_id) LEFT JOIN dids w ON w.did_id = r.did_id {rest}"
    );
    session.query(&text, values)?.iter().map(shown).collect()
}

/// The request of a place.
///
/// # Errors
/// Here and below: the database fails.
pub fn of_place(session: &mut dyn Session, (file, rse): At) -> Result<Option<ListedRequest>, StoreError> {
    let found = listed(
        session,
        OPEN,
        "WHERE q.did_id = $1 AND q.rse_id = $2",
        &values![file.0, rse.0],
    )?;
    Ok(found.into_iter().next())
}

/// The attempts of a place that have ended, the newest first, at most so many.
pub fn history_of_place(
    session: &mut dyn Session,
    (file, rse): At,
    limit: usize,
) -> Result<Vec<ListedRequest>, StoreError> {
    let rest = "WHERE q.did_id = $1 AND q.rse_id = $2 ORDER BY q.ended DESC, q.attempt DESC LIMIT $3";
    listed(session, ENDED, rest, &values![file.0, rse.0, limit as u64])
}

/// Requests on links in some states, by number: after this one, and at most so many. With `ended`, attempts that have ended instead.
pub fn between(
    session: &mut dyn Session,
    (sources, destinations): (&[RseId], &[RseId]),
    states: &[RequestState],
    (ended, after, limit): (bool, (RequestId, u64), usize),
) -> Result<Vec<ListedRequest>, StoreError> {
    let numbers = |all: &[RseId]| all.iter().map(|one| one.0.to_string()).collect::<Vec<_>>().join(",");
    let states = states
        .iter()
        .map(|one| format!("'{}'", one.letter()))
        .collect::<Vec<_>>()
        .join(",");
    let rest = format!(
        "WHERE q.source IN ({}) AND q.rse_id IN ({}) AND q.state IN ({states}) AND (q.request_id, q.attempt) > ($1, $2)
         ORDER BY q.request_id, q.attempt LIMIT $3",
        numbers(sources),
        numbers(destinations)
    );
    let from = if ended { ENDED } else { OPEN };
    listed(session, from, &rest, &values![after.0.0, after.1, limit as u64])
}

/// The requests that a rule waits for, by number, at most so many.
pub fn of_rule(session: &mut dyn Session, rule: RuleId, limit: usize) -> Result<Vec<ListedRequest>, StoreError> {
    let rest = "JOIN locks l ON l.did_id = q.did_id AND l.rse_id = q.rse_id WHERE l.rule_id = $1 ORDER BY q.request_id LIMIT $2";
    listed(session, OPEN, rest, &values![rule.0, limit as u64])
}
