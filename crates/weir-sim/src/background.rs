//! Traffic on the network that is not the plan's.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use weir_plan::stream;
use weir_units::BitRate;

use crate::draw;

/// How often traffic that is not ours is drawn anew.
pub(crate) const PERIOD: Duration = Duration::from_secs(600);

/// Traffic that is not ours: it moves evenly about its mean.
#[derive(Debug)]
pub(crate) struct Background {
    mean: BitRate,
    variation: f64,
    random: ChaCha8Rng,
}

impl Background {
    pub(crate) fn new(wire: &str, mean: BitRate, variation: f64, seed: u64) -> Self {
        Self {
            mean,
            variation,
            random: stream(seed, &format!("background {wire}")),
        }
    }

    pub(crate) fn moves(&self) -> bool {
        self.variation > 0.0 && self.mean > BitRate::ZERO
    }

    /// The part of a capacity that it leaves; drawn anew each time.
    pub(crate) fn left(&mut self, capacity: BitRate) -> BitRate {
        let mut taken = self.mean;
        if self.variation > 0.0 {
            taken = taken.scale(1.0 + self.variation * (2.0 * draw::draw(&mut self.random) - 1.0));
        }
        BitRate(capacity.0.saturating_sub(taken.0))
    }

    /// The part of a changing capacity that it leaves, from each of these moments on; with the draws of a run of this
    /// seed.
    pub(crate) fn left_over_time(
        mut self,
        capacity: BitRate,
        changes: &[(Duration, BitRate)],
        until: Duration,
    ) -> Vec<(Duration, BitRate)> {
        let mut left = vec![(Duration::ZERO, self.left(capacity))];
        let (mut capacity, mut changes) = (capacity, changes.iter().peekable());
        let mut next = if self.moves() { PERIOD } else { Duration::MAX };
        loop {
            let change = changes.next_if(|change| change.0 <= next);
            let at = change.map_or(next, |change| change.0);
            if at > until {
                return left;
            }
            capacity = change.map_or(capacity, |change| change.1);
            if change.is_none() {
                next += PERIOD;
            }
            left.push((at, self.left(capacity)));
        }
    }
}
