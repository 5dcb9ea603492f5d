//! The ledger of loads: a row for each cycle that injected something, gave something up, or was held back.

use weir_database::{Row, Session, values};
use weir_rules::{ids::RuleId, loads::Held};
use weir_service::time::Millis;
use weir_store::StoreError;
use weir_units::Bytes;

use super::{Load, held};

/// A cycle of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub cycle: u64,
    /// When it was decided. The rule was made in the same transaction.
    pub asked: Millis,
    /// Bytes that the curve asked for from the start of the load to the next cycle.
    pub due: Bytes,
    /// Bytes that were given up.
    pub given_up: Bytes,
    /// Bytes that waited on the link.
    pub waiting: Bytes,
    /// Files that were injected.
    pub files: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Their rule.
    pub rule: Option<String>,
    /// The reason why less was injected than was wanted.
    pub held: Option<Held>,
    /// The same in a sentence, of a rule that was refused.
    pub reason: Option<String>,
    /// When the rule was gone.
    pub ended: Option<Millis>,
    /// Files that had arrived when their locks were released.
    pub arrived_files: u64,
    /// Their bytes.
    pub arrived: Bytes,
}

/// A dataset with the rule over it.
pub(super) struct Made {
    pub(super) dataset: u64,
    pub(super) rule: RuleId,
    pub(super) uid: String,
}

/// Writes the row of a cycle. One without a rule counts at once.
pub(super) fn write(
    session: &mut dyn Session,
    load: u64,
    entry: &Entry,
    made: Option<&Made>,
) -> Result<(), StoreError> {
    let text = "INSERT INTO load_cycles (load_id, cycle, asked, due_bytes, given_up_bytes, waiting_bytes, files, bytes, dataset, rule_id, rule,
        held, reason, arrived_files, arrived_bytes, counted)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, $14)";
    let values = values![
        load,
        entry.cycle,
        entry.asked,
        entry.due.0,
        entry.given_up.0,
        entry.waiting.0,
        entry.files,
        entry.bytes.0,
        made.map(|made| made.dataset),
        made.map(|made| made.rule.0),
        made.map(|made| made.uid.as_str()),
        entry.held.map(Held::as_str),
        entry.reason.as_deref(),
        made.is_none(),
    ];
    session.execute(text, &values).map(drop)
}

/// Cycles of a load after this number, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn entries(session: &mut dyn Session, load: u64, after: u64, limit: usize) -> Result<Vec<Entry>, StoreError> {
    let text = "SELECT cycle, asked, due_bytes, given_up_bytes, waiting_bytes, files, bytes, rule, held, reason, ended, arrived_files,
        arrived_bytes FROM load_cycles WHERE load_id = $1 AND cycle > $2 ORDER BY cycle LIMIT $3";
    let entry = |row: &Row| {
        Ok(Entry {
            cycle: row.size(0)?,
            asked: row.int(1)?,
            due: Bytes(row.size(2)?),
            given_up: Bytes(row.size(3)?),
            waiting: Bytes(row.size(4)?),
            files: row.size(5)?,
            bytes: Bytes(row.size(6)?),
            rule: row.optional(7, Row::text)?.map(str::to_owned),
            held: row.optional(8, Row::text)?.and_then(held),
            reason: row.optional(9, Row::text)?.map(str::to_owned),
            ended: row.optional(10, Row::int)?,
            arrived_files: row.size(11)?,
            arrived: Bytes(row.size(12)?),
        })
    };
    session
        .query(text, &values![load, after, limit as u64])?
        .iter()
        .map(entry)
        .collect()
}

/// The files of rules that are there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// Rules that are there.
    pub rules: u64,
    /// Files that have arrived, of rules that are there or whose end is not in the sums.
    pub arrived_files: u64,
    /// Their bytes.
    pub arrived: Bytes,
    /// Bytes that have not arrived.
    pub waiting: Bytes,
    /// Bytes that had not arrived when their rule ended, and are not in the sums.
    pub lost: Bytes,
}

/// The files and bytes of the open cycles of a load.
///
/// # Errors
/// The database fails.
pub fn live(session: &mut dyn Session, load: &Load) -> Result<Live, StoreError> {
    let text = "SELECT CASE WHEN ended IS NULL THEN 1 ELSE 0 END, count(*), CAST(sum(arrived_files) AS BIGINT),
        CAST(sum(arrived_bytes) AS BIGINT), CAST(sum(bytes) AS BIGINT) FROM load_cycles WHERE load_id = $1 AND NOT counted GROUP BY 1";
    let mut live = Live::default();
    for row in session.query(text, &values![load.id])? {
        live.arrived_files += row.size(2)?;
        live.arrived.0 += row.size(3)?;
        if row.size(0)? == 1 {
            live.rules = row.size(1)?;
        } else {
            live.lost.0 += row.size(4)?.saturating_sub(row.size(3)?);
        }
    }
    if live.rules == 0 {
        return Ok(live);
    }
    let text = "SELECT p.state = 'A', count(*), CAST(sum(p.bytes) AS BIGINT) FROM load_cycles c JOIN locks l ON l.rule_id = c.rule_id
        JOIN replicas p ON p.did_id = l.did_id AND p.rse_id = l.rse_id
        WHERE c.load_id = $1 AND NOT c.counted AND c.ended IS NULL GROUP BY 1";
    for row in session.query_by_index(text, &values![load.id])? {
        if row.bool(0)? {
            live.arrived_files += row.size(1)?;
            live.arrived.0 += row.size(2)?;
        } else {
            live.waiting.0 += row.size(2)?;
        }
    }
    Ok(live)
}

/// The bytes on the link of a load: the files of its open rules that have not arrived. Rules that are OK are not read.
pub(super) fn waiting(session: &mut dyn Session, load: &Load) -> Result<Bytes, StoreError> {
    let text =
        "SELECT CAST(coalesce(sum(p.bytes), 0) AS BIGINT) FROM load_cycles c JOIN rules r ON r.rule_id = c.rule_id
        JOIN locks l ON l.rule_id = c.rule_id JOIN replicas p ON p.did_id = l.did_id AND p.rse_id = l.rse_id
        WHERE c.load_id = $1 AND NOT c.counted AND c.ended IS NULL AND r.state <> 'O' AND p.state <> 'A'";
    let rows = session.query_by_index(text, &values![load.id])?;
    rows.first().map_or(Ok(Bytes::ZERO), |row| row.size(0).map(Bytes))
}

/// Adds the cycles whose rules have ended to the sums of their load; returns the number of open ones.
pub(super) fn count(session: &mut dyn Session, load: &mut Load) -> Result<u64, StoreError> {
    let text = "UPDATE load_cycles SET counted = $2 WHERE load_id = $1 AND NOT counted AND ended IS NOT NULL
        RETURNING bytes, arrived_files, arrived_bytes";
    for row in session.query(text, &values![load.id, true])? {
        load.sums.arrived_files += row.size(1)?;
        load.sums.arrived.0 += row.size(2)?;
        load.sums.lost.0 += row.size(0)?.saturating_sub(row.size(2)?);
    }
    let text = "SELECT count(*) FROM load_cycles WHERE load_id = $1 AND NOT counted";
    session.row(text, &values![load.id])?.map_or(Ok(0), |row| row.size(0))
}
