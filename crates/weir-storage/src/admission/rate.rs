//! How fast places become free, and so when it is worth coming again.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// Ends that are remembered.
const REMEMBERED: usize = 64;

/// The estimate before the first end.
const UNKNOWN: Duration = Duration::from_secs(10);

const LEAST: f64 = 1.0;
const MOST: f64 = 60.0;

/// The ends of late.
#[derive(Default)]
pub(crate) struct Rate(VecDeque<Instant>);

impl Rate {
    pub(crate) fn count(&mut self, now: Instant) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Time until so many waiting requests, and one more, have had their turn: whole seconds, 1 to 60.
    pub(crate) fn time_for(&self, waiting: usize, now: Instant) -> Duration {
        let Some(first) = self.0.front().filter(|_| self.0.len() > 1) else {
            return UNKNOWN;
        };
        let each = now.duration_since(*first).as_secs_f64() / self.0.len() as f64;
        Duration::from_secs_f64((each * (waiting + 1) as f64).ceil().clamp(LEAST, MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_told_from_what_ended_of_late() {
        let start = Instant::now();
        let mut rate = Rate::default();
        assert_eq!(rate.time_for(0, start), UNKNOWN);
        for second in 0..200 {
            rate.count(start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(200);
        assert_eq!(rate.time_for(0, now), Duration::from_secs(1), "one a second");
        assert_eq!(rate.time_for(9, now), Duration::from_secs(10));
        assert_eq!(rate.time_for(9000, now), Duration::from_secs(60));
        // Nothing ends any more.
        assert_eq!(
            rate.time_for(0, now + Duration::from_secs(100_000)),
            Duration::from_secs(60)
        );
    }
}
