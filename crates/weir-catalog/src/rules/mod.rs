//! Rules: how many copies of a DID are to be at which RSEs, and until when.

mod arrivals;
mod change;
mod content;
pub mod create;
pub mod datasets;
pub mod evaluate;
mod placing;
pub mod repair;

pub(crate) use placing::left;
use weir_database::{Row, Session, values};

use weir_model::catalog::{AccountName, Did, Grouping, LockState, Notification, RuleState};
use weir_rules::{
    ids::{DidId, RseId, RuleId},
    lifetime::Lifetime,
    state::LockCounts,
};
use weir_store::StoreError;

use weir_service::time::Millis;

use crate::{
    places::{rule_id, timestamp},
    refusal::{Class, Refusal},
    rses::rse_id,
};
pub use change::{RuleChange, change};

/// Locks that one transaction makes or releases, and units that it places, at most: it stays short, however large a dataset is.
pub const PART: u64 = 2_000;

/// A rule as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its number in the database.
    pub id: RuleId,
    /// The id that clients see: 32 hexadecimal digits.
    pub uid: String,
    /// The DID that it is about.
    pub did: DidId,
    /// The terms on which it was added.
    pub wish: RuleTerms,
    /// Its state.
    pub state: RuleState,
    /// Its locks, by state.
    pub counts: LockCounts,
    /// The newest reason why a file does not come.
    pub error: Option<String>,
    /// When it was added.
    pub created: Millis,
    /// When it last changed.
    pub updated: Millis,
    /// When it became stuck.
    pub stuck_at: Option<Millis>,
    /// The rule that replaces it, once that is OK.
    pub child: Option<RuleId>,
}

/// The terms of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleTerms {
    /// Its account.
    pub account: AccountName,
    /// The RSEs among which copies are placed.
    pub expression: String,
    /// The number of copies; at least one.
    pub copies: u32,
    /// The set of files that share their RSEs.
    pub grouping: Grouping,
    /// The attribute of RSEs that weighs them.
    pub weight: Option<String>,
    /// The RSEs from which files may come; `None`: any.
    pub source_expression: Option<String>,
    /// Its activity.
    pub activity: String,
    /// From 1 to 5.
    pub priority: u32,
    /// When it ends.
    pub expires: Option<Millis>,
    /// Whether it cannot be deleted.
    pub is_locked: bool,
    /// Whether its replicas are of no use once it has ended.
    pub purge: bool,
    /// When its owner is notified.
    pub notify: Notification,
    /// The owner's remark.
    pub comments: Option<String>,
    /// Metadata: a JSON object.
    pub meta: Option<String>,
}

impl Rule {
    /// Its end. Of a rule that was moved, the child's state is `waits_for_child`.
    pub fn lifetime(&self, waits_for_child: bool) -> Lifetime {
        Lifetime {
            expires: self.wish.expires.map(timestamp),
            locked: self.wish.is_locked,
            waits_for_child,
        }
    }
}

const COLUMNS: &str = "rule_id, uid, did_id, account, expression, copies, grouped, weight, source_expression, activity, priority, expires,
    is_locked, purge, notify, comments, meta, state, n_ok, n_replicating, n_stuck, error, created, updated, stuck_at, child";

fn rule(row: &Row) -> Result<Rule, StoreError> {
    let text = |column| Ok::<_, StoreError>(row.optional(column, Row::text)?.map(str::to_owned));
    Ok(Rule {
        id: rule_id(row, 0)?,
        uid: row.text(1)?.to_owned(),
        did: DidId(row.size(2)?),
        wish: RuleTerms {
            account: row.parsed(3)?,
            expression: row.text(4)?.to_owned(),
            copies: row.size(5)? as u32,
            grouping: row.parsed(6)?,
            weight: text(7)?,
            source_expression: text(8)?,
            activity: row.text(9)?.to_owned(),
            priority: row.size(10)? as u32,
            expires: row.optional(11, Row::int)?,
            is_locked: row.bool(12)?,
            purge: row.bool(13)?,
            notify: row.parsed(14)?,
            comments: text(15)?,
            meta: text(16)?,
        },
        state: row.parsed(17)?,
        counts: LockCounts {
            ok: row.size(18)?,
            replicating: row.size(19)?,
            stuck: row.size(20)?,
        },
        error: text(21)?,
        created: row.int(22)?,
        updated: row.int(23)?,
        stuck_at: row.optional(24, Row::int)?,
        child: row.optional(25, rule_id)?,
    })
}

fn missing(uid: &str) -> Refusal {
    let message = format!("No rule with the id {uid} found");
    Refusal::new(Class::RuleNotFound, message)
}

/// A rule by the id that clients see.
///
/// # Errors
/// [`Class::RuleNotFound`].
pub fn get(session: &mut dyn Session, uid: &str) -> Result<Rule, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rules WHERE uid = $1");
    let row = session.row(&text, &values![uid])?;
    rule(&row.ok_or_else(|| missing(uid))?)
}

/// The rule of this number, which no other transaction changes before the end of this one.
fn get_locked(session: &mut dyn Session, id: RuleId) -> Result<Option<Rule>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rules WHERE rule_id = $1 FOR UPDATE");
    let row = session.row(&text, &values![id.0])?;
    row.as_ref().map(rule).transpose()
}

/// The rules of a DID, in the order in which they were added.
pub fn of_did(session: &mut dyn Session, did: DidId) -> Result<Vec<Rule>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rules WHERE did_id = $1 ORDER BY rule_id");
    session.query(&text, &values![did.0])?.iter().map(rule).collect()
}

/// The rules of an account, newest first, at most so many.
pub fn of_account(session: &mut dyn Session, account: &AccountName, limit: usize) -> Result<Vec<Rule>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM rules WHERE account = $1 ORDER BY rule_id DESC LIMIT $2");
    let rows = session.query(&text, &values![account.as_str(), limit as u64])?;
    rows.iter().map(rule).collect()
}

/// Sets the end of a rule. An ended rule is released at the next evaluation.
///
/// # Errors
/// [`Class::RuleNotFound`].
pub fn set_end(session: &mut dyn Session, uid: &str, expires: Option<Millis>, now: Millis) -> Result<(), StoreError> {
    let text = "UPDATE rules SET expires = $2, updated = $3 WHERE uid = $1";
    if session.execute(text, &values![uid, expires, now])? == 0 {
        return Err(missing(uid).into());
    }
    Ok(())
}

/// Puts the evaluation of a rule off, for a reason that its owner sees.
///
/// # Errors
/// The database fails.
pub fn postpone(session: &mut dyn Session, id: RuleId, reason: &str, until: Millis) -> Result<(), StoreError> {
    let text = "UPDATE rules SET evaluate_at = $2, error = $3 WHERE rule_id = $1";
    session.execute(text, &values![id.0, until, reason]).map(drop)
}

/// A lock with the names of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The file.
    pub did: Did,
    /// The RSE.
    pub rse: RseId,
    /// Its state.
    pub state: LockState,
}

/// The locks of a rule, by file and RSE.
///
/// # Errors
/// The database fails.
pub fn locks(session: &mut dyn Session, id: RuleId) -> Result<Vec<Lock>, StoreError> {
    let text = "SELECT d.scope, d.name, p.rse_id, p.state, q.state FROM locks l JOIN dids d ON d.did_id = l.did_id
        JOIN replicas p ON p.did_id = l.did_id AND p.rse_id = l.rse_id
        LEFT JOIN requests q ON q.did_id = l.did_id AND q.rse_id = l.rse_id WHERE l.rule_id = $1 ORDER BY l.did_id, l.rse_id";
    let lock = |row: &Row| {
        let place = weir_rules::state::FileStates {
            replica: row.parsed(3)?,
            request: row.optional(4, Row::parsed)?,
        };
        Ok(Lock {
            did: Did {
                scope: row.parsed(0)?,
                name: row.parsed(1)?,
            },
            rse: rse_id(row, 2)?,
            state: weir_rules::state::of_place(place),
        })
    };
    session.query(text, &values![id.0])?.iter().map(lock).collect()
}

/// Deletes a rule softly, as Rucio does: it ends within the hour.
///
/// # Errors
/// [`Class::RuleNotFound`]; [`Class::UnsupportedOperation`] of a locked rule.
pub fn delete(session: &mut dyn Session, uid: &str, purge: Option<bool>, now: Millis) -> Result<(), StoreError> {
    let found = get(session, uid)?;
    if found.wish.is_locked {
        let message = format!("The rule {uid} is locked; unlock it before it is deleted");
        return Err(Refusal::new(Class::UnsupportedOperation, message).into());
    }
    let ended = found
        .lifetime(false)
        .deleted(timestamp(now))
        .expires
        .map(crate::places::millis);
    let text = "UPDATE rules SET expires = $2, purge = $3, updated = $4 WHERE uid = $1";
    let purge = purge.unwrap_or(found.wish.purge);
    session.execute(text, &values![uid, ended, purge, now]).map(drop)
}

#[cfg(test)]
pub(crate) mod tests;
