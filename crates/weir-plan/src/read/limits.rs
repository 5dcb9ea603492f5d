//! Limits of a challenge as a whole.

use std::time::Duration;

use weir_model::file::Refusal;

/// Longest ramp and drain: a day. Keeps the arithmetic of the ramp within 128 bits at 1 Pb/s.
pub(super) const EDGE_MAX: Duration = Duration::from_secs(86_400);

/// Longest hold: a year.
pub(super) const HOLD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Largest factor: from 1 b/s to 1 Mb/s.
const SCALE_MAX: f64 = 1e6;

pub(crate) fn check_scale(scale: f64) -> Result<(), Refusal> {
    if scale > 0.0 && scale <= SCALE_MAX {
        return Ok(());
    }
    Err(Refusal::new(
        format!("{scale} is not a scale"),
        "write a number above 0 and up to 1000000, such as 0.01",
    ))
}

pub(crate) fn check_hold(hold: Duration) -> Result<(), Refusal> {
    match hold {
        Duration::ZERO => Err(Refusal::new(
            "nothing is measured in no time",
            "write a duration such as \"60 s\"",
        )),
        hold if hold > HOLD_MAX => Err(Refusal::new("is longer than a year", "write at most \"366 d\"")),
        _ => Ok(()),
    }
}
