//! Looks for work that is due and does not move: a defect of the scheduler, which nothing else would show.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use weir_sched::{Names, Scheduler};
use weir_service::time;
use weir_world::TransferId;

use crate::nodes::SchedulerHandle;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long a transfer may be due before that is trouble. A step takes milliseconds; this leaves time for a machine that
/// swaps, or a runtime that is short of processors.
const PATIENCE: Duration = Duration::from_secs(30);

/// The outcome of the last looks.
#[derive(Debug, Default)]
pub struct Watchdog(Mutex<Observation>);

/// The transfer that was due at every look since a time, or the scheduler that has not answered since then.
#[derive(Debug, Default)]
struct Observation {
    due: Option<DueTransfer>,
}

#[derive(Debug, Clone, PartialEq)]
struct DueTransfer {
    /// None if the scheduler does not answer.
    transfer: Option<TransferId>,
    since: Instant,
    told: String,
}

impl Observation {
    /// Notes the outcome of a look at `now`: the work that was due, if any, in words.
    fn see(&mut self, now: Instant, found: Option<(Option<TransferId>, String)>) {
        let former = self.due.take();
        self.due = found.map(|(transfer, told)| {
            let same = former.filter(|former| former.transfer == transfer);
            let since = same.map_or(now, |former| former.since);
            DueTransfer { transfer, since, told }
        });
    }

    /// The work that has been due for [`PATIENCE`], in words.
    fn trouble(&self, now: Instant) -> Option<String> {
        let due = self.due.as_ref()?;
        let seconds = now.duration_since(due.since);
        (seconds >= PATIENCE).then(|| format!("{}, for {} s", due.told, seconds.as_secs()))
    }
}

impl Watchdog {
    /// The work that is due and has not moved for [`PATIENCE`], in words.
    pub fn trouble(&self) -> Option<String> {
        self.0.lock().trouble(Instant::now())
    }
}

impl Watchdog {
    /// Looks every [`INTERVAL`]; never ends.
    pub async fn watch(self: Arc<Self>, scheduler: SchedulerHandle) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let look = scheduler.look(|core: &Scheduler, names: &Names, _: &_| stalled(core, names));
            let found = match tokio::time::timeout(INTERVAL, look).await {
                Ok(found) => found.flatten().map(|(transfer, told)| (Some(transfer), told)),
                Err(_) => Some((None, "the scheduler does not answer".into())),
            };
            let mut sight = self.0.lock();
            let was = sight.trouble(Instant::now()).is_some();
            sight.see(Instant::now(), found);
            if let Some(trouble) = sight.trouble(Instant::now()).filter(|_| !was) {
                tracing::error!(trouble, "work is due and does not move");
            }
        }
    }
}

/// A transfer that is due, and the scheduler's state of it in words.
fn stalled(core: &Scheduler, names: &Names) -> Option<(TransferId, String)> {
    let transfer = core.stalled(weir_units::Timestamp(time::nanos()))?;
    let why = core.why(transfer)?;
    let (link, text) = (names.link_name(why.link), why.with(names));
    Some((
        transfer,
        format!("transfer {transfer} of {link} is due and does not start ({text})"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(transfer: u64) -> (Option<TransferId>, String) {
        (Some(TransferId(transfer)), format!("transfer {transfer}"))
    }

    #[test]
    fn the_same_transfer_at_every_look_is_trouble() {
        // Different transfers that are due for a moment differ from one that never moves.
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut sight = Observation::default();
        sight.see(at(0), Some(found(1)));
        sight.see(at(29), Some(found(1)));
        assert_eq!(sight.trouble(at(29)), None);
        assert_eq!(sight.trouble(at(31)), Some("transfer 1, for 31 s".into()));
        sight.see(at(32), Some(found(2)));
        assert_eq!(sight.trouble(at(33)), None);
        sight.see(at(34), None);
        sight.see(at(35), Some(found(2)));
        assert_eq!(sight.trouble(at(63)), None);
    }

    #[test]
    fn a_scheduler_that_does_not_answer_is_trouble() {
        let begin = Instant::now();
        let silent = || Some((None, "the scheduler does not answer".into()));
        let mut sight = Observation::default();
        sight.see(begin, silent());
        sight.see(begin + PATIENCE, silent());
        let trouble = sight.trouble(begin + PATIENCE);
        assert_eq!(trouble, Some("the scheduler does not answer, for 30 s".into()));
    }
}
