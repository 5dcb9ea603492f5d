//! Repair of stuck rules: a lock whose attempts are used up is tried again from the beginning, and a rule that stays stuck is suspended.

use weir_database::{Session, values};
use weir_model::catalog::RuleState;
use weir_rules::{
    ids::RuleId,
    retry::{REPAIR_AFTER, SUSPEND_AFTER},
};
use weir_service::time::Millis;
use weir_store::StoreError;

use super::PART;
use crate::places::{self, Change, Terms, rule_id};

/// Rules that have been stuck for so long without a change, the longest first, at most `limit`.
///
/// # Errors
/// Here and below: the database fails.
pub fn due(session: &mut dyn Session, now: Millis, limit: usize) -> Result<Vec<RuleId>, StoreError> {
    let before = now - REPAIR_AFTER.as_millis() as Millis;
    let text = "SELECT rule_id FROM rules WHERE state = 'S' AND updated <= $1 ORDER BY updated, rule_id LIMIT $2";
    let rows = session.query(text, &values![before, limit as u64])?;
    rows.iter().map(|row| rule_id(row, 0)).collect()
}

/// Requests a part of the stuck files of a rule; returns whether there are more. A rule that was stuck for two weeks is suspended
/// instead.
pub fn part(session: &mut dyn Session, rule: RuleId, now: Millis) -> Result<bool, StoreError> {
    let suspend = now - SUSPEND_AFTER.as_millis() as Millis;
    let text = "UPDATE rules SET state = $3, updated = $4 WHERE rule_id = $1 AND state = 'S' AND stuck_at <= $2";
    let values = values![rule.0, suspend, RuleState::Suspended.letter(), now];
    if session.execute(text, &values)? > 0 {
        return Ok(false);
    }
    let text = "SELECT l.did_id, l.rse_id FROM locks l JOIN replicas p ON p.did_id = l.did_id AND p.rse_id = l.rse_id
        LEFT JOIN requests q ON q.did_id = l.did_id AND q.rse_id = l.rse_id WHERE l.rule_id = $1 AND p.state <> 'A'
        AND (q.state IS NULL OR q.state IN ('F', 'N', 'O', 'M')) ORDER BY 1, 2 LIMIT $2";
    let rows = session.query(text, &values![rule.0, PART])?;
    let all = rows.iter().map(places::at).collect::<Result<Vec<_>, _>>()?;
    let before = places::read(session, &all)?;
    let changes = before.iter().map(|(at, before)| Change {
        at: *at,
        before: *before,
        after: Some(before.repaired()),
    });
    let changes = changes.collect::<Vec<_>>();
    let text = "SELECT activity, priority, account FROM rules WHERE rule_id = $1";
    let Some(row) = session.row(text, &values![rule.0])? else {
        return Ok(false);
    };
    let terms = Terms {
        activity: row.text(0)?,
        priority: row.size(1)? as u32,
        account: row.text(2)?,
    };
    places::write(session, &changes, terms, now)?;
    session.execute(
        "UPDATE rules SET updated = $2 WHERE rule_id = $1",
        &values![rule.0, now],
    )?;
    Ok(all.len() as u64 == PART)
}

/// Marks a rule for immediate repair, even a suspended one.
pub fn soon(session: &mut dyn Session, rule: RuleId, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE rules SET state = 'S', stuck_at = $2 WHERE rule_id = $1 AND state = 'U'";
    session.execute(text, &values![rule.0, now])?;
    part(session, rule, now).map(drop)
}
