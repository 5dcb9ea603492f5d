//! Compares counters that were kept independently of each other.
//!
//! A disagreement is shown and fails the check; nothing is averaged. Fewer than two counters are nothing to compare, and no agreement.

use crate::report::CrossCheck;

/// Largest relative difference that passes: one part in a thousand. Counters of the same bytes over the same time are
/// equal; what remains are bytes under way when a counter was read and attempts that were given up.
pub const TOLERANCE: f64 = 0.001;

/// What three parties counted for one subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// RSE, or `all`.
    pub subject: String,
    /// What is counted, e.g. `bytes received`.
    pub quantity: String,
    /// As the transfer service reports it.
    pub transfer_service: Option<u64>,
    /// As the receiving storage counts it.
    pub receiving_storage: Option<u64>,
    /// As the sending storage counts it.
    pub sending_storage: Option<u64>,
    /// Why a counter is missing or what it includes.
    pub note: Option<String>,
}

/// Compares the counters that are there.
pub fn check(counted: Counted, tolerance: f64) -> CrossCheck {
    let difference_ratio = difference(&[
        counted.transfer_service,
        counted.receiving_storage,
        counted.sending_storage,
    ]);
    CrossCheck {
        pass: difference_ratio.map(|difference| difference <= tolerance),
        subject: counted.subject,
        quantity: counted.quantity,
        transfer_service: counted.transfer_service,
        receiving_storage: counted.receiving_storage,
        sending_storage: counted.sending_storage,
        difference_ratio,
        note: counted.note,
    }
}

/// Returns (largest − smallest) ÷ largest; `None` with fewer than two counters, zero when all are zero.
#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with a few digits")]
fn difference(counters: &[Option<u64>]) -> Option<f64> {
    let present: Vec<u64> = counters.iter().flatten().copied().collect();
    if present.len() < 2 {
        return None;
    }
    let (smallest, largest) = (present.iter().min()?, present.iter().max()?);
    if *largest == 0 {
        Some(0.0)
    } else {
        Some((largest - smallest) as f64 / *largest as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference_of(
        transfer: Option<u64>,
        receiving: Option<u64>,
        sending: Option<u64>,
    ) -> (Option<f64>, Option<bool>) {
        let counted = Counted {
            transfer_service: transfer,
            receiving_storage: receiving,
            sending_storage: sending,
            ..Counted::default()
        };
        let check = check(counted, TOLERANCE);
        (check.difference_ratio, check.pass)
    }

    #[test]
    fn compares_only_what_is_there() {
        // Wrong: a missing counter counts as zero, a disagreement passes, or one counter agrees with itself.
        assert_eq!(difference_of(Some(100), Some(100), Some(100)), (Some(0.0), Some(true)));
        assert_eq!(difference_of(Some(100), Some(90), None), (Some(0.1), Some(false)));
        assert_eq!(difference_of(Some(1_000), Some(998), None).1, Some(false));
        assert_eq!(difference_of(Some(100), None, None), (None, None));
        assert_eq!(difference_of(None, None, None), (None, None));
        assert_eq!(difference_of(Some(0), Some(0), None), (Some(0.0), Some(true)));
        assert_eq!(
            difference_of(None, Some(10_000), Some(9_999)),
            (Some(0.0001), Some(true))
        );
    }
}
