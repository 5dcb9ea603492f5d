//! The scheduler's writes about other nodes.
//!
//! Every change here is made by the leader, in a transaction that checks the leadership first
//! ([`Election::while_leading`](weir_store::postgres::Election::while_leading)). A paused former leader fails this
//! check and writes nothing. Otherwise it could take jobs away that the new leader does not know yet, or order a copy
//! twice.

use tokio_postgres::Row;
use weir_executor::surl::Surl;
use weir_store::postgres::{GRACE, notify};
use weir_world::OpId;

use super::{
    PostgresStore,
    decode::surl,
    nodes::{LEASES, Lease, LeaseReport, columns, op_of},
    read,
};
use crate::store::{Restored, StoreError};

/// Of the scheduler.
impl PostgresStore {
    /// Numbers of jobs that came in elsewhere.
    pub(crate) fn arrivals(&self) -> Result<Vec<u64>, StoreError> {
        let text = "SELECT job_no FROM arrivals ORDER BY job_no LIMIT 5000";
        self.leading.with(|session| {
            let rows = session.query(text, &[])?;
            Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect())
        })
    }

    /// As [`crate::store::Store::restore`], of these jobs.
    pub(crate) fn restore_these(&self, jobs: &[u64], each: &mut dyn FnMut(Restored)) -> Result<(), StoreError> {
        self.leading.with(|session| read::restore_these(session, jobs, each))
    }

    /// The scheduler knows these jobs.
    pub(crate) fn arrived(&self, epoch: u64, jobs: &[u64]) -> Result<(), StoreError> {
        let jobs = jobs.iter().map(|job| *job as i64).collect::<Vec<_>>();
        self.election.while_leading(&self.leading, epoch, |session| {
            let text = "DELETE FROM arrivals WHERE job_no = ANY($1)";
            session.execute(text, &[&jobs]).map(drop)
        })
    }

    /// Takes back all leases of schedulers before this epoch.
    pub(crate) fn end_older_leases(&self, epoch: u64) -> Result<(), StoreError> {
        self.election.while_leading(&self.leading, epoch, |session| {
            session.execute("DELETE FROM leases WHERE epoch < $1", &[&(epoch as i64)])?;
            notify(session, LEASES)
        })
    }

    /// Where these files go.
    pub(crate) fn destinations(&self, files: &[u64]) -> Result<Vec<(u64, Surl)>, StoreError> {
        let files = files.iter().map(|file| *file as i64).collect::<Vec<_>>();
        self.leading.with(|session| {
            let rows = session.query("SELECT file_id, dest FROM files WHERE file_id = ANY($1)", &[&files])?;
            let found = rows.iter().map(|row| (row.get::<_, i64>(0) as u64, surl(row, 1).ok()));
            Ok(found.filter_map(|(file, url)| Some((file, url?))).collect())
        })
    }

    /// Gives operations to nodes. A lease of a later epoch, or of a later attempt, stays as it is.
    pub(crate) fn lend(&self, epoch: u64, leases: &[Lease]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(leases.iter().map(|lease| &lease.op));
        let nodes = leases.iter().map(|lease| lease.node).collect::<Vec<_>>();
        let orders = leases.iter().map(|lease| lease.order.as_str()).collect::<Vec<_>>();
        let stops = leases.iter().map(|lease| lease.stop).collect::<Vec<_>>();
        let text = "INSERT INTO leases (file_id, attempt, epoch, node, op, stop)
            SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::uuid[], $5::text[], $6::boolean[])
            ON CONFLICT (file_id) DO UPDATE SET attempt = excluded.attempt, epoch = excluded.epoch, node = excluded.node,
                op = excluded.op, stop = excluded.stop, taken = false, moved = NULL, report = NULL
            WHERE (leases.epoch, leases.attempt) < (excluded.epoch, excluded.attempt)";
        self.election.while_leading(&self.leading, epoch, |session| {
            session.execute(text, &[&files, &attempts, &epochs, &nodes, &orders, &stops])?;
            notify(session, LEASES)
        })
    }

    /// Ends operations early.
    pub(crate) fn recall(&self, epoch: u64, ops: &[OpId]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter());
        let text = "UPDATE leases SET stop = true FROM unnest($1::bigint[], $2::integer[], $3::bigint[]) AS d (f, a, e)
            WHERE file_id = f AND attempt = a AND epoch = e";
        self.election.while_leading(&self.leading, epoch, |session| {
            session.execute(text, &[&files, &attempts, &epochs])?;
            notify(session, LEASES)
        })
    }

    /// Takes the nodes' reports.
    pub(crate) fn reports(&self, epoch: u64) -> Result<Vec<LeaseReport>, StoreError> {
        let text =
            "DELETE FROM leases WHERE epoch = $1 AND report IS NOT NULL RETURNING file_id, attempt, epoch, report";
        self.election.while_leading(&self.leading, epoch, |session| {
            let rows = session.query(text, &[&(epoch as i64)])?;
            Ok(rows.iter().map(|row| (op_of(row), row.get(3))).collect())
        })
    }

    /// Deletes dead nodes, and takes the leases of all nodes that are gone. Their claims at destinations end with them.
    pub(crate) fn bury(&self, epoch: u64) -> Result<Vec<LeaseReport>, StoreError> {
        let peers = self.members.all_peers()?.into_iter();
        let dead = peers.filter(|(peer, lives)| !lives || self.members.is_dead(&peer.name));
        let dead = dead.map(|(peer, _)| peer.node.id).collect::<Vec<_>>();
        self.election.while_leading(&self.leading, epoch, |session| {
            let text =
                "DELETE FROM nodes WHERE until + make_interval(secs => $1) < clock_timestamp() OR node = ANY($2)";
            session.execute(text, &[&GRACE.as_secs_f64(), &dead])?;
            let text = "DELETE FROM leases WHERE epoch = $1 AND NOT EXISTS
                (SELECT 1 FROM nodes WHERE nodes.node = leases.node) RETURNING file_id, attempt, epoch, report";
            let rows = session.query(text, &[&(epoch as i64)])?;
            let files = rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>();
            if !files.is_empty() {
                let text = "UPDATE files SET claim_until = extract(epoch FROM clock_timestamp()) * 1000
                    WHERE file_id = ANY($1) AND claim_since IS NOT NULL AND claim_until IS NULL AND finished IS NULL";
                session.execute(text, &[&files])?;
            }
            Ok(rows.iter().map(|row| (op_of(row), row.get(3))).collect())
        })
    }

    /// How far operations are, as far as that is known; all leases of this epoch.
    pub(crate) fn lent(&self, epoch: u64) -> Result<Vec<(OpId, Option<u64>)>, StoreError> {
        let text = "SELECT file_id, attempt, epoch, moved FROM leases WHERE epoch = $1";
        self.leading.with(|session| {
            let rows = session.query(text, &[&(epoch as i64)])?;
            let moved = |row: &Row| (op_of(row), row.get::<_, Option<i64>>(3).map(|bytes| bytes as u64));
            Ok(rows.iter().map(moved).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_store::postgres::testing::wanted;

    use std::{
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        time::Duration,
    };

    use uuid::Uuid;
    use weir_world::TransferId;

    use super::{
        super::tests::{OnServer, submit},
        *,
    };
    use crate::store::{Store as _, suite::Keeper as _};

    const NODE: Uuid = Uuid::from_u128(7);
    const OTHER: Uuid = Uuid::from_u128(8);

    fn op(attempt: u32, epoch: u64) -> OpId {
        OpId {
            transfer: TransferId(1),
            attempt,
            epoch,
        }
    }

    fn lease(op: OpId, node: Uuid) -> Lease {
        Lease {
            op,
            node,
            order: "{}".into(),
            stop: false,
        }
    }

    fn deposed<T>(outcome: &Result<T, StoreError>) -> bool {
        matches!(outcome, Err(StoreError::LeadershipLost))
    }

    #[test]
    fn a_scheduler_that_goes_on_after_another_took_over_takes_nothing_and_gives_nothing() {
        // The jobs that it takes would be unknown to every other node and wait for ever. And two nodes would write one
        // destination.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (old, new, door) = (keeper.handle(), keeper.handle(), keeper.handle());
        let first = old.next_epoch().unwrap();
        old.lend(first, &[lease(op(1, first), NODE)]).unwrap();
        let asked = door.ask("{}", b"").unwrap();
        let second = new.next_epoch().unwrap();
        door.deposit(NODE, &[submit(1, 1, 1)]).unwrap();
        new.end_older_leases(second).unwrap();
        new.lend(second, &[lease(op(2, second), OTHER)]).unwrap();

        assert_eq!(old.arrivals().unwrap(), [1]);
        assert!(deposed(&old.arrived(first, &[1])));
        assert!(deposed(&old.lend(first, &[lease(op(3, first), NODE)])));
        assert!(deposed(&old.recall(first, &[op(2, second)])));
        assert!(deposed(&old.bury(first)) && deposed(&old.reports(first)));
        assert!(deposed(&old.end_older_leases(first)));
        assert!(deposed(&old.asked(first, &[])) && deposed(&old.answer(first, asked, "{}", b"")));

        assert_eq!(new.arrivals().unwrap(), [1]);
        assert_eq!(new.lent(second).unwrap(), [(op(2, second), None)]);
        let ordered = door.ordered(OTHER, second).unwrap();
        assert!(ordered.len() == 1 && !ordered[0].stop);
        assert!(door.answer_to(asked).unwrap().is_none());
        assert_eq!(new.asked(second, &[]).unwrap().len(), 1);
        assert_eq!(
            new.bury(second).unwrap(),
            [(op(2, second), None)],
            "its node never lived"
        );
        new.arrived(second, &[1]).unwrap();
        assert!(new.arrivals().unwrap().is_empty());
    }

    #[test]
    fn a_lease_gives_way_to_a_later_one_only() {
        // A copying node would lose its lease to an older order.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let store = keeper.handle();
        let epoch = store.next_epoch().unwrap();
        let lends = |attempt, of, node| {
            store.lend(epoch, &[lease(op(attempt, of), node)]).unwrap();
            let all = [epoch, epoch + 1].map(|epoch| store.lent(epoch).unwrap());
            all.concat()[0].0
        };
        assert_eq!(lends(2, epoch, NODE), op(2, epoch));
        assert_eq!(lends(1, epoch, OTHER), op(2, epoch));
        assert_eq!(lends(3, epoch, OTHER), op(3, epoch));
        assert_eq!(lends(1, epoch + 1, NODE), op(1, epoch + 1));
        assert_eq!(lends(4, epoch, OTHER), op(1, epoch + 1));
    }

    #[test]
    fn no_node_takes_over_in_the_middle() {
        // An operation begun under the old leader would end after the new scheduler has looked.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (old, new) = (keeper.handle(), keeper.handle());
        let epoch = old.next_epoch().unwrap();
        let (begun, begins) = mpsc::channel();
        let is_through = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (new, is_through) = (&new, &is_through);
            let taken = scope.spawn(move || {
                begins.recv().unwrap();
                new.next_epoch().unwrap();
                is_through.load(Ordering::SeqCst)
            });
            old.election
                .while_leading(&old.leading, epoch, |session| {
                    // A batch is not held up.
                    old.apply(&[submit(1, 1, 1)])?;
                    begun.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(300));
                    is_through.store(true, Ordering::SeqCst);
                    notify(session, LEASES)
                })
                .unwrap();
            assert!(taken.join().unwrap(), "the new one began in the middle");
        });
        assert!(deposed(&old.bury(epoch)));
    }
}
