//! A core in the world: its inputs, its store, its wish to be woken.

use std::time::Duration;

use weir_sched::Input;
use weir_units::Timestamp;
use weir_world::Seq;

use crate::policies::AnyCore;
use crate::spec::{Interval, StoreModel};

/// A core in the world; see the module.
pub(crate) struct CoreRunner {
    pub(crate) core: AnyCore,
    pub(crate) inputs: Vec<Input>,
    pub(crate) wake: Option<Timestamp>,
    pub(crate) store: Store,
    /// It decides nothing before this moment.
    pub(crate) held_until: Timestamp,
}

impl CoreRunner {
    pub(crate) fn new(core: AnyCore) -> Self {
        Self {
            core,
            inputs: Vec::new(),
            wake: None,
            store: Store::default(),
            held_until: Timestamp(0),
        }
    }

    /// Whether it has anything to do.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        let has_work = !self.inputs.is_empty() || self.wake.is_some_and(|at| at <= now);
        has_work && self.held_until <= now
    }
}

/// A store that commits in groups. The content of records does not matter here: they are never read back, since no core
/// of a simulation loses its memory.
#[derive(Debug, Default)]
pub(crate) struct Store {
    issued: Seq,
    durable: Seq,
    committing: Option<Seq>,
}

impl Store {
    /// Takes a record; says whether its number follows the last one.
    pub(crate) fn take(&mut self, seq: Seq) -> bool {
        let follows = seq == self.issued.next();
        self.issued = self.issued.max(seq);
        follows
    }

    /// Begins a commit if there is something to commit and none is under way; gives when it will be complete.
    pub(crate) fn begin(&mut self, model: &StoreModel, now: Timestamp) -> Option<Timestamp> {
        if self.committing.is_some() || self.issued == self.durable {
            return None;
        }
        self.committing = Some(self.issued);
        Some(complete_at(model, now))
    }

    /// The commit is complete: gives up to where records are durable now.
    pub(crate) fn complete(&mut self) -> Option<Seq> {
        self.durable = self.committing.take()?;
        Some(self.durable)
    }
}

/// When a commit that begins now is complete: in a freeze nothing moves.
fn complete_at(model: &StoreModel, now: Timestamp) -> Timestamp {
    let mut at = now + model.latency;
    let mut freezes: Vec<&Interval> = model.freezes.iter().collect();
    freezes.sort_by_key(|freeze| freeze.at);
    for freeze in freezes {
        let (begin, end) = (after(freeze.at), after(freeze.at + freeze.length));
        if begin < at && now < end {
            at = end + at.since(begin.max(now));
        }
    }
    at
}

fn after(time: Duration) -> Timestamp {
    Timestamp(0) + time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frozen store would go on committing, or never thaw.
    #[test]
    fn a_freeze_delays_commits() {
        let seconds = Duration::from_secs;
        let model = StoreModel {
            latency: seconds(1),
            freezes: vec![Interval {
                at: seconds(10),
                length: seconds(5),
            }],
        };
        let at = |now| complete_at(&model, after(Duration::from_millis(now))).as_millis();
        assert_eq!(
            [at(0), at(9_500), at(12_000), at(15_000)],
            [1_000, 15_500, 16_000, 16_000]
        );
    }

    /// A record would be said to be durable before it is, or twice.
    #[test]
    fn commits_go_in_groups() {
        let (model, mut store) = (StoreModel::default(), Store::default());
        assert!(store.take(Seq(1)) && store.take(Seq(2)));
        assert!(store.begin(&model, Timestamp(0)).is_some());
        assert!(store.take(Seq(3)));
        assert!(!store.take(Seq(5)), "a number was left out");
        assert_eq!(store.begin(&model, Timestamp(0)), None);
        assert_eq!(store.complete(), Some(Seq(2)));
        assert!(store.begin(&model, Timestamp(0)).is_some());
        assert_eq!((store.complete(), store.complete()), (Some(Seq(5)), None));
    }
}
