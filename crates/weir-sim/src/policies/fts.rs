//! The optimizer of FTS 3.14: it decides the number of transfers of each link.
//!
//! It imitates the released code, not its intent. Since 3.14.0 the previous state of a link is lost between two cycles,
//! so that throughput has no influence. The remaining rules are: below 97 % success one less; a queue shorter than the
//! decision keeps it; else more, up to the end of the range. (`fts3` 3.14 `Optimizer.cpp`, `OptimizerExecutor`; the
//! change is FTS-2038.)
//!
//! A cycle goes through the links one after the other; its duration grows with the queue. In the data challenge of 2024
//! it took 3 h in place of 6 to 12 minutes. A restart of the server ends a cycle wherever it is, and the next one
//! begins with the first link again: links that no cycle reaches keep their decision.

use std::collections::VecDeque;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_plan::stream;
use weir_units::Timestamp;

use crate::draw;
use crate::spec::FtsModel;

/// Success below this, in per cent, lowers the decision (`OptimizerLowSuccessRate`).
const LOW_SUCCESS: u64 = 97;
/// Steps by which a cycle decreases or increases the decision (`OptimizerDecreaseStep`, `OptimizerIncreaseStep`,
/// `OptimizerAggressiveIncreaseStep`).
const STEP: u32 = 1;
const AGGRESSIVE_STEP: u32 = 2;
/// Growth stops where a decision is more than this many times the queue (modes 2 and 3).
const QUEUE_FACTOR: u64 = 16;
/// Transfers that the scheduler allows on a link that the optimizer has not looked at (`MySqlAPI`, the default of a
/// missing `t_optimizer` row).
const UNSEEN: u32 = 10;
/// Longest window of history.
const HISTORY: Duration = Duration::from_secs(1_800);
/// Width of the parts that history is kept in.
const PART: Duration = Duration::from_secs(60);

/// The transfers that ended on a link within one part of time.
#[derive(Debug, Clone, Copy, Default)]
struct TimeSlice {
    number: u64,
    finished: u64,
    failed: u64,
    millis: u64,
}

#[derive(Debug, Default)]
struct LinkHistory {
    /// The decision; zero before the first.
    decision: u32,
    parts: VecDeque<TimeSlice>,
}

/// The optimizer's view of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkLoad {
    pub(crate) queued: u64,
    pub(crate) active: u32,
    /// The maximum configured for this very link.
    pub(crate) own_max: Option<u32>,
}

/// A cycle under way.
#[derive(Debug)]
struct Cycle {
    begun: Timestamp,
    takes: Duration,
    n_links: usize,
    /// How many links it has looked at.
    done: usize,
}

/// The optimizer; see the module.
#[derive(Debug)]
pub struct Optimizer {
    model: FtsModel,
    links: Vec<LinkHistory>,
    /// The order in which a cycle goes through the links: that of the database, which is arbitrary.
    order: Vec<usize>,
    random: ChaCha8Rng,
    cycle: Option<Cycle>,
    next_cycle: Timestamp,
    next_restart: Timestamp,
}

impl Optimizer {
    /// An optimizer that has decided nothing yet.
    pub fn new(model: FtsModel, seed: u64) -> Self {
        let first = Timestamp(0) + model.optimizer_interval;
        let restart = if model.restart_interval.is_zero() {
            Timestamp(u64::MAX)
        } else {
            Timestamp(0) + model.restart_interval
        };
        Self {
            model,
            links: Vec::new(),
            order: Vec::new(),
            random: stream(seed, "fts optimizer"),
            cycle: None,
            next_cycle: first,
            next_restart: restart,
        }
    }

    fn link(&mut self, link: usize) -> &mut LinkHistory {
        while self.links.len() <= link {
            // A new row of the table is inserted at a random position.
            let at = draw::index(&mut self.random, self.order.len() + 1);
            self.order.insert(at, self.links.len());
            self.links.push(LinkHistory::default());
        }
        &mut self.links[link]
    }

    /// How many transfers a link may run.
    pub(crate) fn limit(&self, link: usize) -> u32 {
        match self.links.get(link).map_or(0, |history| history.decision) {
            0 => UNSEEN,
            decision => decision,
        }
    }

    /// Remembers the end of an attempt. Failures that are not worth a retry do not count against a link.
    pub(crate) fn ended(&mut self, link: usize, now: Timestamp, took: Duration, finished: bool, recoverable: bool) {
        let number = part_of(now);
        let parts = &mut self.link(link).parts;
        if parts.back().is_none_or(|part| part.number != number) {
            parts.push_back(TimeSlice {
                number,
                ..TimeSlice::default()
            });
            let oldest = number.saturating_sub((HISTORY.as_secs() / PART.as_secs()) + 1);
            while parts.front().is_some_and(|part| part.number < oldest) {
                parts.pop_front();
            }
        }
        let Some(part) = parts.back_mut() else { return };
        if finished {
            part.finished += 1;
            part.millis += took.as_millis() as u64;
        } else if recoverable {
            part.failed += 1;
        }
    }

    /// Goes on with the cycle as far as time allows; `load` tells of a link.
    pub(crate) fn run(&mut self, now: Timestamp, queued: u64, n_links: usize, load: &dyn Fn(usize) -> LinkLoad) {
        if n_links > 0 {
            self.link(n_links - 1);
        }
        if now >= self.next_restart {
            self.cycle = None;
            self.next_cycle = now;
            self.next_restart = now + self.model.restart_interval;
        }
        if self.cycle.is_none() && now >= self.next_cycle {
            let per_queued = self.model.optimizer_cycle_per_queued.as_nanos() * u128::from(queued);
            let takes =
                self.model.optimizer_cycle + Duration::from_nanos(u64::try_from(per_queued).unwrap_or(u64::MAX));
            self.cycle = Some(Cycle {
                begun: now,
                takes,
                n_links,
                done: 0,
            });
        }
        let Some(cycle) = &mut self.cycle else { return };
        let due = due_by(cycle, now);
        let (from, n_cycle) = (cycle.done, cycle.n_links);
        cycle.done = due;
        for place in from..due {
            let link = self.order[place % self.order.len()];
            self.decide(link, now, load(link));
        }
        if due >= n_cycle {
            self.cycle = None;
            self.next_cycle = now + self.model.optimizer_interval;
        }
    }

    /// Decides for one link.
    fn decide(&mut self, link: usize, now: Timestamp, load: LinkLoad) {
        let model = &self.model;
        let max = load.own_max.unwrap_or(model.link_max);
        let min = model.link_min.min(max);
        let (mode, history) = (model.mode, &mut self.links[link]);
        let previous = history.decision;
        if previous == 0 {
            // A link with a configured maximum starts there, any other in the middle of the range.
            history.decision = if load.own_max.is_some() {
                max
            } else {
                min + (max - min) / 2
            };
            return;
        }
        let seen = window(&history.parts, now);
        let wanted = if min == max {
            min
        } else if seen.success_percent() < LOW_SUCCESS {
            previous.saturating_sub(STEP)
        } else if (seen.finished == 0 && load.active == 0) || load.queued < u64::from(previous) {
            previous // nothing moved, or there is not enough to move
        } else {
            previous + if mode >= 2 { AGGRESSIVE_STEP } else { STEP }
        };
        let mut decision = wanted.clamp(min, max);
        let too_few = match mode {
            1 => load.queued < u64::from(decision),
            _ => u64::from(decision) > load.queued * QUEUE_FACTOR,
        };
        if decision > previous && too_few {
            decision = previous;
        }
        history.decision = decision;
    }
}

fn part_of(now: Timestamp) -> u64 {
    now.0 / PART.as_nanos() as u64
}

/// How many links a cycle has looked at by now.
fn due_by(cycle: &Cycle, now: Timestamp) -> usize {
    let passed = now.since(cycle.begun);
    if passed >= cycle.takes {
        return cycle.n_links;
    }
    (cycle.n_links as u128 * passed.as_nanos() / cycle.takes.as_nanos()) as usize
}

/// The ends within the window, which depends on the mean duration: 5 minutes below 30 s, 15 below 900 s, else 30. It is
/// 30 minutes too at exactly 0 and 30 s, which match neither of FTS's two comparisons.
fn window(parts: &VecDeque<TimeSlice>, now: Timestamp) -> TimeSlice {
    let sum = |minutes: u64| {
        let oldest = part_of(now).saturating_sub(minutes);
        let recent = parts.iter().filter(|part| part.number >= oldest);
        recent.fold(TimeSlice::default(), |sum, part| TimeSlice {
            number: 0,
            finished: sum.finished + part.finished,
            failed: sum.failed + part.failed,
            millis: sum.millis + part.millis,
        })
    };
    let all = sum(HISTORY.as_secs() / 60);
    match all.millis.checked_div(all.finished) {
        Some(1..=29_999) => sum(5),
        Some(30_001..=899_999) => sum(15),
        _ => all,
    }
}

impl TimeSlice {
    /// Finished of all that ended, in per cent, rounded up; 100 if nothing ended.
    fn success_percent(&self) -> u64 {
        let all = self.finished + self.failed;
        if all == 0 {
            100
        } else {
            (100 * self.finished).div_ceil(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optimizer(model: FtsModel) -> Optimizer {
        Optimizer::new(model, 1)
    }

    fn load(queued: u64) -> LinkLoad {
        LinkLoad {
            queued,
            active: 1,
            own_max: None,
        }
    }

    fn minutes(n: u64) -> Timestamp {
        Timestamp::from_secs(60 * n)
    }

    /// The imitation would not decide as FTS does: the middle, then two more each minute, one less when it fails.
    #[test]
    fn it_grows_and_shrinks_as_fts_does() {
        let mut optimizer = optimizer(FtsModel::default());
        assert_eq!(optimizer.limit(0), 10);
        let mut decisions = Vec::new();
        for n in 1..=4 {
            optimizer.run(minutes(n), 1_000, 1, &|_| load(1_000));
            decisions.push(optimizer.limit(0));
        }
        assert_eq!(decisions, [66, 68, 70, 72]);
        for _ in 0..10 {
            optimizer.ended(0, minutes(5), Duration::from_secs(100), false, true);
        }
        optimizer.run(minutes(5), 1_000, 1, &|_| load(1_000));
        assert_eq!(optimizer.limit(0), 71);
        optimizer.run(minutes(60), 10, 1, &|_| load(10));
        assert_eq!(optimizer.limit(0), 71, "a short queue keeps the decision");
    }

    /// Failures that no congestion caused would lower the decision.
    #[test]
    fn only_recoverable_failures_count() {
        let mut optimizer = optimizer(FtsModel::default());
        optimizer.run(minutes(1), 100, 1, &|_| load(100));
        optimizer.ended(0, minutes(1), Duration::from_secs(1), false, false);
        optimizer.run(minutes(2), 100, 1, &|_| load(100));
        assert_eq!(optimizer.limit(0), 68);
    }

    /// Restarts would not freeze decisions when a cycle takes longer than the server lives.
    #[test]
    fn restarts_freeze_what_a_cycle_does_not_reach() {
        let mut optimizer = optimizer(FtsModel {
            optimizer_cycle: Duration::from_secs(3 * 3600),
            restart_interval: Duration::from_secs(3600),
            ..FtsModel::default()
        });
        for n in 1..=600 {
            optimizer.run(minutes(n), 1_000, 30, &|_| load(1_000));
        }
        let unseen = (0..30).filter(|link| optimizer.limit(*link) == 10).count();
        assert!((18..=21).contains(&unseen), "{unseen} of 30 links were never looked at");
    }
}
