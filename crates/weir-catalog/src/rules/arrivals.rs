//! Arrivals of rules that a load made: the ledger of loads keeps their number after the rule is gone.

use weir_database::{Session, values};
use weir_rules::ids::RuleId;
use weir_service::time::Millis;
use weir_store::StoreError;

/// Records released locks of a rule whose files had arrived: a number of files, and their bytes. Nothing is recorded
/// for rules that no load made.
pub(super) fn released(session: &mut dyn Session, rule: RuleId, (files, bytes): (u64, u64)) -> Result<(), StoreError> {
    let text = "UPDATE load_cycles SET arrived_files = arrived_files + $2, arrived_bytes = arrived_bytes + $3
        WHERE rule_id = $1 AND NOT counted";
    session.execute(text, &values![rule.0, files, bytes]).map(drop)
}

/// Notes that a rule is gone.
pub(super) fn close(session: &mut dyn Session, rule: RuleId, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE load_cycles SET ended = $2 WHERE rule_id = $1 AND NOT counted";
    session.execute(text, &values![rule.0, now]).map(drop)
}
