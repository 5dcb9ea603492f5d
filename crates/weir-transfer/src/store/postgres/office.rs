//! Who schedules: one row says it, and every batch passes by that row.
//!
//! A batch begins with an update of the row that only matches while the epoch is still the writer's own and the batch before it is
//! the last one. The lock of the row orders takers-over and writers, so that:
//!
//! - a scheduler that was stopped and goes on after another has taken over changes nothing ([`StoreError::Deposed`]);
//! - a batch whose commit was never answered (the database went away, or froze) is given again, and is found to be durable or not,
//!   even if the database was still at work on it: the second one waits for the first one's end at the lock.
//!
//! What the scheduler does beside its batches (see `council`) must not wait for them: it shares a lock of its own, which takers-over take
//! alone, and looks for its epoch under it.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, Instant},
};

use super::session::{Session, Values};
use super::watch::Watch;
use crate::store::{Change, StoreError};

/// How long a scheduler is in office after its last sign of life. Its own batches are such signs; a quiet one renews.
pub(crate) const TERM: Duration = Duration::from_secs(8);

/// A term of office, held by one handle on the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Office {
    pub epoch: u64,
    /// The last batch that is known to be durable.
    batch: i64,
}

/// Whether a batch has to be written.
pub(super) enum Turn {
    Ours,
    /// It is durable already.
    Done,
}

/// What all share who do something in office beside batches, and whoever takes over has alone.
const STAYS: i64 = 0x5745_4953;

/// All of the row that a sign of life changes.
const STANDS_AT: &str = "concat_ws(' ', epoch, batch, mark, until)";

const HELD: &str = "clock_timestamp() + make_interval(secs => $1)";

impl Office {
    /// Takes over, whoever is in office.
    pub(super) fn seize(session: &mut Session, holder: &Holder) -> Result<Self, StoreError> {
        let text = format!(
            "UPDATE scheduler SET epoch = epoch + 1, batch = 0, mark = 0, holder = $2, until = {HELD} RETURNING epoch"
        );
        let row = take_over(session, &text, &[&TERM.as_secs_f64(), &holder.name])?;
        row.map(Self::new).ok_or_else(lost)
    }

    /// Takes over if nobody is in office: the term has ended, or who holds it is known to be dead.
    ///
    /// Or the row has stood still for a term by this process's own clock: that of the database may have gone back, and then the term seems to
    /// last until it is there again. Who lives changes the row four times in a term.
    pub(super) fn stand(session: &mut Session, holder: &Holder, watch: &Watch) -> Result<Option<Self>, StoreError> {
        let look = format!("SELECT epoch, holder, until < clock_timestamp(), {STANDS_AT} FROM scheduler");
        let row = session.row(&look, &[])?.ok_or_else(lost)?;
        let (epoch, held_by, ended, at): (i64, &str, bool, &str) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let stands_still = watch.stood_for(at) >= TERM;
        if !ended && !stands_still && !holder.knows_dead(held_by) {
            return Ok(None);
        }
        let dead = if ended || stands_still { "" } else { held_by };
        let still = if stands_still { at } else { "" };
        // Looked at once more under the lock: a batch may have prolonged the term while this waited for it.
        let text = format!(
            "UPDATE scheduler SET epoch = epoch + 1, batch = 0, mark = 0, holder = $2, until = {HELD}
             WHERE epoch = $3 AND (until < clock_timestamp() OR holder = $4 OR {STANDS_AT} = $5) RETURNING epoch"
        );
        let values: Values<'_> = &[&TERM.as_secs_f64(), &holder.name, &epoch, &dead, &still];
        Ok(take_over(session, &text, values)?.map(Self::new))
    }

    /// Who is in office, for people.
    pub(super) fn held_by(session: &mut Session) -> Result<String, StoreError> {
        let row = session.row("SELECT holder FROM scheduler", &[])?.ok_or_else(lost)?;
        Ok(row.get(0))
    }

    fn new(epoch: i64) -> Self {
        Self {
            epoch: epoch as u64,
            batch: 0,
        }
    }

    /// Stays in office.
    pub(super) fn renew(self, session: &mut Session) -> Result<(), StoreError> {
        let text = format!("UPDATE scheduler SET until = {HELD} WHERE epoch = $2");
        match session.execute(&text, &[&TERM.as_secs_f64(), &(self.epoch as i64)])? {
            0 => Err(StoreError::Deposed),
            _ => Ok(()),
        }
    }

    /// Begins a transaction during which nobody takes over.
    pub(super) fn staying() -> String {
        format!("BEGIN; SELECT pg_advisory_xact_lock_shared({STAYS})")
    }

    /// In such a transaction: whether this epoch's scheduler is in office still.
    pub(super) fn look(session: &mut Session, epoch: u64) -> Result<(), StoreError> {
        match session.row("SELECT FROM scheduler WHERE epoch = $1", &[&(epoch as i64)])? {
            Some(_) => Ok(()),
            None => Err(StoreError::Deposed),
        }
    }

    /// Leaves, so that the next one need not wait for the term's end.
    pub(super) fn resign(self, session: &mut Session) -> Result<(), StoreError> {
        let text = "UPDATE scheduler SET until = '-infinity' WHERE epoch = $1";
        session.execute(text, &[&(self.epoch as i64)]).map(|_| ())
    }

    /// Opens a batch inside its transaction.
    pub(super) fn open(&mut self, session: &mut Session, mark: i64) -> Result<Turn, StoreError> {
        let text =
            format!("UPDATE scheduler SET batch = $2 + 1, mark = $3, until = {HELD} WHERE epoch = $4 AND batch = $2");
        let epoch = self.epoch as i64;
        let term = TERM.as_secs_f64();
        if session.execute(&text, &[&term, &self.batch, &mark, &epoch])? > 0 {
            return Ok(Turn::Ours);
        }
        let row = session
            .row("SELECT epoch, batch, mark FROM scheduler", &[])?
            .ok_or_else(lost)?;
        let (now, batch, last): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if now != epoch {
            return Err(StoreError::Deposed);
        }
        // The one before, of which nothing was heard, is durable.
        self.batch = batch;
        if last == mark {
            return Ok(Turn::Done);
        }
        session.execute(&text, &[&term, &self.batch, &mark, &epoch])?;
        Ok(Turn::Ours)
    }

    /// At the end of a batch that took long: nobody saw the begin of it prolong the term.
    pub(super) fn prolong(session: &mut Session, begun: Instant) -> Result<(), StoreError> {
        if begun.elapsed() > TERM / 4 {
            let text = format!("UPDATE scheduler SET until = {HELD}");
            session.execute(&text, &[&TERM.as_secs_f64()])?;
        }
        Ok(())
    }

    /// The batch that was opened is durable.
    pub(super) fn close(&mut self, turn: &Turn) {
        if let Turn::Ours = turn {
            self.batch += 1;
        }
    }
}

/// Makes a change of epoch, and gives the new one.
fn take_over(session: &mut Session, text: &str, values: Values<'_>) -> Result<Option<i64>, StoreError> {
    let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({STAYS})");
    session.transaction(&begin, |session| Ok(session.row(text, values)?.map(|row| row.get(0))))
}

/// A process, so that another one on the same machine can tell that it is dead and need not wait for its term to end.
#[derive(Debug)]
pub(super) struct Holder {
    /// `HOST PID START PLACE`: start in clock ticks since the machine booted, place by boot and PID namespace.
    pub name: String,
}

impl Holder {
    /// This process.
    pub(super) fn of_this_process() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (pid, start) = (std::process::id(), start_of("self").unwrap_or_default());
        Self {
            name: format!("{host} {pid} {start} {}", place()),
        }
    }

    pub(super) fn knows_dead(&self, other: &str) -> bool {
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

fn lost() -> StoreError {
    StoreError::Unavailable("the table scheduler has lost its row".into())
}

/// Tells a batch from the one before it.
pub(super) fn mark(changes: &[Change]) -> i64 {
    let mut hasher = DefaultHasher::new();
    changes.len().hash(&mut hasher);
    for change in changes {
        std::mem::discriminant(change).hash(&mut hasher);
        match change {
            Change::Submit(submission) => submission.job.id.hash(&mut hasher),
            Change::Begin { file, attempt, at, .. } | Change::Again { file, attempt, at, .. } => {
                (file, attempt, at).hash(&mut hasher);
            }
            Change::End { file, at, .. } | Change::Advance { file, at, .. } => (file, at).hash(&mut hasher),
            Change::Requested { files, request } => (files, request).hash(&mut hasher),
            Change::Unpinned { files } | Change::Force { files } => files.hash(&mut hasher),
            Change::Cancel { job, at, settled, .. } => (job, at, settled.len()).hash(&mut hasher),
            Change::Release { file } => file.hash(&mut hasher),
            Change::Metadata { file, metadata } => (file, metadata.get()).hash(&mut hasher),
            Change::Claim { file, claim } => (file, claim.map(|claim| (claim.since, claim.until))).hash(&mut hasher),
            Change::Priority { job, priority } => (job, priority).hash(&mut hasher),
            Change::Setting { key, value } => (key, value).hash(&mut hasher),
        }
    }
    // 0 is nobody's.
    (hasher.finish() as i64) | 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn only_a_process_that_is_gone_for_sure_is_dead() {
        // Whoever takes over from a living scheduler makes transfers run twice.
        let this = Holder::of_this_process();
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
