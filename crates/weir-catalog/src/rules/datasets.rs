//! Locks of rules on datasets: for each rule, dataset and RSE the state of the rule's locks on the dataset's files.

use weir_database::{Row, Session, values};
use weir_model::{
    RseName,
    catalog::{AccountName, Did, LockState},
};
use weir_rules::ids::{DidId, RseId};
use weir_store::StoreError;

use crate::{
    dids::{self, content},
    places::rule_id,
    rses::rse_id,
};

/// A dataset that a rule holds at an RSE. Rules with grouping `NONE` hold files, and no datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetLock {
    /// The dataset.
    pub did: Did,
    /// The RSE.
    pub rse: RseName,
    /// The id of the RSE that clients see.
    pub rse_uid: String,
    /// The id of the rule that clients see.
    pub rule: String,
    /// The rule's account.
    pub account: AccountName,
    /// Stuck if the lock on one of its files is, else replicating if one is.
    pub state: LockState,
    /// Files of the dataset, and their size.
    pub size: (u64, u64),
}

/// Rules on a dataset or on a collection that it is in, with the RSEs at which they hold it.
const OF_DATASET: &str = "WITH RECURSIVE above (id) AS (SELECT CAST($1 AS BIGINT)
    UNION SELECT c.parent FROM contents c JOIN above a ON c.child = a.id)
    SELECT l.rule_id, l.uid, l.account, u.rse_id, r.name, r.uid FROM above a JOIN rules l ON l.did_id = a.id
    JOIN rule_units u ON u.rule_id = l.rule_id JOIN rses r ON r.rse_id = u.rse_id WHERE u.unit IN (SELECT id FROM above)
    ORDER BY l.rule_id, r.name";

/// How many locks of a rule on the files of a dataset at an RSE there are, by the states of replica and request.
const STATES: &str = "SELECT p.state, q.state, count(*) FROM contents c
    JOIN locks l ON l.rule_id = $2 AND l.did_id = c.child AND l.rse_id = $3
    JOIN replicas p ON p.did_id = l.did_id AND p.rse_id = l.rse_id
    LEFT JOIN requests q ON q.did_id = l.did_id AND q.rse_id = l.rse_id WHERE c.parent = $1 GROUP BY p.state, q.state";

/// The locks on a dataset, by rule and RSE.
///
/// # Errors
/// The database fails.
pub fn of(session: &mut dyn Session, dataset: DidId) -> Result<Vec<DatasetLock>, StoreError> {
    let Some(known) = dids::by_id(session, dataset)? else {
        return Ok(Vec::new());
    };
    let size = content::size(session, dataset)?;
    let rows = session.query_by_index(OF_DATASET, &values![dataset.0])?;
    let mut locks = Vec::with_capacity(rows.len());
    for row in &rows {
        locks.push(DatasetLock {
            did: known.did.clone(),
            rse: row.parsed(4)?,
            rse_uid: row.text(5)?.to_owned(),
            rule: row.text(1)?.to_owned(),
            account: row.parsed(2)?,
            state: state(session, dataset, (rule_id(row, 0)?.0, rse_id(row, 3)?))?,
            size,
        });
    }
    Ok(locks)
}

fn state(session: &mut dyn Session, dataset: DidId, (rule, rse): (u64, RseId)) -> Result<LockState, StoreError> {
    let rows = session.query_by_index(STATES, &values![dataset.0, rule, rse.0])?;
    let one = |row: &Row| {
        let place = weir_rules::state::FileStates {
            replica: row.parsed(0)?,
            request: row.optional(1, Row::parsed)?,
        };
        Ok(weir_rules::state::of_place(place))
    };
    let states = rows.iter().map(one).collect::<Result<Vec<_>, StoreError>>()?;
    let worst = [LockState::Stuck, LockState::Replicating];
    let worst = worst.into_iter().find(|state| states.contains(state));
    Ok(worst.unwrap_or(LockState::Ok))
}

/// Datasets in a collection, that one too if it is a dataset, by number.
///
/// # Errors
/// The database fails.
pub fn datasets(session: &mut dyn Session, collection: DidId) -> Result<Vec<DidId>, StoreError> {
    let text = "WITH RECURSIVE below (id) AS (SELECT CAST($1 AS BIGINT)
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id
        WHERE (SELECT p.type FROM dids p WHERE p.did_id = b.id) = 'C')
        SELECT b.id FROM below b WHERE (SELECT d.type FROM dids d WHERE d.did_id = b.id) = 'D' ORDER BY b.id";
    let rows = session.query(text, &values![collection.0])?;
    rows.iter().map(|row| row.size(0).map(DidId)).collect()
}

/// Datasets at an RSE that rules hold there, by number: after this one, and at most so many.
///
/// # Errors
/// The database fails.
pub fn at(session: &mut dyn Session, rse: RseId, after: DidId, limit: usize) -> Result<Vec<DidId>, StoreError> {
    let text = "WITH RECURSIVE below (id) AS (SELECT u.unit FROM rule_units u WHERE u.rse_id = $1
        UNION SELECT c.child FROM contents c JOIN below b ON c.parent = b.id
        WHERE (SELECT p.type FROM dids p WHERE p.did_id = b.id) = 'C')
        SELECT b.id FROM below b WHERE b.id > $2 AND (SELECT d.type FROM dids d WHERE d.did_id = b.id) = 'D' ORDER BY b.id LIMIT $3";
    let rows = session.query(text, &values![rse.0, after.0, limit as u64])?;
    rows.iter().map(|row| row.size(0).map(DidId)).collect()
}
