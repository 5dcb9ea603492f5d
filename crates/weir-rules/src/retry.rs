//! Retries of failed transfers.

use std::time::Duration;

/// Attempts of a request, after which its locks are stuck. Rucio: one attempt and three retries.
pub const ATTEMPTS_MAX: u32 = 4;

/// The pause before the second attempt; it doubles with each one.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// After this time without a change a stuck rule is repaired.
pub const REPAIR_AFTER: Duration = Duration::from_secs(1800);

/// A rule that is stuck for this long is suspended: it is not repaired any more.
pub const SUSPEND_AFTER: Duration = Duration::from_secs(14 * 86_400);

/// The reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, after this pause.
    Again(Duration),
    /// The request has failed for good, and its locks are stuck.
    Stuck,
}

/// The reaction to a request's failure number `n_failures`, from 1. A failure that no repetition can cure, such as a source that does not
/// hold the file, is followed by another attempt only if there is another source.
pub fn after_failure(n_failures: u32, recoverable: bool, has_other_source: bool) -> Next {
    if n_failures >= ATTEMPTS_MAX || !(recoverable || has_other_source) {
        return Next::Stuck;
    }
    Next::Again(pause(n_failures))
}

/// The pause after a transfer service refused work: it is not the request's failure, and counts as none. `asked` is `Retry-After`.
pub fn after_refusal(n_refusals: u32, asked: Option<Duration>) -> Duration {
    asked.map_or_else(|| pause(n_refusals.max(1)), |asked| asked.min(PAUSE_MAX))
}

fn pause(n: u32) -> Duration {
    let doubled = PAUSE.saturating_mul(1 << n.saturating_sub(1).min(16));
    doubled.min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_four_with_growing_pauses() {
        let secs = |n| match after_failure(n, true, false) {
            Next::Again(pause) => Some(pause.as_secs()),
            Next::Stuck => None,
        };
        assert_eq!(
            [secs(1), secs(2), secs(3), secs(4)],
            [Some(10), Some(20), Some(40), None]
        );
        assert_eq!(after_failure(1, false, false), Next::Stuck);
        assert_eq!(after_failure(1, false, true), Next::Again(PAUSE));
    }

    #[test]
    fn a_refusal_is_heeded_but_not_for_ever() {
        assert_eq!(after_refusal(1, Some(Duration::from_secs(33))), Duration::from_secs(33));
        assert_eq!(after_refusal(1, Some(Duration::from_secs(86_400))), PAUSE_MAX);
        assert_eq!(after_refusal(100, None), PAUSE_MAX);
    }
}
