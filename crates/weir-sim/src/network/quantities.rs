//! Moments finer than a nanosecond, rates and weights.

use std::fmt;
use std::time::Duration;

use weir_units::{BitRate, Timestamp};

/// Attoseconds per nanosecond.
pub(super) const ATTOS_PER_NANO: u128 = 1_000_000_000;

/// Attoseconds per second.
pub(crate) const ATTOS_PER_SECOND: u128 = 1_000_000_000_000_000_000;

/// A moment of virtual time in attoseconds (10⁻¹⁸ s) since zero.
///
/// A byte at 100 Gb/s takes 0.08 ns: in nanoseconds, the end of a short flow would be a rounding error. 128 bits of
/// attoseconds reach past 10²⁰ s, longer than 2⁶³ bytes need at 1 bit/s. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u128);

impl Moment {
    /// The start of virtual time.
    pub const ZERO: Moment = Moment(0);

    /// Takes seconds as people and JSON write them; `None` if negative, undefined, or beyond 3·10²⁰.
    pub fn from_seconds(seconds: f64) -> Option<Moment> {
        // Whole seconds apart from the rest: a product would carry the rounding of 10¹⁸ times as much.
        let whole = seconds.trunc();
        let rest = ((seconds - whole) * ATTOS_PER_SECOND as f64).round();
        (0.0..3e20)
            .contains(&seconds)
            .then(|| Moment(whole as u128 * ATTOS_PER_SECOND + rest as u128))
    }

    /// Gives the first whole nanosecond that is not before this moment; the last timestamp if that lies before.
    pub fn timestamp(self) -> Timestamp {
        Timestamp(u64::try_from(self.0.div_ceil(ATTOS_PER_NANO)).unwrap_or(u64::MAX))
    }

    /// Gives seconds, to double precision.
    pub fn as_seconds(self) -> f64 {
        // 10⁻¹⁸ is not exact in binary, 10¹⁸ is: divide.
        self.0 as f64 / ATTOS_PER_SECOND as f64
    }

    /// Gives the moment that is `time` later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(time.as_nanos().saturating_mul(ATTOS_PER_NANO)))
    }

    /// Gives the time passed since `earlier`, in attoseconds; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> u128 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Moment {
        Moment(u128::from(timestamp.0) * ATTOS_PER_NANO)
    }
}

impl fmt::Display for Moment {
    /// Writes seconds, exactly: `12.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0 / ATTOS_PER_SECOND, self.0 % ATTOS_PER_SECOND);
        if rest == 0 {
            return write!(f, "{seconds}");
        }
        let digits = format!("{rest:018}");
        write!(f, "{seconds}.{}", digits.trim_end_matches('0'))
    }
}

/// A rate or capacity in bits per second: finite, zero or more. It need not be whole.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(f64);

impl Rate {
    /// No rate at all.
    pub const ZERO: Rate = Rate(0.0);

    /// Takes bits per second; `None` if negative, infinite or undefined.
    pub fn bits_per_second(rate: f64) -> Option<Rate> {
        (rate.is_finite() && rate >= 0.0).then_some(Rate(rate))
    }

    /// Gives bits per second.
    pub fn as_f64(self) -> f64 {
        self.0
    }

    pub(super) fn of_bytes(bytes_per_second: f64) -> Rate {
        Rate(if bytes_per_second.is_finite() {
            bytes_per_second.max(0.0) * 8.0
        } else {
            f64::MAX
        })
    }

    pub(super) fn bytes_per_second(self) -> f64 {
        self.0 / 8.0
    }
}

impl From<BitRate> for Rate {
    fn from(rate: BitRate) -> Rate {
        Rate(rate.as_f64())
    }
}

impl From<Rate> for BitRate {
    /// Rounds to the nearest bit per second.
    fn from(rate: Rate) -> BitRate {
        BitRate(rate.0.round() as u64)
    }
}

/// Steps of a weight of one.
const WEIGHT_STEPS: f64 = 4_294_967_296.0;

/// How much of a contended capacity a flow gets, relative to others: positive, in units of 2⁻³².
///
/// Sums of weights are sums of integers: exact, and the same in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u64);

impl Weight {
    /// The weight of flows that are all alike.
    pub const ONE: Weight = Weight(1 << 32);

    /// Rounds to the nearest weight there is, from 2⁻³² to 2³²; `None` if not positive or undefined.
    pub fn new(weight: f64) -> Option<Weight> {
        (weight > 0.0).then(|| Weight(((weight * WEIGHT_STEPS).round() as u64).max(1)))
    }

    /// Gives the weight as a number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / WEIGHT_STEPS
    }

    /// The weight in steps of 2⁻³².
    pub(super) fn steps(self) -> u64 {
        self.0
    }

    /// A sum of steps as a number.
    pub(super) fn sum(steps: u128) -> f64 {
        // In halves: the machine converts 64 bits in one instruction, and 128 by a call.
        let number = (steps >> 64) as u64 as f64 * 18_446_744_073_709_551_616.0 + steps as u64 as f64;
        number / WEIGHT_STEPS
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn moments_read_and_print_seconds() {
        for (seconds, text) in [(0.0, "0"), (1.5, "1.5"), (8e-11, "0.00000000008"), (3e9, "3000000000")] {
            assert_eq!(Moment::from_seconds(seconds).unwrap().to_string(), text);
        }
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e21] {
            assert_eq!(Moment::from_seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_timestamp_is_never_before_its_moment() {
        assert_eq!(Moment(1).timestamp(), Timestamp(1));
        assert_eq!(Moment::from(Timestamp(7)).timestamp(), Timestamp(7));
        assert_eq!(Moment(u128::MAX).timestamp(), Timestamp(u64::MAX));
    }

    #[test]
    fn rates_and_weights_have_bounds() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::bits_per_second(wrong), None, "{wrong}");
        }
        assert_eq!(Weight::new(0.0), None);
        assert_eq!(Weight::new(f64::NAN), None);
        assert_eq!(Weight::new(1.0), Some(Weight::ONE));
        assert_eq!(Weight::new(f64::INFINITY), Some(Weight(u64::MAX)));
    }
}
