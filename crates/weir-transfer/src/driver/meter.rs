//! The service's counters since its start, per link: the transfer service's side of every cross-check.

use std::collections::{BTreeMap, HashMap};

use weir_sched::{End, JobSpec, Link, Names, Next, Record, Scheduler};
use weir_units::Bytes;
use weir_world::{ErrorClass, OpId, Party};

use super::{
    bounds::{Bounds, Holdings},
    depth::{Depth, Full, Room},
};
use weir_executor::{
    clock::{AttemptClock, AttemptWaits},
    job::NewJob,
};

/// Smallest weight of a file in the mean size: some hundred files count.
const PART_MIN: f64 = 0.01;

/// Sizes of files in bytes, as a mean that forgets, with its variance (Finch, Incremental calculation of weighted mean and variance,
/// 2009, section 9).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sizes {
    /// The mean.
    pub mean: f64,
    variance: f64,
    n: u64,
}

impl Sizes {
    fn add(&mut self, size: u64) {
        self.n += 1;
        let part = (1.0 / self.n as f64).max(PART_MIN);
        let off = size as f64 - self.mean;
        let step = part * off;
        self.mean += step;
        self.variance = (1.0 - part) * (self.variance + off * step);
    }

    /// The standard deviation, in bytes.
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }
}

/// Counts of one link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkMeter {
    /// Bytes seen moving, by performance markers and at the ends of copies; failed attempts included.
    pub moved_bytes: u64,
    /// Sizes of finished files.
    pub finished_bytes: u64,
    /// The same, of late.
    pub sizes: Sizes,
    /// Files finished.
    pub finished: u64,
    /// Of these, found whole at the destination after an interruption.
    pub adopted: u64,
    /// Files cancelled.
    pub cancelled: u64,
    /// Files failed for good, by class.
    pub failed: BTreeMap<&'static str, u64>,
    /// Attempts that failed and were followed by another, by class.
    pub retried: BTreeMap<&'static str, u64>,
    /// All attempts that failed, by class and party.
    pub attempts_failed: BTreeMap<(ErrorClass, Party), u64>,
    /// Finished copies, by mode.
    pub modes: BTreeMap<&'static str, u64>,
    /// The time that ended attempts spent in each state.
    waits: AttemptWaits,
}

/// Counts of all links, and of all queues.
#[derive(Debug, Default)]
pub struct Meter {
    /// Queue depths by owner.
    pub depth: Depth,
    /// Storage elements and links that are remembered.
    pub bounds: Bounds,
    links: BTreeMap<Link, LinkMeter>,
    /// Clocks of the attempts that this node carries out.
    clocks: HashMap<OpId, (Link, AttemptClock)>,
}

impl Meter {
    /// All links that have moved anything, in order.
    pub fn links(&self) -> impl Iterator<Item = (&Link, &LinkMeter)> {
        self.links.iter()
    }

    /// The counts of a link that has moved anything.
    pub fn link(&self, link: Link) -> Option<&LinkMeter> {
        self.links.get(&link)
    }

    /// Sizes of files that a link brought lately.
    pub fn sizes(&self, link: Link) -> Option<Sizes> {
        self.links
            .get(&link)
            .map(|meter| meter.sizes)
            .filter(|sizes| sizes.n > 0)
    }

    /// Counts a submission in, if there is room for all of it.
    pub fn submitted(&mut self, job: &NewJob, spec: &JobSpec, names: &Names) -> Result<(), Full> {
        self.bounds.links(spec)?;
        self.depth.submitted(job, spec, names)?;
        self.bounds.remember(spec);
        Ok(())
    }

    /// Whether there is room for a job of another node. Nothing is counted in: it will be, when it has arrived.
    pub fn room(&self, room: &Room, names: &Names) -> Result<(), Full> {
        self.bounds.room(&room.links, names)?;
        self.depth.room(room, names)
    }

    /// Counts transfers restored from the store.
    pub fn restored(&mut self, job: &NewJob, files: &[Record]) {
        self.bounds.restored(files);
        self.depth.restored(job, files);
    }

    /// The current holdings. `None`: the queue is being restored.
    pub fn holdings(&self, core: &Scheduler, names: &Names) -> Option<Holdings> {
        (!self.depth.is_restoring()).then(|| Holdings {
            transfers: core.len() as u64,
            storages: names.n_ses() as u64,
            links: self.bounds.n_links(),
        })
    }

    /// So many more bytes were seen moving.
    pub fn moved(&mut self, link: Link, more: u64) {
        let moved = &mut self.links.entry(link).or_default().moved_bytes;
        *moved = moved.saturating_add(more);
    }

    /// An attempt begins here.
    pub fn begun(&mut self, op: OpId, link: Link, clock: AttemptClock) {
        self.clocks.insert(op, (link, clock));
    }

    /// An attempt here is over. `None`: it was none of this node's.
    pub fn over(&mut self, op: OpId) -> Option<AttemptWaits> {
        let (link, clock) = self.clocks.remove(&op)?;
        let waits = clock.waits();
        self.waited(link, &waits);
        Some(waits)
    }

    /// An attempt has spent this time in each state.
    pub fn waited(&mut self, link: Link, waits: &AttemptWaits) {
        self.links.entry(link).or_default().waits.merge(waits);
    }

    /// The time that attempts spent in each state, by link: those under way until now, other nodes' when they have ended. No time ever
    /// gets less.
    pub fn waits(&self) -> BTreeMap<Link, AttemptWaits> {
        let ended = self.links.iter().map(|(link, meter)| (*link, meter.waits.clone()));
        let mut all: BTreeMap<_, _> = ended.filter(|(_, waits)| !waits.all.is_empty()).collect();
        for (link, clock) in self.clocks.values() {
            all.entry(*link).or_default().merge(&clock.waits());
        }
        all
    }

    /// An attempt has ended.
    pub fn ended(&mut self, link: Link, end: &End, next: Next) {
        let meter = self.links.entry(link).or_default();
        match end {
            End::Done { mode, .. } => *meter.modes.entry(mode.as_str()).or_default() += 1,
            End::Adopted { .. } => meter.adopted += 1,
            _ => {}
        }
        if let End::Failed(failure) = end {
            *meter.attempts_failed.entry((failure.class, failure.party)).or_default() += 1;
        }
        let class = match end {
            End::Failed(failure) => failure.class.as_str(),
            End::Lost => "lost",
            _ => "stopped",
        };
        match (next, end) {
            (Next::Finished, End::Done { bytes, .. } | End::Adopted { bytes }) => {
                meter.finished += 1;
                meter.sizes.add(bytes.0);
                meter.finished_bytes = meter.finished_bytes.saturating_add(bytes.0);
            }
            (Next::Failed, _) => *meter.failed.entry(class).or_default() += 1,
            (Next::Cancelled, _) => meter.cancelled += 1,
            // Copied, and on its way to tape.
            (Next::Queued { .. }, End::Done { bytes, .. } | End::Adopted { bytes }) => {
                meter.sizes.add(bytes.0);
                meter.finished_bytes = meter.finished_bytes.saturating_add(bytes.0);
            }
            (Next::Queued { .. }, End::Ready) => {}
            (Next::Queued { .. } | Next::Cleanup { .. }, _) => *meter.retried.entry(class).or_default() += 1,
            (Next::Finished, _) => meter.finished += 1,
        }
    }
}

/// Bytes of one attempt as far as they were told.
pub(super) fn bytes_of(end: &End) -> Bytes {
    match end {
        End::Done { bytes, .. } => *bytes,
        End::Failed(failure) => failure.bytes_moved,
        End::Stopped { bytes_moved } => *bytes_moved,
        End::Adopted { .. } | End::Ready | End::Lost => Bytes(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_deviation_of_what_came_lately() {
        let mut sizes = Sizes::default();
        for size in [2, 4, 4, 4, 5, 5, 7, 9] {
            sizes.add(size);
        }
        assert!(
            (sizes.mean - 5.0).abs() < 1e-9 && (sizes.deviation() - 2.0).abs() < 1e-9,
            "{sizes:?}"
        );
        for _ in 0..2000 {
            sizes.add(1_000);
        }
        assert!(
            (sizes.mean - 1_000.0).abs() < 1.0 && sizes.deviation() < 1.0,
            "{sizes:?}"
        );
    }
}
