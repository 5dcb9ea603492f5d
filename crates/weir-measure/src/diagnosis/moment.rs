//! The moment of a run that a diagnosis looks from.

use crate::report::Times;

/// The part of the run so far that is left out at most because transfers are under way.
const LONGEST: f64 = 1.0 / 3.0;

/// A moment of a run that is diagnosed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Signals are told up to here, seconds from the start of the run.
    pub told_s: f64,
    /// Rates are known up to here, seconds. Bytes count when their transfer has ended, so this lies before `told_s` by the time that
    /// transfers take.
    pub sure_s: f64,
}

impl Moment {
    /// A moment of a run whose transfers take such times: rates are known up to the time before it that 95 % of them take.
    pub fn of(told_s: f64, times: &Times) -> Self {
        let taken_s = times.transfer_s.as_ref().map_or(0.0, |times| times.p95);
        Self {
            told_s,
            sure_s: told_s - taken_s.min(told_s * LONGEST),
        }
    }
}
