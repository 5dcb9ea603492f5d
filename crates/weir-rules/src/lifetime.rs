//! When rules end.

use std::time::Duration;

use weir_units::Timestamp;

/// `DELETE` of a rule leaves its owner so much time for second thoughts (Rucio).
pub const GRACE: Duration = Duration::from_secs(3600);

/// The end of a rule, and the reasons that put it off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// When it ends; `None`: never by itself.
    pub expires: Option<Timestamp>,
    /// Its owner locked it: it does not end before it is unlocked.
    pub locked: bool,
    /// Whether it was moved to a rule that is not OK yet: until then its copies are needed.
    pub waits_for_child: bool,
}

impl Lifetime {
    /// Whether the rule has ended: its locks are to be released, and none of its requests is to be submitted.
    pub fn is_over(self, now: Timestamp) -> bool {
        !self.locked && !self.waits_for_child && self.expires.is_some_and(|expires| expires <= now)
    }

    /// The end after a `DELETE` at this time: within the hour, and no later than before.
    #[must_use]
    pub fn deleted(self, now: Timestamp) -> Self {
        let soon = Timestamp(now.0.saturating_add(GRACE.as_nanos() as u64));
        let expires = Some(self.expires.map_or(soon, |expires| expires.min(soon)));
        Self { expires, ..self }
    }
}

/// Whether a request may be submitted: one rule that is not over is enough (Rucio issue 6505 asked only the rule that made it). Requests
/// without rules, such as recalls that an administrator asked for, may.
pub fn is_wanted(mut rules: impl Iterator<Item = Lifetime>, now: Timestamp) -> bool {
    let Some(first) = rules.next() else { return true };
    !first.is_over(now) || rules.any(|rule| !rule.is_over(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(secs: u64) -> Lifetime {
        Lifetime {
            expires: Some(Timestamp(secs * 1_000_000_000)),
            ..Lifetime::default()
        }
    }

    const NOW: Timestamp = Timestamp(10_000 * 1_000_000_000);

    #[test]
    fn a_rule_ends_at_its_time_unless_something_holds_it() {
        assert!(until(10_000).is_over(NOW) && !until(10_001).is_over(NOW));
        assert!(!Lifetime::default().is_over(NOW));
        assert!(
            !Lifetime {
                locked: true,
                ..until(1)
            }
            .is_over(NOW)
        );
        assert!(
            !Lifetime {
                waits_for_child: true,
                ..until(1)
            }
            .is_over(NOW)
        );
    }

    #[test]
    fn a_deletion_leaves_an_hour_at_most() {
        assert_eq!(until(10_005).deleted(NOW), until(10_005));
        assert_eq!(Lifetime::default().deleted(NOW), until(13_600));
        assert_eq!(until(99_000).deleted(NOW), until(13_600));
    }

    #[test]
    fn a_request_is_wanted_while_one_of_its_rules_lives() {
        assert!(!is_wanted([until(1), until(2)].into_iter(), NOW));
        assert!(is_wanted([until(1), Lifetime::default()].into_iter(), NOW));
        assert!(is_wanted(std::iter::empty(), NOW));
    }
}
