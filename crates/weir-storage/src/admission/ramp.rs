//! The limit on third-party copies that are bound by the processors.
//!
//! Network-bound copies gain from concurrency: many together fill a link that each fills little of. CPU-bound copies do
//! not: each more takes memory, makes all of them colder in the caches, and ends none of them sooner. 600 pulls at once
//! moved 0.71 times as much as 40, with three times the memory. So few copies start at once, and more while the
//! processors are idle. When the processors are busy, a new copy starts only for one that ends, once the number is back
//! at its initial value. In any case one starts each second, so that copies with slow partners are not delayed by other
//! load on the machine.

use std::time::Duration;

use tokio::time::Instant;
use weir_http::{ProcessorTime, own_processor_time};

/// Interval of looks at the processors: copies started at one look show in the load at the next.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// Longest wait before a copy starts although the processors are busy, one copy after the other.
const OVERDUE: Duration = Duration::from_secs(1);

/// Of their time, used: beyond this the processors are busy.
const BUSY: f64 = 0.9;

/// Share of the load that this process must cause to be considered the reason: copies that other processes slow down
/// must not wait too.
const OWN: f64 = 0.25;

/// While the processors are busy, a holder of more than the minimum gives up one part in this many at each look.
const PART: usize = 8;

/// Processor time used up to a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorUse {
    at: Instant,
    machine: Option<ProcessorTime>,
    own: Duration,
}

impl ProcessorUse {
    pub(super) fn now() -> Self {
        Self {
            at: Instant::now(),
            machine: ProcessorTime::now(),
            own: own_processor_time(),
        }
    }

    /// Whether the processors have had no time left since an earlier one. These are the machine's, if this process had
    /// a good part of it, or the share that this process may use, without a fraction of a processor.
    pub(super) fn is_busy_since(&self, earlier: &Self, cores: usize) -> bool {
        let own = self.own.saturating_sub(earlier.own).as_secs_f64();
        let own = own / (self.at - earlier.at).as_secs_f64().max(1e-3) / cores as f64;
        let machine = self.machine.zip(earlier.machine);
        let machine = machine.and_then(|(now, earlier)| now.busy_since(earlier));
        own >= BUSY || own >= OWN && machine.is_some_and(|share| share >= BUSY)
    }
}

/// How many may be under way now.
#[derive(Debug)]
pub(super) struct Ramp {
    least: usize,
    limit: usize,
    /// When the last one began.
    began: Instant,
}

impl Ramp {
    /// A ramp that starts `least` copies whatever the load.
    pub(super) fn new(least: usize, now: Instant) -> Self {
        Self {
            least,
            limit: least,
            began: now,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Changes the number that starts whatever the load.
    pub(super) fn set_least(&mut self, least: usize) {
        self.least = least;
        self.limit = self.limit.max(least);
    }

    /// One has begun.
    pub(super) fn began(&mut self, now: Instant) {
        self.began = now;
    }

    /// Whether the processors are to be looked at: more may soon want to begin than may at once.
    pub(super) fn is_near(&self, under_way: usize) -> bool {
        under_way >= self.least.div_ceil(2)
    }

    /// Takes one look at the load of the processors, with the number of running copies.
    pub(super) fn look(&mut self, busy: bool, under_way: usize, now: Instant) {
        let overdue = under_way >= self.limit && now.duration_since(self.began) >= OVERDUE;
        self.limit = match (busy, overdue) {
            (false, _) => under_way.saturating_add(self.least),
            (true, true) => under_way + 1,
            (true, false) => self.limit - self.limit.saturating_sub(self.least).div_ceil(PART),
        };
    }

    /// Few copies run and none waits: resets to the initial state.
    pub(super) fn rest(&mut self) {
        self.limit = self.least;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use proptest::prelude::*;

    use super::*;

    const STEP: Duration = LOOK;

    /// Network-bound copies would wait for their turn too.
    #[test]
    fn all_begin_soon_while_the_processors_have_time() {
        let mut ramp = Ramp::new(64, Instant::now());
        let (mut under_way, mut looks) = (0, 0);
        while under_way < 600 {
            under_way = ramp.limit().min(600);
            ramp.look(false, under_way, Instant::now());
            looks += 1;
        }
        assert!(looks <= 10, "{looks}");
    }

    /// The machine would be shared by as many as there ever were.
    #[test]
    fn busy_processors_bring_them_down_to_the_least() {
        let start = Instant::now();
        let mut ramp = Ramp::new(64, start);
        ramp.look(false, 600, start);
        let mut under_way = 600;
        for look in 1..60 {
            let now = start + look * STEP;
            under_way = under_way.min(ramp.limit());
            ramp.began(now);
            ramp.look(true, under_way, now);
        }
        assert_eq!((ramp.limit(), under_way), (64, 64));
        ramp.rest();
        assert_eq!(ramp.limit(), 64);
    }

    /// Slow copies, on a machine that is busy with something else, would keep all others out.
    #[test]
    fn one_begins_each_second_whatever_the_processors_do() {
        let start = Instant::now();
        let mut ramp = Ramp::new(64, start);
        let mut under_way = 64;
        for look in 1..=40 {
            let now = start + look * STEP;
            ramp.look(true, under_way, now);
            if under_way < ramp.limit() {
                under_way += 1;
                ramp.began(now);
            }
        }
        assert_eq!(under_way, 64 + 10);
    }

    proptest! {
        /// A limit below the minimum blocks, and a limit that only grows is none.
        #[test]
        fn the_limit_stays_within_what_was_under_way(least in 1..100_usize, looks in prop::collection::vec((any::<bool>(), 0..2_000_usize, 0..3_u32), 1..100)) {
            let mut now = Instant::now();
            let mut ramp = Ramp::new(least, now);
            let mut most = 0;
            for (busy, under_way, steps) in looks {
                now += steps * STEP;
                let before = ramp.limit();
                ramp.look(busy, under_way, now);
                most = most.max(under_way);
                prop_assert!((least..=least + most + 1).contains(&ramp.limit()));
                prop_assert!(!busy || ramp.limit() <= before.max(under_way + 1));
                prop_assert!(busy || ramp.limit() >= under_way + least);
            }
        }
    }

    fn reading(start: Instant, at: u64, own: u64) -> ProcessorUse {
        ProcessorUse {
            at: start + Duration::from_millis(at),
            machine: None,
            own: Duration::from_millis(own),
        }
    }

    /// A quota of the control group does not show in the machine's counters.
    #[test]
    fn a_client_at_its_limit_is_busy() {
        let start = Instant::now();
        let earlier = reading(start, 0, 100);
        assert!(reading(start, 250, 100 + 460).is_busy_since(&earlier, 2));
        assert!(!reading(start, 250, 100 + 400).is_busy_since(&earlier, 2));
        assert!(!earlier.is_busy_since(&earlier, 2));
    }
}
