//! Leader election: one row names the leading process, and every batch of the leader updates that row.
//!
//! A batch begins with an update of the row that only matches while the epoch is still the leader's own and the batch
//! before it is the last one. The row's lock serialises writers and takeovers, so that:
//!
//! - a paused leader that continues after a takeover changes nothing ([`StoreError::LeadershipLost`]);
//! - a batch whose commit was never answered (the database went away, or froze) is sent again. It is found to be
//!   durable or not, even if the database was still executing it. The second one waits for the first one's end at the
//!   lock.
//!
//! Other writes of the leader ([`Election::while_leading`]) must not wait for batches: they share a lock of their own,
//! which a takeover takes exclusively, and check the epoch under it.

use std::time::{Duration, Instant};

use super::{
    session::{Pool, Session, Values},
    watch::Watch,
};
use crate::error::StoreError;
use crate::standing::Standing;

/// How long a process leads after its last sign of life. Its own batches are such signs; a quiet one renews.
pub const TERM: Duration = Duration::from_secs(8);

/// Transaction locks: shared by the leader's writes beside its batches, and exclusive for a takeover.
const LEADING: i64 = 0x5745_4953;

const HELD: &str = "clock_timestamp() + make_interval(secs => $1)";

/// The leadership of one handle on the store.
#[derive(Debug, Clone, Copy)]
pub struct Leadership {
    /// Grows with each leader.
    pub epoch: u64,
    /// The last batch that is known to be durable.
    batch: i64,
}

/// Whether a batch has to be written.
enum Turn {
    Ours,
    /// It is durable already.
    Done,
}

/// The election of one service: a table of one row, see [`Self::schema`].
#[derive(Debug)]
pub struct Election {
    table: &'static str,
    process: Process,
    watch: Watch,
}

impl Election {
    /// Of the processes that share this table.
    pub fn new(table: &'static str) -> Self {
        Self {
            table,
            process: Process::this(),
            watch: Watch::default(),
        }
    }

    /// The table, as a statement.
    pub fn schema(table: &str) -> String {
        format!(
            "CREATE TABLE {table} (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch  bigint NOT NULL,
    holder text NOT NULL,
    until  timestamptz NOT NULL,
    batch  bigint NOT NULL,
    mark   bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000);
INSERT INTO {table} VALUES (true, 0, '', '-infinity', 0, 0);"
        )
    }

    pub(super) fn table(&self) -> &str {
        self.table
    }

    /// This process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Takes over, even from a living leader.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn seize(&self, session: &mut Session) -> Result<Leadership, StoreError> {
        let text = format!(
            "UPDATE {} SET epoch = epoch + 1, batch = 0, mark = 0, holder = $2, until = {HELD} RETURNING epoch",
            self.table
        );
        let row = take_over(session, &text, &[&TERM.as_secs_f64(), &self.process.name])?;
        row.map(Leadership::new).ok_or_else(|| self.lost())
    }

    /// Takes over if there is no leader: the term has ended, or its holder is known to be dead.
    ///
    /// Or the row has not changed for a term by this process's own clock. The database's clock may have gone back, and
    /// then the term seems to last until it has caught up. A living leader changes the row four times in a term.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn stand(&self, session: &mut Session) -> Result<Standing<Leadership>, StoreError> {
        let Self { table, .. } = self;
        // All of the row that a sign of life changes.
        let stands_at = "concat_ws(' ', epoch, batch, mark, until)";
        let look = format!("SELECT epoch, holder, until < clock_timestamp(), {stands_at} FROM {table}");
        let row = session.row(&look, &[])?.ok_or_else(|| self.lost())?;
        let (epoch, held_by, ended, at): (i64, &str, bool, &str) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let stands_still = self.watch.stood_for(at) >= TERM;
        if !ended && !stands_still && !self.process.knows_dead(held_by) {
            return Ok(Standing::HeldBy(held_by.to_owned()));
        }
        let dead = if ended || stands_still { "" } else { held_by };
        let still = if stands_still { at } else { "" };
        // Looked at once more under the lock: a batch may have prolonged the term while this waited for it.
        let text = format!(
            "UPDATE {table} SET epoch = epoch + 1, batch = 0, mark = 0, holder = $2, until = {HELD}
             WHERE epoch = $3 AND (until < clock_timestamp() OR holder = $4 OR {stands_at} = $5) RETURNING epoch"
        );
        let values: Values<'_> = &[&TERM.as_secs_f64(), &self.process.name, &epoch, &dead, &still];
        if let Some(epoch) = take_over(session, &text, values)? {
            return Ok(Standing::Elected(Leadership::new(epoch)));
        }
        let row = session.row(&format!("SELECT holder FROM {table}"), &[])?;
        row.map(|row| Standing::HeldBy(row.get(0))).ok_or_else(|| self.lost())
    }

    /// The process that leads, if its term has not ended.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn leader(&self, session: &mut Session) -> Result<Option<String>, StoreError> {
        let text = format!("SELECT holder FROM {} WHERE until > clock_timestamp()", self.table);
        Ok(session.row(&text, &[])?.map(|row| row.get(0)))
    }

    /// Goes on leading for another term.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`]: another process leads.
    pub fn renew(&self, leadership: Leadership, session: &mut Session) -> Result<(), StoreError> {
        let text = format!("UPDATE {} SET until = {HELD} WHERE epoch = $2", self.table);
        match session.execute(&text, &[&TERM.as_secs_f64(), &(leadership.epoch as i64)])? {
            0 => Err(StoreError::LeadershipLost),
            _ => Ok(()),
        }
    }

    /// Stops leading, so that the next one need not wait for the term's end.
    ///
    /// # Errors
    /// The database cannot be used.
    pub fn resign(&self, leadership: Leadership, session: &mut Session) -> Result<(), StoreError> {
        let text = format!("UPDATE {} SET until = '-infinity' WHERE epoch = $1", self.table);
        session.execute(&text, &[&(leadership.epoch as i64)]).map(|_| ())
    }

    /// Does work that only the leader of this epoch may do, in a transaction. A takeover waits for its end.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`] after a takeover.
    pub fn while_leading<T>(
        &self,
        pool: &Pool,
        epoch: u64,
        work: impl FnOnce(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begin = format!("BEGIN; SELECT pg_advisory_xact_lock_shared({LEADING})");
        let look = format!("SELECT FROM {} WHERE epoch = $1", self.table);
        pool.with(|session| {
            session.transaction(&begin, |session| match session.row(&look, &[&(epoch as i64)])? {
                Some(_) => work(session),
                None => Err(StoreError::LeadershipLost),
            })
        })
    }

    /// Writes a batch in a transaction, if it is not durable already. `mark` tells it from the one before; 0 means
    /// unmarked.
    ///
    /// # Errors
    /// [`StoreError::LeadershipLost`] if another process leads. After a temporary error the same batch is to be given again.
    pub fn write(
        &self,
        leadership: &mut Leadership,
        session: &mut Session,
        mark: i64,
        work: impl FnOnce(&mut Session) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let turn = session.transaction("BEGIN", |session| {
            let begun = Instant::now();
            let turn = self.open(leadership, session, mark)?;
            if let Turn::Ours = turn {
                work(session)?;
                self.prolong(session, begun)?;
            }
            Ok(turn)
        })?;
        if let Turn::Ours = turn {
            leadership.batch += 1;
        }
        Ok(())
    }

    fn open(&self, leadership: &mut Leadership, session: &mut Session, mark: i64) -> Result<Turn, StoreError> {
        let Self { table, .. } = self;
        let text =
            format!("UPDATE {table} SET batch = $2 + 1, mark = $3, until = {HELD} WHERE epoch = $4 AND batch = $2");
        let epoch = leadership.epoch as i64;
        let term = TERM.as_secs_f64();
        if session.execute(&text, &[&term, &leadership.batch, &mark, &epoch])? > 0 {
            return Ok(Turn::Ours);
        }
        let look = format!("SELECT epoch, batch, mark FROM {table}");
        let row = session.row(&look, &[])?.ok_or_else(|| self.lost())?;
        let (now, batch, last): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if now != epoch {
            return Err(StoreError::LeadershipLost);
        }
        // The one before, of which nothing was heard, is durable.
        leadership.batch = batch;
        if last == mark {
            return Ok(Turn::Done);
        }
        session.execute(&text, &[&term, &leadership.batch, &mark, &epoch])?;
        Ok(Turn::Ours)
    }

    /// At the end of a long batch: its transaction's extension of the term was not visible to others.
    fn prolong(&self, session: &mut Session, begun: Instant) -> Result<(), StoreError> {
        if begun.elapsed() > TERM / 4 {
            let text = format!("UPDATE {} SET until = {HELD}", self.table);
            session.execute(&text, &[&TERM.as_secs_f64()])?;
        }
        Ok(())
    }

    fn lost(&self) -> StoreError {
        StoreError::Unavailable(format!("the table {} has lost its row", self.table).into())
    }
}

impl Leadership {
    fn new(epoch: i64) -> Self {
        Self {
            epoch: epoch as u64,
            batch: 0,
        }
    }
}

/// Makes a change of epoch, and gives the new one.
fn take_over(session: &mut Session, text: &str, values: Values<'_>) -> Result<Option<i64>, StoreError> {
    let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({LEADING})");
    session.transaction(&begin, |session| Ok(session.row(text, values)?.map(|row| row.get(0))))
}

/// A process, so that another one on the same machine can tell that it is dead and need not wait for its term to end.
#[derive(Debug)]
pub struct Process {
    /// `HOST PID START PLACE`: start in clock ticks since the machine booted, place by boot and PID namespace.
    pub name: String,
}

impl Process {
    fn this() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (pid, start) = (std::process::id(), start_of("self").unwrap_or_default());
        Self {
            name: format!("{host} {pid} {start} {}", place()),
        }
    }

    /// Whether a process of this name is known to have ended.
    pub fn knows_dead(&self, other: &str) -> bool {
        let [_, pid, start, there] = *other.split(' ').collect::<Vec<_>>() else {
            return false;
        };
        let known = !start.is_empty() && there == place() && other != self.name;
        known
            && pid
                .parse::<u32>()
                .is_ok_and(|_| start_of(pid).as_deref() != Some(start))
    }
}

fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{}/{}", boot.trim(), namespace.display())
}

/// Field 22 of `/proc/PID/stat` (proc(5)). The command before it may hold anything, but ends with the last parenthesis.
fn start_of(pid: &str) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn only_a_process_that_is_gone_for_sure_is_dead() {
        // Taking over from a living scheduler makes transfers run twice.
        let this = Process::this();
        assert!(!this.knows_dead(&this.name) && !this.knows_dead("") && !this.knows_dead("host 1"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().to_string();
        let start = start_of(&pid).unwrap();
        let name = |start: &str, place: &str| format!("host {pid} {start} {place}");
        let (alive, reused) = (name(&start, &place()), name("1", &place()));
        assert!(!this.knows_dead(&alive) && this.knows_dead(&reused));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(this.knows_dead(&alive));
        assert!(
            !this.knows_dead(&name(&start, "elsewhere")),
            "of another machine nothing is known"
        );
    }
}
