//! The phases of a run.

use std::time::Duration;

use serde::Serialize;

/// The phases of a run.
///
/// Injection begins with the ramp, in which rates rise to the asked ones. Figures are measured in the hold. In the drain nothing is
/// injected, and transfers under way may end. A run with steps holds until the last step has ended, and at least for `hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Phases {
    /// Length of the ramp.
    #[serde(with = "weir_units::duration")]
    pub ramp: Duration,
    /// Length of the hold.
    #[serde(with = "weir_units::duration")]
    pub hold: Duration,
    /// Longest time of the drain.
    #[serde(with = "weir_units::duration")]
    pub drain: Duration,
}

impl Phases {
    /// Gives the time after which rates are full: three quarters of the ramp, so that the hold begins in a steady state.
    pub fn full(&self) -> Duration {
        let micros = u64::try_from(self.ramp.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros((micros - micros / 4) & !1) // even, so that half of it is exact
    }

    /// Gives the time after which nothing is injected any more.
    pub fn end(&self) -> Duration {
        self.ramp + self.hold
    }
}
