//! The pace of bodies: tells a slow transfer from a stalled one.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Watches that at least so many bytes move in any window of time.
#[derive(Debug)]
pub struct Pace {
    window: Duration,
    least: u64,
    seen: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// At least so many bytes are asked in each window.
    pub fn new(window: Duration, least: u64) -> Self {
        Self {
            window,
            least,
            seen: VecDeque::new(),
        }
    }

    /// Takes the bytes moved so far; returns those of the last window if they are too few.
    pub fn stalled(&mut self, now: Instant, bytes: u64) -> Option<u64> {
        self.seen.push_back((now, bytes));
        // The first entry is the youngest that is at least a window old.
        while self
            .seen
            .get(1)
            .is_some_and(|(then, _)| now.duration_since(*then) >= self.window)
        {
            self.seen.pop_front();
        }
        let (then, before) = self.seen[0];
        let moved = bytes.saturating_sub(before);
        (now.duration_since(then) >= self.window && moved < self.least).then_some(moved)
    }

    /// Begins anew: another phase, with rights to a silence of its own.
    pub fn reset(&mut self) {
        self.seen.clear();
    }
}

/// The pace of a body, looked at as its pieces come, of which there may be thousands in a second.
#[derive(Debug)]
pub struct BodyPace {
    pace: Pace,
    every: Duration,
    next: Instant,
}

impl BodyPace {
    /// At least so many bytes are asked in each window.
    pub fn new(window: Duration, least: u64) -> Self {
        let every = window / 16;
        Self {
            pace: Pace::new(window, least),
            every,
            next: Instant::now(),
        }
    }

    /// Takes the bytes so far; returns those of the last window if they are too few. `ours` is the time that we took
    /// for the previous piece: a slow disk is not the client's fault.
    pub fn stalled(&mut self, now: Instant, bytes: u64, ours: Duration) -> Option<u64> {
        if ours > self.every {
            self.pace.reset();
        }
        if now < self.next {
            return None;
        }
        self.next = now + self.every;
        self.pace.stalled(now, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy given up too early is done twice; one never given up holds its slot for good.
    #[test]
    fn a_window_without_bytes_is_a_stall() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(Duration::from_secs(60), 600);
        assert_eq!(pace.stalled(at(0), 0), None);
        for second in 1..=200 {
            assert_eq!(pace.stalled(at(second), second * 20), None, "20 a second is enough");
        }
        for second in 201..=230 {
            let silent = pace.stalled(at(second), 4000);
            assert_eq!(
                silent, None,
                "half a minute of silence is made up for by what came before"
            );
        }
        assert_eq!(pace.stalled(at(231), 4000), Some(580));
        pace.reset();
        assert_eq!(pace.stalled(at(260), 0), None);
        assert_eq!(pace.stalled(at(319), 0), None);
        assert_eq!(pace.stalled(at(320), 0), Some(0));
    }
}
