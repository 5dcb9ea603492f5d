//! A check of a service, and its outcome.

use std::borrow::Cow;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// It works.
    Ok {
        /// The finding.
        detail: String,
    },
    /// It works, and something should be known.
    Warning {
        /// The finding.
        detail: String,
        /// The remedy.
        remedy: String,
    },
    /// It does not work.
    Failed {
        /// Why, secrets removed.
        cause: String,
        /// The remedy.
        remedy: String,
    },
    /// It was not tried.
    Skipped {
        /// Why not.
        why: String,
    },
}

impl Outcome {
    /// It works.
    pub fn ok(detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::Ok { detail }
    }

    /// It works, and something should be known.
    pub fn warning(detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (detail, remedy) = (detail.into(), remedy.into());
        Self::Warning { detail, remedy }
    }

    /// It does not work.
    pub fn failed(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (cause, remedy) = (cause.into(), remedy.into());
        Self::Failed { cause, remedy }
    }

    /// Whether it does not work.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The thing that was tried: `certificate`, `write`, `area data root`.
    pub name: Cow<'static, str>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took, in seconds.
    pub took_s: f64,
}

impl Check {
    /// A check without a reported duration.
    pub fn new(name: impl Into<Cow<'static, str>>, outcome: Outcome) -> Self {
        Self {
            name: name.into(),
            outcome,
            took_s: 0.0,
        }
    }

    /// Tries something, and measures how long that takes.
    pub async fn of(name: impl Into<Cow<'static, str>>, work: impl Future<Output = Outcome>) -> Self {
        let begun = Instant::now();
        let outcome = work.await;
        Self {
            name: name.into(),
            outcome,
            took_s: begun.elapsed().as_secs_f64(),
        }
    }
}

/// A certificate that ends sooner is told of.
pub const ENDS_SOON: Duration = Duration::from_secs(7 * 86_400);

/// A clock that is off by more is told of: `Date` counts whole seconds.
const CLOCK_TOLD: Duration = Duration::from_secs(5);

/// A clock that is off by more fails: tokens and certificates are not valid yet, or not any more, on one of the two sides.
const CLOCK_FAILS: Duration = Duration::from_secs(30);

/// By how much the clock of another host is off ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// It is ahead by this much at least.
    Ahead(Duration),
    /// It is behind by this much at least.
    Behind(Duration),
    /// It agrees as far as can be told.
    Agrees,
}

impl Clock {
    /// Compares the `Date` of an answer with our clock when it was asked for and when it came. `Date` has whole seconds.
    pub fn of(date: SystemTime, asked: SystemTime, answered: SystemTime) -> Self {
        let second = Duration::from_secs(1);
        match (date.duration_since(answered), asked.duration_since(date + second)) {
            (Ok(ahead), _) if !ahead.is_zero() => Self::Ahead(ahead),
            (_, Ok(behind)) if !behind.is_zero() => Self::Behind(behind),
            _ => Self::Agrees,
        }
    }

    /// As the outcome of a check.
    pub fn outcome(self) -> Outcome {
        let (by, word) = match self {
            Self::Agrees => return Outcome::ok("agrees with this machine's"),
            Self::Ahead(by) => (by, "ahead of"),
            Self::Behind(by) => (by, "behind"),
        };
        let detail = format!("is {} s {word} this machine's", by.as_secs_f64().ceil());
        let remedy = "synchronise both clocks (NTP): times of transfers, tokens and certificates go by them".to_owned();
        match by {
            by if by > CLOCK_FAILS => Outcome::failed(format!("its clock {detail}"), remedy),
            by if by > CLOCK_TOLD => Outcome::Warning { detail, remedy },
            _ => Outcome::ok(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_only_by_what_a_whole_second_cannot_explain() {
        // Wrong: two clocks that agree are called different, because Date has whole seconds or the answer took long.
        let at = |millis: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let seconds = Duration::from_secs;
        assert_eq!(Clock::of(at(10_000), at(10_100), at(10_200)), Clock::Agrees);
        assert_eq!(Clock::of(at(10_000), at(10_999), at(11_500)), Clock::Agrees);
        assert_eq!(Clock::of(at(10_000), at(9_000), at(20_000)), Clock::Agrees);
        assert_eq!(Clock::of(at(70_000), at(9_900), at(10_000)), Clock::Ahead(seconds(60)));
        assert_eq!(
            Clock::of(at(10_000), at(71_000), at(71_200)),
            Clock::Behind(seconds(60))
        );
        assert!(Clock::Ahead(seconds(60)).outcome().has_failed());
        assert!(Clock::Behind(seconds(60)).outcome().has_failed());
        assert!(matches!(Clock::Ahead(seconds(10)).outcome(), Outcome::Warning { .. }));
        assert!(matches!(Clock::Behind(seconds(2)).outcome(), Outcome::Ok { .. }));
    }
}
