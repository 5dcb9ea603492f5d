//! The scheduler's account of waits, against the numbers of waiting transfers between steps.

use std::collections::BTreeMap;

use weir_sched::{Link, Scheduler};
use weir_units::Timestamp;
use weir_world::Wait;

/// Sums over the transfers of a link, in nanoseconds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    queued: u128,
    delayed: u128,
    slots: u128,
}

/// The waits that the numbers of transfers after each step amount to.
#[derive(Debug, Default)]
pub(super) struct Waited {
    links: BTreeMap<Link, Sums>,
    until: Option<Timestamp>,
}

impl Waited {
    /// Time passes until the next step.
    pub(super) fn pass(&mut self, core: &Scheduler, now: Timestamp) {
        let passed = self.until.map_or(0, |until| now.since(until).as_nanos());
        for stats in core.links() {
            let sums = self.links.entry(stats.link).or_default();
            sums.queued += passed * u128::from(stats.counts.queued);
            sums.delayed += passed * u128::from(stats.counts.delayed);
            sums.slots += passed * u128::from(stats.counts.active);
        }
        self.until = Some(now);
    }

    /// No wait is lost, none is counted twice, and none is negative.
    pub(super) fn check(&self, core: &Scheduler, now: Timestamp) {
        for waits in core.waits(now) {
            let of = |is_it: &dyn Fn(Wait) -> bool| -> u128 {
                let times = waits.waits.iter().filter(|wait| is_it(wait.wait));
                times.map(|wait| wait.time.as_nanos()).sum()
            };
            let told = Sums {
                queued: of(&|wait| !matches!(wait, Wait::Retry | Wait::Store)),
                delayed: of(&|wait| wait == Wait::Retry),
                slots: waits.slots.as_nanos(),
            };
            let expected = self.links.get(&waits.link).copied().unwrap_or_default();
            assert_eq!(told, expected, "{:?}: {:?}", waits.link, waits.waits);
        }
    }
}
