//! Nodes on one database: each writes heartbeats, and learns of the other living nodes.
//!
//! Every statement here can be repeated after an error, and no acknowledged data depends on these rows.

use std::{sync::Arc, time::Duration};

use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Connector, Election, PULSE_PATIENCE, Pool, Purpose, Session, TERM, watch::NodeWatch};
use crate::error::StoreError;

/// How long after its time a node is taken for dead. By its own clock it has let go when its time was over; this is for the orders
/// to get out of the way.
pub const GRACE: Duration = Duration::from_secs(2);

/// The term of a node that is alone. No other node waits for its work, so a minute without the database need not end
/// it. A node that comes meanwhile waits for the end of this term, which is in its row.
pub const TERM_ALONE: Duration = Duration::from_secs(90);

/// The channel of all notifications; their text names the receiver.
const CHANNEL: &str = "weir";
/// A notification for the leader.
pub const LEADER: &str = "office";

/// A node as it tells of itself.
#[derive(Debug, Clone)]
pub struct Node {
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

/// The answer to a heartbeat.
#[derive(Debug, Clone)]
pub struct Pulse {
    /// Of the newest scheduler.
    pub epoch: u64,
    /// How long it counts as living from now on.
    pub term: Duration,
    /// The holdings that the newest scheduler publishes, if there is one.
    pub holds: Option<String>,
}

/// Another node, as the scheduler and people see it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The node.
    pub node: Node,
    /// Host and process.
    pub name: String,
}

/// The nodes of one service: a table, see [`Self::SCHEMA`].
pub struct Members {
    connector: Arc<Connector>,
    election: Arc<Election>,
    /// Signs of life must not wait for anything else.
    pulses: Pool,
    /// The rows of nodes: whether they stand still.
    watch: NodeWatch,
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Members")
    }
}

/// Notifies other nodes, once the transaction is committed: the leader, or the nodes that listen under this name.
///
/// # Errors
/// The database cannot be used.
pub fn notify(session: &mut Session, whom: &str) -> Result<(), StoreError> {
    session.query("SELECT pg_notify($1, $2)", &[&CHANNEL, &whom]).map(drop)
}

impl Members {
    /// The table, as a statement.
    pub const SCHEMA: &str = "CREATE TABLE nodes (
    node   uuid PRIMARY KEY,
    name   text NOT NULL,
    url    text NOT NULL,
    role   text NOT NULL,
    slots  integer NOT NULL,
    epoch  bigint NOT NULL,
    until  timestamptz NOT NULL,
    holds  text,
    term   float8 NOT NULL DEFAULT 8
) WITH (fillfactor = 50);";

    /// The members under the leader of this election.
    pub fn new(connector: Arc<Connector>, election: Arc<Election>) -> Self {
        Self {
            pulses: Pool::new(connector.clone(), Purpose::Rows, 2).with_patience(PULSE_PATIENCE),
            connector,
            election,
            watch: NodeWatch::default(),
        }
    }

    /// Runs work with a session on which no batch or listing runs.
    ///
    /// # Errors
    /// Errors of the work, and of connecting.
    pub fn with<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.pulses.with(work)
    }

    /// Writes a heartbeat: this node lives for another term. `former`: its former ids; `holds`: its holdings as the
    /// scheduler.
    pub fn pulse(&self, node: &Node, former: &[Uuid], holds: Option<&str>) -> Result<Pulse, StoreError> {
        let text = format!(
            "WITH former AS (DELETE FROM nodes WHERE node = ANY($7)),
            others AS (SELECT count(*) AS n FROM nodes
                WHERE node <> $1 AND node <> ALL($7) AND until + make_interval(secs => $10) > clock_timestamp()),
            term AS (SELECT CASE WHEN n = 0 THEN $9::float8 ELSE $8::float8 END AS secs FROM others),
            now AS (INSERT INTO nodes
                SELECT $1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => secs), $11, secs FROM term
                ON CONFLICT (node) DO UPDATE SET until = excluded.until, epoch = excluded.epoch, holds = excluded.holds,
                    term = excluded.term)
            SELECT epoch, secs, (SELECT holds FROM nodes WHERE holds IS NOT NULL ORDER BY epoch DESC LIMIT 1)
            FROM {}, term",
            self.election.table()
        );
        self.pulses.with(|session| {
            let row = session.row(
                &text,
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
            let row = row.ok_or_else(|| StoreError::Broken("the election has lost its row".into()))?;
            Ok(Pulse {
                epoch: row.get::<_, i64>(0) as u64,
                term: Duration::from_secs_f64(row.get(1)),
                holds: row.get(2),
            })
        })
    }

    /// Says that this node has let go of everything, and goes.
    pub fn leave(&self, node: Uuid) -> Result<(), StoreError> {
        self.pulses.with(|session| {
            session.execute("DELETE FROM nodes WHERE node = $1", &[&node])?;
            notify(session, LEADER)
        })
    }

    /// All nodes that live.
    pub fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        let live = self.all_peers()?.into_iter().filter(|(_, lives)| *lives);
        Ok(live.map(|(peer, _)| peer).collect())
    }

    /// All nodes whose term has not ended by the database's clock, and whether they live. A node whose row has not
    /// changed for its term and a margin, by this process's own clock, does not. The database's clock may have gone
    /// back.
    pub fn all_peers(&self) -> Result<Vec<(Peer, bool)>, StoreError> {
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
            let stood = self.watch.stood_for(&seen);
            let lives = |(row, stood): (&Row, Duration)| {
                let term = Duration::from_secs_f64(row.get::<_, f64>(7).clamp(0.0, 3600.0));
                (peer(row), stood < term + GRACE)
            };
            Ok(rows.iter().zip(stood).map(lives).collect())
        })
    }

    /// The name of the scheduler's process, if its term has not ended.
    pub fn scheduler(&self) -> Result<Option<String>, StoreError> {
        self.pulses.with(|session| self.election.leader(session))
    }

    /// Whether a node, by its name, is a process that this machine knows to have ended.
    pub fn is_dead(&self, name: &str) -> bool {
        self.election.process().knows_dead(name)
    }

    /// Rings for others.
    pub fn ring(&self, whom: &str) -> Result<(), StoreError> {
        self.pulses.with(|session| notify(session, whom))
    }

    /// Hears notifications, until the session ends or is stopped: gives each word, and at the beginning an empty one. Blocks.
    ///
    /// # Errors
    /// The session ended.
    pub fn listen(&self, stop: &CancellationToken, heard: impl Fn(&str) + Send + 'static) -> Result<(), StoreError> {
        self.connector.listen(CHANNEL, stop.clone(), heard)
    }
}
