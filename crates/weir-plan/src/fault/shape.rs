//! The shapes of faults over time.

use std::time::Duration;

/// The course of a fault between its begin and its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// There at once, gone at once.
    Step,
    /// Rises in twenty steps over this time, then stays.
    Ramp(Duration),
    /// On and off in turn: the length of a period, and the share of it in which the fault is on.
    Periodic(Duration, f64),
    /// On and off in times that are drawn: from half to one and a half times half of this mean period.
    Flapping(Duration),
}
