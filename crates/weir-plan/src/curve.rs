//! The bytes that ought to have been asked for by a moment.

use std::time::Duration;

use weir_units::BitRate;

use crate::phases::Phases;

/// Bits per second × nanoseconds ÷ this = bytes.
const BIT_NANOS: u128 = 8_000_000_000;

/// Bits per second × microseconds ÷ this = bytes.
const BIT_MICROS: u128 = 8_000_000;

/// The curve of one link: rises with the square of time in the ramp, then in a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Curve {
    rate: u128,
    full_micros: u128,
}

impl Curve {
    pub(crate) fn new(rate: BitRate, phases: &Phases) -> Curve {
        assert!(rate > BitRate::ZERO, "a plan asks nothing of zero rate");
        Curve {
            rate: u128::from(rate.0),
            full_micros: phases.full().as_micros(),
        }
    }

    /// The bytes asked for by `elapsed`, as if the hold never ended.
    pub(crate) fn bytes_at(&self, elapsed: Duration) -> u64 {
        let micros = elapsed.as_micros();
        let bytes = if micros < self.full_micros {
            self.rate * micros * micros / (2 * self.full_micros * BIT_MICROS)
        } else {
            self.rate * (elapsed.as_nanos() - self.full_micros * 500) / BIT_NANOS
        };
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The first moment at which that many bytes are asked for.
    pub(crate) fn reached(&self, bytes: u64) -> Duration {
        let nanos = self.nanos_to(u128::from(bytes));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn nanos_to(&self, bytes: u128) -> u128 {
        let bytes_at_full = self.rate * self.full_micros / (2 * BIT_MICROS);
        if bytes >= bytes_at_full {
            let line = (bytes * BIT_NANOS).div_ceil(self.rate) + self.full_micros * 500;
            return line.max(self.full_micros * 1_000);
        }
        let square = (bytes * BIT_MICROS * 2 * self.full_micros).div_ceil(self.rate);
        let root = square.isqrt();
        (root + u128::from(root * root < square)) * 1_000
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn phases(ramp_millis: u64) -> Phases {
        Phases {
            ramp: Duration::from_millis(ramp_millis),
            hold: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }

    /// The ramp would not rise to the asked rate, or reach it at another time than the handbook says.
    #[test]
    fn asked_bytes() {
        assert_eq!(phases(10_000).full(), Duration::from_millis(7_500));
        let curve = Curve::new(BitRate(8_000), &phases(10_000));
        assert_eq!(curve.bytes_at(Duration::from_secs(10)), 6_250); // 7.5 s at half rate, 2.5 s at the full one
        assert_eq!(curve.bytes_at(Duration::from_secs(11)), 7_250);
    }

    proptest! {
        /// A file would be wanted before or after the moment at which the curve reaches it.
        #[test]
        fn reached_is_the_inverse(
            rate in prop::sample::select(vec![1_u64, 999, 1_960_000, 142_110_000, 1_000_000_000_000, 1_000_000_000_000_000]),
            ramp in 0_u64..86_400_000,
            elapsed in 0_u64..100_000_000_000_000,
        ) {
            let curve = Curve::new(BitRate(rate), &phases(ramp));
            let elapsed = Duration::from_nanos(elapsed);
            let bytes = curve.bytes_at(elapsed);
            let reached = curve.reached(bytes);
            prop_assert!(reached <= elapsed);
            prop_assert_eq!(curve.bytes_at(reached), bytes);
            if let Some(before) = reached.checked_sub(Duration::from_micros(2)) {
                prop_assert!(bytes == 0 || curve.bytes_at(before) <= bytes);
            }
            prop_assert!(curve.reached(bytes + 1) > elapsed.saturating_sub(Duration::from_micros(2)));
        }
    }
}
