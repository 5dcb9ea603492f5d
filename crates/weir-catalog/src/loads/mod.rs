//! Loads: plans that hold links at rates, by rules over files that lie at the source already.

mod choice;
mod cycle;
mod ledger;

use serde::{Deserialize, Serialize};
use weir_database::{Row, Session, values};
use weir_model::catalog::{AccountName, LoadState, Scope};
use weir_rules::{
    ids::{DidId, RseId},
    loads::{Curve, Held, Point, Terms, phase},
};
use weir_service::time::Millis;
use weir_store::StoreError;
use weir_units::{BitRate, Bytes};

pub use cycle::{due, step};
pub use ledger::{Entry, Live, entries, live};

use crate::{
    refusal::{Class, Refusal},
    rses::rse_id,
};

/// A load as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Its number in the database.
    pub id: u64,
    /// The id that clients see: 32 hexadecimal digits.
    pub uid: String,
    /// The plan as its owner added it.
    pub plan: LoadPlan,
    /// Its state.
    pub state: LoadState,
    /// When it is to be looked at next; `None`: never again.
    pub due: Option<Millis>,
    /// The last file that was taken.
    pub place: DidId,
    /// Cycles that have a row in the ledger.
    pub n_cycles: u64,
    /// Its sums. Arrivals and losses cover ended rules only.
    pub sums: Sums,
    /// Whether a stop ends the rules that it made.
    pub ends_rules: bool,
    /// The reason why the last cycle injected less than it wanted.
    pub held: Option<Held>,
    /// The same in a sentence, or the account that stopped it.
    pub reason: Option<String>,
    /// When it was stopped first.
    pub stopped: Option<Millis>,
    /// When it was added.
    pub created: Millis,
}

/// The sums of a load's cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files that were injected.
    pub injected_files: u64,
    /// Bytes that were injected.
    pub injected: Bytes,
    /// Files that had arrived when their rule ended.
    pub arrived_files: u64,
    /// Their bytes.
    pub arrived: Bytes,
    /// Bytes that had not arrived when their rule ended.
    pub lost: Bytes,
    /// Bytes that were not injected in time.
    pub given_up: Bytes,
}

/// A load that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadPlan {
    /// The account that owns its rules.
    pub account: AccountName,
    /// The RSE that holds the files.
    pub source: RseId,
    /// The RSE that gets them.
    pub destination: RseId,
    /// The scope of the datasets that it makes.
    pub scope: Scope,
    /// The collection whose files it takes; `None`: any file at the source.
    pub data: Option<DidId>,
    /// When it starts.
    pub starts: Millis,
    /// When it ends.
    pub ends: Millis,
    /// The rest.
    pub settings: Settings,
}

/// The settings of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The rate: points of milliseconds from the start, and bits per second.
    pub curve: Vec<(u64, u64)>,
    /// From one cycle to the next, in milliseconds.
    pub interval: u64,
    /// The life of a rule, in milliseconds.
    pub lifetime: u64,
    /// After this time beyond the life of its rule a file takes part again, in milliseconds.
    pub cooldown: u64,
    /// Thousandths of the rate that are asked for in addition.
    pub fudge: u32,
    /// Thousandths by which a cycle may exceed its target.
    pub overshoot: u32,
    /// Whether large files are taken first.
    pub big_first: bool,
    /// Whether no rules are made.
    pub dry_run: bool,
    /// The activity of the rules.
    pub activity: String,
    /// The priority of the rules, from 1 to 5.
    pub priority: u32,
    /// The owner's remark.
    pub comment: Option<String>,
}

impl Settings {
    /// The curve.
    ///
    /// # Errors
    /// The points are no curve.
    pub fn curve(&self) -> Result<Curve, weir_rules::loads::CurveError> {
        let point = |(after, rate): &(u64, u64)| Point {
            after: std::time::Duration::from_millis(*after),
            rate: BitRate(*rate),
        };
        Curve::new(self.curve.iter().map(point).collect())
    }
}

impl Load {
    /// The terms on which its cycles are decided.
    ///
    /// # Errors
    /// The row cannot be read.
    pub fn terms(&self) -> Result<Terms, StoreError> {
        let settings = &self.plan.settings;
        let interval = std::time::Duration::from_millis(settings.interval.max(1));
        let unreadable = |error| StoreError::Unreadable(format!("the curve of load {}: {error}", self.uid));
        Ok(Terms {
            curve: settings.curve().map_err(unreadable)?,
            length: between(self.plan.starts, self.plan.ends),
            interval,
            phase: phase(self.id, interval),
            fudge: settings.fudge,
            overshoot: settings.overshoot,
        })
    }
}

/// The time from one moment to another; zero if that is earlier.
pub(crate) fn between(from: Millis, to: Millis) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or_default())
}

const COLUMNS: &str = "load_id, uid, account, source, destination, scope, data, settings, state, starts, ends, due, place, n_cycles,
    injected_files, injected_bytes, arrived_files, arrived_bytes, lost_bytes, given_up_bytes, ends_rules, held, reason, created, stopped";

fn load(row: &Row) -> Result<Load, StoreError> {
    let settings = serde_json::from_str(row.text(7)?);
    let settings = settings.map_err(|error| StoreError::Unreadable(format!("the settings of a load: {error}")))?;
    Ok(Load {
        id: row.size(0)?,
        uid: row.text(1)?.to_owned(),
        plan: LoadPlan {
            account: row.parsed(2)?,
            source: rse_id(row, 3)?,
            destination: rse_id(row, 4)?,
            scope: row.parsed(5)?,
            data: row.optional(6, Row::size)?.map(DidId),
            starts: row.int(9)?,
            ends: row.int(10)?,
            settings,
        },
        state: row.parsed(8)?,
        due: row.optional(11, Row::int)?,
        place: DidId(row.size(12)?),
        n_cycles: row.size(13)?,
        sums: Sums {
            injected_files: row.size(14)?,
            injected: Bytes(row.size(15)?),
            arrived_files: row.size(16)?,
            arrived: Bytes(row.size(17)?),
            lost: Bytes(row.size(18)?),
            given_up: Bytes(row.size(19)?),
        },
        ends_rules: row.bool(20)?,
        held: row.optional(21, Row::text)?.and_then(held),
        reason: row.optional(22, Row::text)?.map(str::to_owned),
        created: row.int(23)?,
        stopped: row.optional(24, Row::int)?,
    })
}

fn held(word: &str) -> Option<Held> {
    Held::ALL.into_iter().find(|held| held.as_str() == word)
}

fn missing(uid: &str) -> Refusal {
    Refusal::new(Class::LoadNotFound, format!("No load with the id {uid} found"))
}

/// A load by the id that clients see.
///
/// # Errors
/// [`Class::LoadNotFound`].
pub fn get(session: &mut dyn Session, uid: &str) -> Result<Load, StoreError> {
    let row = session.row(&format!("SELECT {COLUMNS} FROM loads WHERE uid = $1"), &values![uid])?;
    load(&row.ok_or_else(|| missing(uid))?)
}

/// The load of this number, which no other transaction changes before the end of this one.
fn get_locked(session: &mut dyn Session, id: u64) -> Result<Option<Load>, StoreError> {
    let text = format!("SELECT {COLUMNS} FROM loads WHERE load_id = $1 FOR UPDATE");
    session.row(&text, &values![id])?.as_ref().map(load).transpose()
}

/// Loads of one account or of all, newest first, at most `limit`.
///
/// # Errors
/// The database fails.
pub fn list(session: &mut dyn Session, account: Option<&AccountName>, limit: usize) -> Result<Vec<Load>, StoreError> {
    let text = format!(
        "SELECT {COLUMNS} FROM loads WHERE CAST($1 AS TEXT) IS NULL OR account = $1 ORDER BY load_id DESC LIMIT $2"
    );
    let rows = session.query(&text, &values![account.map(AccountName::as_str), limit as u64])?;
    rows.iter().map(load).collect()
}

/// Adds a load. `uid` is a new random number of 32 hexadecimal digits.
///
/// # Errors
/// [`Class::Duplicate`]: the link has another load at that time, which is named.
pub fn add(session: &mut dyn Session, uid: &str, plan: &LoadPlan, now: Millis) -> Result<(), StoreError> {
    // Two loads of one link that are added at the same time would not see each other.
    session.query("SELECT name FROM guards WHERE name = 'loads' FOR UPDATE", &[])?;
    let text =
        "SELECT uid, account FROM loads WHERE source = $1 AND destination = $2 AND state IN ('W', 'I') AND starts < $4
        AND ends > $3 ORDER BY load_id LIMIT 1";
    let times = values![plan.source.0, plan.destination.0, plan.starts, plan.ends];
    if let Some(other) = session.row(text, &times)? {
        let message = format!(
            "The link has the load {} of {} at that time; stop that one first",
            other.text(0)?,
            other.text(1)?
        );
        return Err(Refusal::new(Class::Duplicate, message).into());
    }
    let text = "INSERT INTO loads (uid, account, source, destination, scope, data, settings, state, starts, ends, due, place, n_cycles,
        injected_files, injected_bytes, arrived_files, arrived_bytes, lost_bytes, given_up_bytes, ends_rules, created, updated)
        VALUES ($1, $2, $3, $4, $5, $6, $7, 'W', $8, $9, $8, 0, 0, 0, 0, 0, 0, 0, 0, $10, $11, $11)";
    let settings = serde_json::to_string(&plan.settings).map_err(|error| StoreError::Broken(error.into()))?;
    let values = values![
        uid,
        plan.account.as_str(),
        plan.source.0,
        plan.destination.0,
        plan.scope.as_str(),
        plan.data.map(|data| data.0),
        settings,
        plan.starts,
        plan.ends,
        false,
        now,
    ];
    session.execute(text, &values).map(drop)
}

/// Loads to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// One, by the id that clients see.
    One(String),
    /// All of an account.
    Of(AccountName),
    /// All.
    All,
}

/// Stops loads: from here on they make no rule, even after a restart. With `ends_rules` their rules end too. Returns
/// the number of loads that were running.
///
/// # Errors
/// The database fails.
pub fn stop(
    session: &mut dyn Session,
    which: &Which,
    (ends_rules, reason): (bool, &str),
    now: Millis,
) -> Result<u64, StoreError> {
    let (uid, account) = match which {
        Which::One(uid) => (Some(uid.as_str()), None),
        Which::Of(account) => (None, Some(account.as_str())),
        Which::All => (None, None),
    };
    // An ended load still has rules as long as it is due.
    let text =
        "UPDATE loads SET state = 'S', ends_rules = $1, due = $2, updated = $2, stopped = coalesce(stopped, $2), reason = $3 WHERE due IS NOT NULL
        AND (state <> 'S' OR ($1 AND NOT ends_rules)) AND (CAST($4 AS TEXT) IS NULL OR uid = $4)
        AND (CAST($5 AS TEXT) IS NULL OR account = $5)";
    session.execute(text, &values![ends_rules, now, reason, uid, account])
}

#[cfg(test)]
mod tests;
