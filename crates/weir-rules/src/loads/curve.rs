//! The rate of a load as a function of time.

use std::time::Duration;

use weir_units::{BitRate, Bytes};

/// Points of a curve at most.
const POINTS_MAX: usize = 1_000;

/// The largest rate: 10 Tb/s.
const RATE_MAX: BitRate = BitRate(10_000_000_000_000);

/// The latest point: a year after the start.
const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// From the start of the load, in whole milliseconds.
    pub after: Duration,
    /// The rate there.
    pub rate: BitRate,
}

/// A rate that changes in straight lines from point to point. It is zero before the first point, and stays at that of the last one; two points
/// at one moment are a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Curve(Vec<Point>);

/// The reason why points are no curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CurveError {
    /// There is none, or too many.
    #[error("a curve has from 1 to {POINTS_MAX} points")]
    Count,
    /// A point is before the one in front of it.
    #[error("point {0} of the curve is earlier than the one before")]
    Order(usize),
    /// A point lies too late.
    #[error("point {0} of the curve is more than a year after the start")]
    Late(usize),
    /// A rate is too high.
    #[error("the rate of point {0} is above 10 Tb/s")]
    High(usize),
    /// All rates are zero.
    #[error("the rate of the load is zero")]
    Zero,
}

impl Curve {
    /// The curve through these points.
    ///
    /// # Errors
    /// See [`CurveError`]; points are counted from 1.
    pub fn new(points: Vec<Point>) -> Result<Self, CurveError> {
        if points.is_empty() || points.len() > POINTS_MAX {
            return Err(CurveError::Count);
        }
        let mut before = Duration::ZERO;
        for (at, point) in points.iter().enumerate() {
            if point.after < before {
                return Err(CurveError::Order(at + 1));
            }
            if point.after > TIME_MAX {
                return Err(CurveError::Late(at + 1));
            }
            if point.rate > RATE_MAX {
                return Err(CurveError::High(at + 1));
            }
            before = point.after;
        }
        if points.iter().all(|point| point.rate == BitRate::ZERO) {
            return Err(CurveError::Zero);
        }
        Ok(Self(points))
    }

    /// One rate from the start on.
    ///
    /// # Errors
    /// [`CurveError::High`], [`CurveError::Zero`].
    pub fn constant(rate: BitRate) -> Result<Self, CurveError> {
        let after = Duration::ZERO;
        Self::new(vec![Point { after, rate }])
    }

    /// The points.
    pub fn points(&self) -> &[Point] {
        &self.0
    }

    /// The rate at a moment; at a step, that after it.
    pub fn rate_at(&self, elapsed: Duration) -> BitRate {
        let next = self.0.partition_point(|point| point.after <= elapsed);
        let Some(from) = next.checked_sub(1).map(|at| self.0[at]) else {
            return BitRate::ZERO;
        };
        let Some(to) = self.0.get(next) else { return from.rate };
        let (whole, part) = (span(from.after, to.after), span(from.after, elapsed));
        let rate = (i128::from(from.rate.0) * whole + (i128::from(to.rate.0) - i128::from(from.rate.0)) * part) / whole;
        BitRate(u64::try_from(rate).unwrap_or_default())
    }

    /// The bytes from the start to a moment: the area under the curve.
    pub fn bytes_by(&self, elapsed: Duration) -> Bytes {
        // In bits × milliseconds × 2.
        let mut area = 0;
        for (at, from) in self.0.iter().enumerate() {
            if from.after >= elapsed {
                break;
            }
            let part = span(from.after, elapsed);
            area += match self.0.get(at + 1) {
                Some(to) if elapsed >= to.after => sum(from, to) * span(from.after, to.after),
                Some(to) => {
                    let whole = span(from.after, to.after);
                    let rise = i128::from(to.rate.0) - i128::from(from.rate.0);
                    2 * i128::from(from.rate.0) * part + rise * part * part / whole
                }
                None => 2 * i128::from(from.rate.0) * part,
            };
        }
        Bytes(u64::try_from(area / 16_000).unwrap_or(u64::MAX))
    }
}

fn sum(from: &Point, to: &Point) -> i128 {
    i128::from(from.rate.0) + i128::from(to.rate.0)
}

/// Milliseconds from one moment to a later one.
fn span(from: Duration, to: Duration) -> i128 {
    i128::try_from(to.saturating_sub(from).as_millis()).unwrap_or(i128::MAX)
}
