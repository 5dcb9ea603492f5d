//! What nodes on one database tell each other: who lives, what came in, what runs where, and how it ended.
//!
//! Everything here can be done again after an error, and nothing here is needed to know what was promised: that is in jobs and files.
//! A node that lost its rows has lost its leases, and the scheduler orders anew what they were about.

use std::{collections::HashSet, time::Duration};

use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weir_store::postgres::{Session, TERM};
use weir_world::{OpId, TransferId};

use super::{
    PostgresStore,
    write::{Plan, number_of, with_arrivals},
};
use crate::store::{Change, Conflict, StoreError};

/// How long after its time a node is taken for dead. By its own clock it has let go when its time was over; this is for the orders
/// to get out of the way.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// The term of a node that lives alone. Nobody waits for what it does, so a database that is away for a minute need not end it; whoever
/// comes meanwhile waits for the end of this term, which is in its row.
pub(crate) const TERM_ALONE: Duration = Duration::from_secs(90);

/// The channel of all notifications; what they say is whom they are for.
pub(crate) const CHANNEL: &str = "weir";
/// For the scheduler.
pub(crate) const OFFICE: &str = "office";
/// For those who copy.
pub(crate) const HANDS: &str = "hands";
/// For who waits for an answer: this, and the number of the request.
pub(crate) const DOORS: &str = "doors";

/// A node as it tells of itself.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// New whenever it has let go of everything.
    pub id: Uuid,
    /// How clients reach it.
    pub url: String,
    /// For people.
    pub role: String,
    /// Operations it carries out at once for the scheduler; 0: none.
    pub slots: u32,
    /// It has let go of everything that an older scheduler ordered.
    pub epoch: u64,
}

/// What a node learns when it says that it lives.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    /// Of the newest scheduler.
    pub epoch: u64,
    /// How long it counts as living from now on.
    pub term: Duration,
    /// What the newest scheduler says to hold, if one does.
    pub holds: Option<String>,
}

/// Another node, as the scheduler and people see it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub node: Node,
    /// Host and process.
    pub name: String,
}

/// An operation for another node.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub op: OpId,
    pub node: Uuid,
    /// What to do, as JSON.
    pub order: String,
    /// Whether it is to end early.
    pub stop: bool,
}

/// What was said of an operation that ran elsewhere: JSON; `None`: nothing, its node is gone.
pub(crate) type Report = (OpId, Option<String>);

pub(super) fn op_of(row: &Row) -> OpId {
    OpId {
        transfer: TransferId(row.get::<_, i64>(0) as u64),
        attempt: row.get::<_, i32>(1) as u32,
        epoch: row.get::<_, i64>(2) as u64,
    }
}

pub(super) fn notify(session: &mut Session, whom: &str) -> Result<(), StoreError> {
    session.query("SELECT pg_notify($1, $2)", &[&CHANNEL, &whom]).map(drop)
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
    /// Says that this node lives for another term. `former`: ids that it had, and has no more; `holds`: what it holds as the scheduler.
    pub(crate) fn pulse(&self, node: &Node, former: &[Uuid], holds: Option<&str>) -> Result<Pulse, StoreError> {
        let text = "WITH former AS (DELETE FROM nodes WHERE node = ANY($7)),
            others AS (SELECT count(*) AS n FROM nodes
                WHERE node <> $1 AND node <> ALL($7) AND until + make_interval(secs => $10) > clock_timestamp()),
            term AS (SELECT CASE WHEN n = 0 THEN $9::float8 ELSE $8::float8 END AS secs FROM others),
            now AS (INSERT INTO nodes
                SELECT $1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => secs), $11, secs FROM term
                ON CONFLICT (node) DO UPDATE SET until = excluded.until, epoch = excluded.epoch, holds = excluded.holds,
                    term = excluded.term)
            SELECT epoch, secs, (SELECT holds FROM nodes WHERE holds IS NOT NULL ORDER BY epoch DESC LIMIT 1)
            FROM scheduler, term";
        self.pulses.with(|session| {
            let row = session.row(
                text,
                &[
                    &node.id,
                    &self.election.process().name,
                    &node.url,
                    &node.role,
                    &(node.slots as i32),
                    &(node.epoch as i64),
                    &former,
                    &TERM.as_secs_f64(),
                    &TERM_ALONE.as_secs_f64(),
                    &GRACE.as_secs_f64(),
                    &holds,
                ],
            )?;
            let row = row.ok_or_else(|| StoreError::Broken("the table scheduler has lost its row".into()))?;
            Ok(Pulse {
                epoch: row.get::<_, i64>(0) as u64,
                term: Duration::from_secs_f64(row.get(1)),
                holds: row.get(2),
            })
        })
    }

    /// Says that this node has let go of everything, and goes.
    pub(crate) fn leave(&self, node: Uuid) -> Result<(), StoreError> {
        self.pulses.with(|session| {
            session.execute("DELETE FROM nodes WHERE node = $1", &[&node])?;
            notify(session, OFFICE)
        })
    }

    /// All nodes that live.
    pub(crate) fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        let live = self.all_peers()?.into_iter().filter(|(_, lives)| *lives);
        Ok(live.map(|(peer, _)| peer).collect())
    }

    /// All nodes whose time has not ended by the database's clock, and whether they live: one whose row has stood still for its term, and
    /// some more, by this process's own clock does not. The database's clock may have gone back.
    pub(super) fn all_peers(&self) -> Result<Vec<(Peer, bool)>, StoreError> {
        let text = "SELECT node, name, url, role, slots, epoch, until::text, term FROM nodes
            WHERE until + make_interval(secs => $1) > clock_timestamp() ORDER BY name";
        let peer = |row: &Row| Peer {
            node: Node {
                id: row.get(0),
                url: row.get(2),
                role: row.get(3),
                slots: row.get::<_, i32>(4) as u32,
                epoch: row.get::<_, i64>(5) as u64,
            },
            name: row.get(1),
        };
        self.pulses.with(|session| {
            let rows = session.query(text, &[&GRACE.as_secs_f64()])?;
            let seen = rows.iter().map(|row| (row.get(0), row.get(6))).collect::<Vec<_>>();
            let stood = self.nodes_watch.stood_for(&seen);
            let lives = |(row, stood): (&Row, Duration)| {
                let term = Duration::from_secs_f64(row.get::<_, f64>(7).clamp(0.0, 3600.0));
                (peer(row), stood < term + GRACE)
            };
            Ok(rows.iter().zip(stood).map(lives).collect())
        })
    }

    /// How many operations each node carries out for the scheduler.
    pub(crate) fn leases(&self) -> Result<Vec<(Uuid, i64)>, StoreError> {
        let text = "SELECT node, count(*) FROM leases WHERE report IS NULL GROUP BY node";
        self.pulses.with(|session| {
            let rows = session.query(text, &[])?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    /// The name of the scheduler's process, if its term has not ended.
    pub(crate) fn scheduler(&self) -> Result<Option<String>, StoreError> {
        self.pulses.with(|session| self.election.leader(session))
    }

    /// Whether a node, by its name, is a process that this machine knows to have ended.
    pub(crate) fn is_dead(&self, name: &str) -> bool {
        self.election.process().knows_dead(name)
    }

    /// Rings for others.
    pub(crate) fn ring(&self, whom: &str) -> Result<(), StoreError> {
        self.pulses.with(|session| notify(session, whom))
    }

    /// Takes the next ids of files for this node alone.
    pub(super) fn take_ids(&self, n: u64) -> Result<std::ops::Range<u64>, StoreError> {
        self.pulses.with(|session| {
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
    /// Takes what a node may write that is not in office: jobs, and what its copies note ([`Change::of_copy`]). A note about a file that
    /// the node has no lease of is refused, as [`Conflict::NoLease`], and with it the batch.
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
                // A batch whose commit was not answered comes again: what is there under its own number is ours.
                let known = known(session, changes)?;
                let fresh = |change: &&Change| match change {
                    Change::Submit(submission) => !known.contains(&number_of(submission)),
                    _ => true,
                };
                let fresh = changes.iter().filter(fresh).collect::<Vec<_>>();
                Plan::of(fresh.iter().copied()).write(session, &self.sealer)?;
                if with_arrivals(session, &fresh)? {
                    notify(session, OFFICE)?;
                }
                Ok(())
            })
        })
    }

    /// What was ordered from this node, and it has not said to have taken.
    pub(crate) fn ordered(&self, node: Uuid, epoch: u64) -> Result<Vec<Lease>, StoreError> {
        let text = "SELECT file_id, attempt, epoch, op, stop FROM leases
            WHERE node = $1 AND NOT taken AND epoch = $2 ORDER BY file_id LIMIT 5000";
        self.hands.with(|session| {
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
        self.hands
            .with(|session| session.execute(text, &[&files, &attempts, &epochs, &node]).map(drop))
    }

    /// What is to end early here.
    pub(crate) fn stopped(&self, node: Uuid) -> Result<Vec<OpId>, StoreError> {
        let text = "SELECT file_id, attempt, epoch FROM leases WHERE node = $1 AND stop AND report IS NULL";
        self.hands
            .with(|session| Ok(session.query(text, &[&node])?.iter().map(op_of).collect()))
    }

    /// Says how far operations are.
    pub(crate) fn moved(&self, node: Uuid, ops: &[(OpId, u64)]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter().map(|(op, _)| op));
        let bytes = ops.iter().map(|(_, bytes)| *bytes as i64).collect::<Vec<_>>();
        let text = "UPDATE leases SET moved = m
            FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[]) AS d (f, a, e, m)
            WHERE file_id = f AND attempt = a AND epoch = e AND node = $5";
        self.hands.with(|session| {
            session
                .execute(text, &[&files, &attempts, &epochs, &bytes, &node])
                .map(drop)
        })
    }

    /// Says how operations ended. Of those that are not this node's any more nobody wants to know.
    pub(crate) fn report(&self, node: Uuid, ops: &[(OpId, String)]) -> Result<(), StoreError> {
        let (files, attempts, epochs) = columns(ops.iter().map(|(op, _)| op));
        let reports = ops.iter().map(|(_, report)| report.as_str()).collect::<Vec<_>>();
        let text = "UPDATE leases SET report = r, taken = true
            FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[]) AS d (f, a, e, r)
            WHERE file_id = f AND attempt = a AND epoch = e AND node = $5";
        self.hands.with(|session| {
            session.execute(text, &[&files, &attempts, &epochs, &reports, &node])?;
            notify(session, OFFICE)
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

/// Of everybody.
impl PostgresStore {
    /// Hears what others ring for, until the session ends or is stopped: tells each word, and at the beginning an empty one. Blocks.
    pub(crate) fn listen(
        &self,
        stop: &CancellationToken,
        heard: impl Fn(&str) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.connector.listen(CHANNEL, stop.clone(), heard)
    }
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
        // Whoever is not in office would change what the scheduler believes to know.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (office, door) = (keeper.handle(), keeper.handle());
        let epoch = office.next_epoch().unwrap();
        let node = Uuid::from_u128(7);
        for change in [submit(1, 1, 1), begin(1, 1)] {
            assert!(matches!(door.apply(&[change]), Err(StoreError::Deposed)));
        }
        door.deposit(node, &[submit(1, 1, 2), submit(2, 3, 1)]).unwrap();
        // Given again, as after an answer that was lost; beside another one.
        door.deposit(node, &[submit(1, 1, 2), submit(3, 4, 1)]).unwrap();
        assert_eq!(office.arrivals().unwrap(), [1, 3, 4]);
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
            claim: Some(crate::model::Claim { since: 5, until: None }),
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
        office.lend(epoch, &[lease]).unwrap();
        door.deposit(node, &[claim(1)]).unwrap();
        assert_eq!(office.file(1).unwrap().unwrap().claim.unwrap().since, 5);
        // Of a node that is gone.
        assert_eq!(office.bury(epoch).unwrap(), [(op, None)]);
        assert!(lost(door.deposit(node, &[claim(1)])));
        assert!(office.file(1).unwrap().unwrap().claim.unwrap().until.is_some());
        let mut found = Vec::new();
        let mut take = |row| found.push(crate::store::suite::live(row).files.len());
        office.restore_these(&[1, 3, 4], &mut take).unwrap();
        assert_eq!(found, [2, 1, 1]);
        office.arrived(epoch, &[1, 3, 4]).unwrap();
        assert!(office.arrivals().unwrap().is_empty());
    }

    #[test]
    fn a_node_alone_has_a_long_term_that_others_see() {
        // A scheduler that believes to be alone would copy on without the database, and one that comes meanwhile copies the same.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (one, two) = (keeper.open(), keeper.handle());
        let node = |id| Node {
            id: Uuid::from_u128(id),
            url: "https://node".into(),
            role: "any".into(),
            slots: 1,
            epoch: 0,
        };
        let left = || {
            let text = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM nodes ORDER BY node";
            let rows = one.pulses.with(|session| session.query(text, &[])).unwrap();
            rows.iter().map(|row| row.get::<_, f64>(0)).collect::<Vec<_>>()
        };
        let (short, long) = (TERM.as_secs_f64(), TERM_ALONE.as_secs_f64());
        assert_eq!(one.pulse(&node(1), &[], None).unwrap().term, TERM_ALONE);
        assert!(left()[0] > short && left()[0] <= long);
        assert_eq!(two.pulse(&node(2), &[], None).unwrap().term, TERM);
        assert!(
            left()[0] > short,
            "it may not know of the other yet, and counts on its time"
        );
        assert_eq!(one.pulse(&node(1), &[], None).unwrap().term, TERM);
        assert!(left().iter().all(|left| *left <= short), "{:?}", left());
        two.leave(Uuid::from_u128(2)).unwrap();
        let renamed = one.pulse(&node(3), &[1, 2].map(Uuid::from_u128), None).unwrap();
        assert_eq!((renamed.term, left().len()), (TERM_ALONE, 1));
    }

    #[test]
    fn doors_hear_what_the_newest_scheduler_holds() {
        // They would ask it for each job, or take jobs that it has no room for.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let store = keeper.open();
        let says = |id, epoch, holds| {
            let node = Node {
                id: Uuid::from_u128(id),
                url: "https://node".into(),
                role: "any".into(),
                slots: 1,
                epoch,
            };
            store.pulse(&node, &[], holds).unwrap().holds
        };
        assert_eq!(says(1, 1, Some("old")), None);
        assert_eq!(says(2, 1, None).as_deref(), Some("old"));
        says(3, 2, Some("new"));
        assert_eq!(says(2, 1, None).as_deref(), Some("new"));
        says(3, 2, None);
        says(1, 2, None);
        assert_eq!(says(2, 2, None), None);
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
