//! Changes of a rule by its owner.

use weir_database::{Session, Value, values};
use weir_model::catalog::RuleState;
use weir_rules::ids::RuleId;
use weir_service::time::Millis;
use weir_store::StoreError;

use super::repair;

/// A change of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleChange {
    /// Its end; `None`: it has none.
    Expires(Option<Millis>),
    /// The priority of its requests, from 1 to 5.
    Priority(u32),
    /// Whether it cannot be deleted.
    Locked(bool),
    /// Whether its replicas are of no use once it has ended.
    Purge(bool),
    /// The owner's remark.
    Comments(Option<String>),
    /// The RSEs from which files may come.
    SourceExpression(Option<String>),
    /// Its activity.
    Activity(String),
    /// Stuck locks are tried again at once.
    Repair,
    /// It is not repaired any more.
    Suspend,
}

/// Changes a rule.
///
/// # Errors
/// The database fails.
pub fn change(session: &mut dyn Session, id: RuleId, change: &RuleChange, now: Millis) -> Result<(), StoreError> {
    let (column, value) = match change {
        RuleChange::Repair => return repair::soon(session, id, now),
        RuleChange::Suspend => ("state", Value::from(RuleState::Suspended.letter())),
        RuleChange::Expires(end) => ("expires", Value::from(*end)),
        RuleChange::Priority(priority) => ("priority", Value::from(*priority)),
        RuleChange::Locked(is_locked) => ("is_locked", Value::from(*is_locked)),
        RuleChange::Purge(purge) => ("purge", Value::from(*purge)),
        RuleChange::Comments(text) => ("comments", Value::from(text.as_deref())),
        RuleChange::SourceExpression(text) => ("source_expression", Value::from(text.as_deref())),
        RuleChange::Activity(text) => ("activity", Value::from(text.as_str())),
    };
    let text = format!("UPDATE rules SET {column} = $2, updated = $3 WHERE rule_id = $1");
    session.execute(&text, &[Value::from(id.0), value, Value::from(now)])?;
    if let RuleChange::Priority(priority) = change {
        let text = "UPDATE requests SET priority = $2 WHERE (did_id, rse_id) IN (SELECT did_id, rse_id FROM locks WHERE rule_id = $1)";
        session.execute(text, &values![id.0, *priority])?;
    }
    Ok(())
}
