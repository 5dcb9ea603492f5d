//! How a fault comes and goes.

use std::time::Duration;

use rand_chacha::rand_core::RngCore;

use super::shape::Shape;
use super::spec::Fault;
use crate::seed::stream;

/// Steps in which a ramp rises.
const STEPS: u32 = 20;
/// Changes of one fault, at most: a course longer than this keeps its last state.
const CHANGES_MAX: usize = 10_000;

/// How far a fault is there: 0 is not at all, 1 as written.
pub type Level = f64;

/// The moments at which the level of a fault changes, each with the level from then on.
pub type Course = Vec<(Duration, Level)>;

impl Fault {
    /// The moments at which its level changes, in order, each with the level from then on; the last is its end, if it ends
    /// before `end`.
    pub fn course(&self, seed: u64, end: Duration) -> Course {
        let until = self.until().unwrap_or(end).min(end);
        let mut course = Vec::new();
        if self.at >= until {
            return course;
        }
        match self.shape {
            Shape::Step => course.push((self.at, 1.0)),
            Shape::Ramp(rise) => {
                let step = |n: u32| (self.at + rise * (n - 1) / STEPS, f64::from(n) / f64::from(STEPS));
                course.extend((1..=STEPS).map(step));
            }
            Shape::Periodic(period, on) => {
                let lengths = [period.mul_f64(on), period.mul_f64(1.0 - on)];
                toggle(&mut course, (self.at, until), |n| lengths[n % 2]);
            }
            Shape::Flapping(period) => {
                let mut random = stream(seed, &format!("fault {}", self.name));
                let mut drawn = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                toggle(&mut course, (self.at, until), |_| (period / 2).mul_f64(0.5 + drawn()));
            }
        }
        course.retain(|(at, _)| *at < until);
        if course.last().is_some_and(|(_, level)| *level > 0.0) && until < end {
            course.push((until, 0.0));
        }
        course
    }
}

/// The level of a fault at a moment of its course.
pub fn level_at(course: &[(Duration, Level)], moment: Duration) -> Level {
    let past = course.partition_point(|(at, _)| *at <= moment);
    past.checked_sub(1).map_or(0.0, |last| course[last].1)
}

/// On and off in turn, each for its length.
fn toggle(
    course: &mut Vec<(Duration, Level)>,
    (from, until): (Duration, Duration),
    mut length: impl FnMut(usize) -> Duration,
) {
    let mut at = from;
    while at < until && course.len() < CHANGES_MAX {
        let n = course.len();
        course.push((at, if n.is_multiple_of(2) { 1.0 } else { 0.0 }));
        at += length(n).max(Duration::from_millis(1));
    }
}
