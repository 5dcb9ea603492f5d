//! Rows that nodes on one database exchange: heartbeats, submissions, leases and reports.
//!
//! Every statement here can be repeated after an error, and no acknowledged data depends on these rows: that is in jobs
//! and files. A node that lost its rows has lost its leases, and the scheduler orders their operations anew.

use std::collections::HashSet;

use tokio_postgres::Row;
use uuid::Uuid;
use weir_store::postgres::{LEADER, Session, notify};
use weir_world::{OpId, TransferId};

use super::{
    PostgresStore,
    write::{BatchPlan, number_of, with_arrivals},
};
use crate::store::{Change, Conflict, StoreError};

/// Notification channel for copying nodes.
pub(crate) const LEASES: &str = "hands";
/// Notification channel for requests that wait for an answer: this, and the number of the request.
pub(crate) const DOORS: &str = "doors";

/// An operation for another node.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub op: OpId,
    pub node: Uuid,
    /// The order, as JSON.
    pub order: String,
    /// Whether it is to end early.
    pub stop: bool,
}

/// The report of an operation that ran elsewhere, as JSON; `None`: its node is gone without a report.
pub(crate) type LeaseReport = (OpId, Option<String>);

pub(super) fn op_of(row: &Row) -> OpId {
    OpId {
        transfer: TransferId(row.get::<_, i64>(0) as u64),
        attempt: row.get::<_, i32>(1) as u32,
        epoch: row.get::<_, i64>(2) as u64,
    }
}

pub(super) type Columns = (Vec<i64>, Vec<i32>, Vec<i64>);

/// Ids for `unnest`.
pub(super) fn columns<'a>(ops: impl Iterator<Item = &'a OpId>) -> Columns {
    let mut columns = Columns::default();
    for op in ops {
        columns.0.push(op.transfer.0 as i64);
        columns.1.push(op.attempt as i32);
        columns.2.push(op.epoch as i64);
    }
    columns
}

/// Of every node.
impl PostgresStore {
    /// How many operations each node carries out for the scheduler.
    pub(crate) fn leases(&self) -> Result<Vec<(Uuid, i64)>, StoreError> {
        let text = "SELECT node, count(*) FROM leases WHERE report IS NULL GROUP BY node";
        self.members.with(|session| {
            let rows = session.query(text, &[])?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    /// Takes the next ids of files for this node alone.
    pub(super) fn take_ids(&self, n: u64) -> Result<std::ops::Range<u64>, StoreError> {
        self.members.with(|session| {
            let text = "UPDATE ids SET next_file = next_file + $1 RETURNING next_file";
            let row = session.row(text, &[&(n as i64)])?;
            let row = row.ok_or_else(|| StoreError::Broken("the table ids has lost its row".into()))?;
            let end = row.get::<_, i64>(0) as u64;
            Ok(end - n..end)
        })
    }
}

/// Of nodes that do not schedule.
impl PostgresStore {
    /// Writes the changes that a node may make without leading: jobs, and notes of its copies ([`Change::of_copy`]). A
    /// note about a file without a lease of this node is refused as [`Conflict::NoLease`], and the batch with it.
    pub(crate) fn deposit(&self, node: Uuid, changes: &[Change]) -> Result<(), StoreError> {
        let may = |change: &Change| matches!(change, Change::Submit(_)) || change.of_copy().is_some();
        if !changes.iter().all(may) {
            return Err(Conflict::NoLease(Vec::new()).into());
        }
        let mut files = changes
            .iter()
            .filter_map(Change::of_copy)
            .flatten()
            .map(|file| file as i64)
            .collect::<Vec<_>>();
        files.sort_unstable();
        files.dedup();
        self.deposits.with(|session| {
            session.transaction("BEGIN", |session| {
                hold_leases(session, node, &files)?;
                // A batch whose commit was not answered is sent again: rows under its own number are ours.
                let known = known(session, changes)?;
                let fresh = |change: &&Change| match change {
                    Change::Submit(submission) => !known.contains(&number_of(submission)),
                    _ => true,
                };
                let fresh = changes.iter().filter(fresh).collect::<Vec<_>>();
                BatchPlan::of(fresh.iter().copied()).write(session, &self.sealer)?;
                if with_arrivals(session, &fresh)? {
                    notify(session, LEADER)?;
                }
                Ok(())
            })
        })
    }

    /// Orders for this node that it has not accepted yet.
    pub(crate) fn ordered(&self, node: Uuid, epoch: u64) -> Result<Vec<Lease>, StoreError> {
        let text = "SELECT file_id, attempt, epoch, op, stop FROM leases
            WHERE node = $1 AND NOT taken AND epoch = $2 ORDER BY file_id LIMIT 5000";
        self.executing.with(|session| {
            let rows = session.query(text, &[&node, &(epoch as i64)])?;
            let lease = |row: &Row| Lease {
                op: op_of(row),
                node,
                order: row.get(3),
                stop: row.get(4),
            };
            Ok(rows.iter().map(lease).collect())
        })
    }

    /// Says that these have been taken.
    pub(crate) fn taken(&self, node: Uuid, ops: &[OpId]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter());
        let text =
            "UPDATE leases SET taken = true FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS d (f, a, e)
            WHERE file_id = f AND attempt = a AND epoch = e AND node = $4";
        self.executing
            .with(|session| session.execute(text, &[&files, &attempts, &epochs, &node]).map(drop))
    }

    /// Operations that must end early at this node.
    pub(crate) fn stopped(&self, node: Uuid) -> Result<Vec<OpId>, StoreError> {
        let text = "SELECT file_id, attempt, epoch FROM leases WHERE node = $1 AND stop AND report IS NULL";
        self.executing
            .with(|session| Ok(session.query(text, &[&node])?.iter().map(op_of).collect()))
    }

    /// Says how far operations are.
    pub(crate) fn moved(&self, node: Uuid, ops: &[(OpId, u64)]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter().map(|(op, _)| op));
        let bytes = ops.iter().map(|(_, bytes)| *bytes as i64).collect::<Vec<_>>();
        let text = "UPDATE leases SET moved = m
            FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[]) AS d (f, a, e, m)
            WHERE file_id = f AND attempt = a AND epoch = e AND node = $5";
        self.executing.with(|session| {
            session
                .execute(text, &[&files, &attempts, &epochs, &bytes, &node])
                .map(drop)
        })
    }

    /// Reports the ends of operations. Reports of operations that are no longer this node's are dropped.
    pub(crate) fn report(&self, node: Uuid, ops: &[(OpId, String)]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter().map(|(op, _)| op));
        let reports = ops.iter().map(|(_, report)| report.as_str()).collect::<Vec<_>>();
        let text = "UPDATE leases SET report = r, taken = true
            FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[]) AS d (f, a, e, r)
            WHERE file_id = f AND attempt = a AND epoch = e AND node = $5";
        self.executing.with(|session| {
            session.execute(text, &[&files, &attempts, &epochs, &reports, &node])?;
            notify(session, LEADER)
        })
    }
}

/// Keeps the leases of these files until the transaction ends.
fn hold_leases(session: &mut Session, node: Uuid, files: &[i64]) -> Result<(), StoreError> {
    if files.is_empty() {
        return Ok(());
    }
    let text = "SELECT file_id FROM leases WHERE file_id = ANY($1) AND node = $2 ORDER BY file_id FOR KEY SHARE";
    let held = session.query(text, &[&files, &node])?;
    let held = held.iter().map(|row| row.get(0)).collect::<HashSet<i64>>();
    let lost = files.iter().filter(|file| !held.contains(file));
    let lost = lost.map(|file| *file as u64).collect::<Vec<_>>();
    if lost.is_empty() {
        return Ok(());
    }
    Err(Conflict::NoLease(lost).into())
}

/// Numbers of submissions that the store has already.
fn known(session: &mut Session, changes: &[Change]) -> Result<HashSet<i64>, StoreError> {
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    for change in changes {
        if let Change::Submit(submission) = change {
            ids.push(submission.job.id);
            numbers.push(number_of(submission));
        }
    }
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let text = "SELECT job_no FROM jobs JOIN unnest($1::uuid[], $2::bigint[]) AS d (i, n) ON job_id = i AND job_no = n";
    let rows = session.query(text, &[&ids, &numbers])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_store::postgres::testing::wanted;

    use super::{
        super::tests::{OnServer, submit},
        *,
    };
    use crate::store::{
        Store,
        suite::{Keeper, begin},
    };

    #[test]
    fn without_an_epoch_only_submissions_are_taken() {
        // A node that does not lead would change rows that the scheduler has cached.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (leader, door) = (keeper.handle(), keeper.handle());
        let epoch = leader.next_epoch().unwrap();
        let node = Uuid::from_u128(7);
        for change in [submit(1, 1, 1), begin(1, 1)] {
            assert!(matches!(door.apply(&[change]), Err(StoreError::LeadershipLost)));
        }
        door.deposit(node, &[submit(1, 1, 2), submit(2, 3, 1)]).unwrap();
        // Given again, as after an answer that was lost; beside another one.
        door.deposit(node, &[submit(1, 1, 2), submit(3, 4, 1)]).unwrap();
        assert_eq!(leader.arrivals().unwrap(), [1, 3, 4]);
        assert!(matches!(
            door.deposit(node, &[submit(1, 9, 2)]),
            Err(error) if matches!(error.refusal(), Some(Conflict::Duplicate(_)))
        ));
        assert!(door.deposit(node, &[begin(1, 1)]).is_err());
        let lost = |outcome: Result<(), StoreError>| {
            let error = outcome.unwrap_err();
            matches!(error.refusal(), Some(Conflict::NoLease(lost)) if *lost == [1])
        };
        let claim = |file| Change::Claim {
            file,
            claim: Some(weir_executor::job::Claim { since: 5, until: None }),
        };
        assert!(lost(door.deposit(node, &[claim(1)])));
        let op = OpId {
            transfer: TransferId(1),
            attempt: 1,
            epoch,
        };
        let lease = Lease {
            op,
            node,
            order: "{}".into(),
            stop: false,
        };
        leader.lend(epoch, &[lease]).unwrap();
        door.deposit(node, &[claim(1)]).unwrap();
        assert_eq!(leader.file(1).unwrap().unwrap().claim.unwrap().since, 5);
        // Of a node that is gone.
        assert_eq!(leader.bury(epoch).unwrap(), [(op, None)]);
        assert!(lost(door.deposit(node, &[claim(1)])));
        assert!(leader.file(1).unwrap().unwrap().claim.unwrap().until.is_some());
        let mut found = Vec::new();
        let mut take = |row| found.push(crate::store::suite::live(row).files.len());
        leader.restore_these(&[1, 3, 4], &mut take).unwrap();
        assert_eq!(found, [2, 1, 1]);
        leader.arrived(epoch, &[1, 3, 4]).unwrap();
        assert!(leader.arrivals().unwrap().is_empty());
    }

    #[test]
    fn nodes_take_ids_for_themselves() {
        // Two files with one id would be one.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (one, two) = (keeper.open(), keeper.handle());
        let (first, second) = (one.take_file_ids(5).unwrap(), two.take_file_ids(50_000).unwrap());
        assert!(first.end <= second.start && second.end - second.start == 50_000);
        one.apply(&[submit(1, first.start, 2)]).unwrap();
        assert_eq!(one.next_file_id().unwrap(), second.end);
    }
}
