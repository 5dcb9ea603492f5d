//! Ends of flows: clocks that run as fast as a resource serves, and the flows' marks on them.
//!
//! All flows held back by one resource move `level` bytes per second and weight. So the resource has one clock, which
//! shows the bytes per weight that it has given so far. A flow of `bytes` ends when that clock has moved on by
//! `bytes / weight`. A new level changes the speed of one clock, however many flows it serves. Classes at their caps
//! have clocks of their own; the speed of such a clock is the cap.
//!
//! A clock shows an integer (2⁻⁴⁸ bytes per weight). The moment of its first mark is computed once, rounded to the next
//! attosecond, and at that moment the clock is *set* to the mark. So each pass ends at least one flow, whatever the
//! rounding, and the bytes moved by the flow equal its size.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::quantities::{ATTOS_PER_SECOND, Moment};
use super::tournament::Tournament;

/// Steps of a clock per byte and weight.
pub(super) const STEPS: f64 = 281_474_976_710_656.0;

/// The reading of a clock; marks are on the same scale.
pub(super) type Mark = i128;

/// One clock, and the first marks of the classes that follow it.
#[derive(Debug, Default)]
struct Clock {
    /// Its reading at `at`.
    base: Mark,
    at: Moment,
    /// Bytes per second and weight.
    speed: f64,
    /// First mark of each class on this clock; a class may have entries of earlier rounds, which no longer count.
    marks: BinaryHeap<Reverse<(Mark, u32, u32)>>,
    /// Length of `marks` at which stale entries are removed.
    marks_max: usize,
}

/// Entries that a clock keeps without looking whether they count.
const MARKS_MIN: usize = 32;

/// The clocks, numbered by their creator.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    all: Vec<Clock>,
    ends: Tournament,
    /// Per class, the round of its entry that counts.
    rounds: Vec<u32>,
}

impl Clocks {
    /// Adds a clock that stands still.
    pub(super) fn add(&mut self) -> u32 {
        self.all.push(Clock::default());
        self.ends.add();
        self.all.len() as u32 - 1
    }

    /// Makes room for one more class.
    pub(super) fn add_class(&mut self) {
        self.rounds.push(0);
    }

    /// The reading of a clock.
    pub(super) fn show(&self, clock: u32, now: Moment) -> Mark {
        self.all[clock as usize].show(now)
    }

    /// The reading of a clock when it last changed its speed or reached a mark.
    pub(super) fn base(&self, clock: u32) -> Mark {
        self.all[clock as usize].base
    }

    /// How fast a clock runs, in bytes per second and weight.
    pub(super) fn speed(&self, clock: u32) -> f64 {
        self.all[clock as usize].speed
    }

    /// Changes the speed of a clock.
    pub(super) fn set_speed(&mut self, clock: u32, now: Moment, speed: f64) {
        let on = &mut self.all[clock as usize];
        on.base = on.show(now);
        on.at = now;
        on.speed = if speed.is_finite() { speed } else { 0.0 };
        if on.marks.is_empty() {
            on.base = 0;
        }
        self.predict(clock);
    }

    /// Puts the first mark of a class on a clock, in place of the one it had there; from another one it is taken first.
    pub(super) fn put(&mut self, clock: u32, class: u32, mark: Mark) {
        let round = &mut self.rounds[class as usize];
        *round = round.wrapping_add(1);
        let on = &mut self.all[clock as usize];
        on.marks.push(Reverse((mark, class, *round)));
        if on.marks.len() > on.marks_max {
            let rounds = &self.rounds;
            on.marks
                .retain(|Reverse((_, class, round))| rounds[*class as usize] == *round);
            on.marks_max = (2 * on.marks.len()).max(MARKS_MIN);
        }
        self.predict(clock);
    }

    /// Takes the mark of a class from the clock it was on.
    pub(super) fn take(&mut self, clock: u32, class: u32) {
        let round = &mut self.rounds[class as usize];
        *round = round.wrapping_add(1);
        self.predict(clock);
    }

    /// The moment at which a clock next reaches a mark.
    pub(super) fn earliest(&self) -> Option<Moment> {
        self.ends.first().map(|(at, _)| Moment(at))
    }

    /// Sets the next clock that reaches a mark to that mark; returns the classes with this first mark, and the moment.
    ///
    /// `classes` comes empty. Their entries are removed; a class with a further mark adds it again.
    pub(super) fn reach(&mut self, classes: &mut Vec<u32>) -> Option<Moment> {
        let (at, clock) = self.ends.first()?;
        let on = &mut self.all[clock as usize];
        let &Reverse((mark, ..)) = on.marks.peek()?;
        on.base = on.base.max(mark);
        on.at = Moment(at);
        while let Some(&Reverse((mark, class, round))) = on.marks.peek() {
            let counts = self.rounds[class as usize] == round;
            if counts && mark > on.base {
                break;
            }
            on.marks.pop();
            if counts {
                classes.push(class);
            }
        }
        for class in classes.iter() {
            let round = &mut self.rounds[*class as usize];
            *round = round.wrapping_add(1);
        }
        self.predict(clock);
        Some(Moment(at))
    }

    /// Works out when a clock reaches its first mark.
    fn predict(&mut self, clock: u32) {
        let on = &mut self.all[clock as usize];
        while let Some(&Reverse((_, class, round))) = on.marks.peek() {
            if self.rounds[class as usize] == round {
                break;
            }
            on.marks.pop();
        }
        let end = on.marks.peek().and_then(|&Reverse((mark, ..))| on.reaches(mark));
        self.ends.set(clock, end);
    }
}

impl Clock {
    /// Its reading at `now`: never past the first mark, which [`Clocks::reach`] alone may pass.
    fn show(&self, now: Moment) -> Mark {
        let passed = now.since(self.at);
        if passed == 0 || self.speed == 0.0 {
            return self.base;
        }
        let moved = (passed as f64 / ATTOS_PER_SECOND as f64 * self.speed * STEPS) as Mark;
        let shown = self.base.saturating_add(moved);
        self.marks
            .peek()
            .map_or(shown, |&Reverse((mark, ..))| shown.min(mark.max(self.base)))
    }

    /// When it shows `mark`, rounded up; `None` if never, or not within the range of moments.
    fn reaches(&self, mark: Mark) -> Option<u128> {
        let way = mark - self.base;
        if way <= 0 {
            return Some(self.at.0);
        }
        let attos = (way as f64 / STEPS / self.speed * ATTOS_PER_SECOND as f64).ceil();
        (attos < 3e38).then(|| self.at.0.saturating_add(attos as u128))
    }
}
