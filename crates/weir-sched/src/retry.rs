//! When to try again.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use weir_units::Timestamp;
use weir_world::{ErrorClass, Failure, Party, Phase, Retry, TransferId};

use crate::{Next, Terms, Work};

/// Immediate retries that are not counted, per transfer. More than this is not bad luck: the failure counts.
const FREE_IMMEDIATE: u8 = 2;
/// Lost executors that are not counted, per transfer. Restarts of the service do not count at all.
const FREE_LOSSES: u8 = 8;
/// Failed clean-ups of a cancelled transfer after which it is given up, with its partial file. With pauses that double
/// from 10 s these are three quarters of an hour: long enough for a storage that restarts, not for one that is gone.
const FAILED_CLEANUPS: u8 = 8;
/// Pause while this service has no room for the operation.
const BUSY_PAUSE: Duration = Duration::from_secs(30);
/// The most retries a job can ask for.
const MOST_RETRIES: i32 = 100;

/// The server's rules for trying again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Retries of a job that leaves it to the server.
    pub retries: u8,
    /// Pause before the first retry, of a job that leaves it to the server. It doubles with each further failure.
    pub delay: Duration,
    /// The pause grows no further than this (unless the job's own delay is longer, which then stays as it is).
    pub delay_max: Duration,
    /// Pause while the issuer of tokens is slow or gone. Not counted: it says nothing of the transfer, and may take hours.
    pub issuer_pause: Duration,
    /// Largest random addition to each pause, in hundredths, so that transfers that failed together do not retry
    /// together.
    pub jitter_percent: u32,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Default for RetryPolicy {
    /// 3 retries after 2, 4 and 8 minutes: FTS waits 120 s each time.
    fn default() -> Self {
        Self {
            retries: 3,
            delay: Duration::from_secs(120),
            delay_max: Duration::from_secs(3600),
            issuer_pause: Duration::from_secs(30),
            jitter_percent: 25,
            seed: 0,
        }
    }
}

/// The history of a transfer, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    pub(crate) transfer: TransferId,
    pub(crate) work: Work,
    pub(crate) attempt: u32,
    pub(crate) failures: u8,
    pub(crate) free_retries: u8,
    pub(crate) resume: bool,
}

impl RetryPolicy {
    /// Decides the step after a failed attempt.
    pub(crate) fn after_failure(&self, terms: &Terms, history: History, failure: &Failure, now: Timestamp) -> Next {
        let allowed = self.allowed(terms);
        let resume = history.resume || failure.phase != Phase::Preparation;
        match (failure.retry, self.free_pause(failure)) {
            (Retry::Never, _) => Next::Failed,
            (Retry::Now | Retry::Later, Some(pause)) => Next::Queued {
                work: history.work,
                not_before: now + self.jittered(pause, history),
                failures: history.failures,
                free_retries: history.free_retries,
                resume,
            },
            (Retry::Now, None) if allowed > 0 && history.free_retries < FREE_IMMEDIATE => Next::Queued {
                work: history.work,
                not_before: now,
                failures: history.failures,
                free_retries: history.free_retries + 1,
                resume,
            },
            (Retry::Now | Retry::Later, None) => self.counted(terms, history, failure.class, resume, now),
        }
    }

    /// The pause after a failure that says nothing of the transfer, and costs it no retry: the issuer of tokens is slow or gone, or this
    /// service is busy itself. Either may take hours.
    fn free_pause(&self, failure: &Failure) -> Option<Duration> {
        match failure.party {
            Party::Issuer => Some(self.issuer_pause),
            // Before it there are reasons that are the transfer's own: another one writes to the same destination.
            Party::TransferService if (failure.class, failure.phase) == (ErrorClass::Overload, Phase::Transfer) => {
                Some(BUSY_PAUSE)
            }
            _ => None,
        }
    }

    /// Decides the step after a lost attempt.
    pub(crate) fn after_loss(&self, terms: &Terms, history: History, now: Timestamp) -> Next {
        if history.free_retries >= FREE_LOSSES {
            return self.counted(terms, history, ErrorClass::Internal, true, now);
        }
        let free_retries = history.free_retries + 1;
        let not_before = now + self.jittered(self.pause(Duration::from_secs(1), free_retries), history);
        Next::Queued {
            work: history.work,
            not_before,
            failures: history.failures,
            free_retries,
            resume: true,
        }
    }

    /// The time of the clean-up after a cancelled transfer whose operation was lost.
    pub(crate) fn cleanup_at(&self, history: History, now: Timestamp) -> Timestamp {
        now + self.jittered(self.cleanup_delay(), history)
    }

    /// When to look again after a clean-up that failed, as many of which are in `free_retries`. `None`: not any more.
    pub(crate) fn failed_cleanup_at(&self, history: History, failure: &Failure, now: Timestamp) -> Option<Timestamp> {
        if failure.retry == Retry::Never || history.free_retries >= FAILED_CLEANUPS {
            return None;
        }
        let pause = self.pause(self.cleanup_delay(), history.free_retries + 1);
        Some(now + self.jittered(pause, history))
    }

    fn cleanup_delay(&self) -> Duration {
        self.delay.min(Duration::from_secs(10))
    }

    fn counted(&self, terms: &Terms, history: History, class: ErrorClass, resume: bool, now: Timestamp) -> Next {
        let failures = history.failures.saturating_add(1);
        if failures > self.allowed(terms) {
            return Next::Failed;
        }
        let pause = self.pause(self.base(terms).saturating_mul(patience(class)), failures);
        let not_before = now + self.jittered(pause, history);
        Next::Queued {
            work: history.work,
            not_before,
            failures,
            free_retries: history.free_retries,
            resume,
        }
    }

    fn base(&self, terms: &Terms) -> Duration {
        if terms.retry_delay.is_zero() {
            self.delay
        } else {
            terms.retry_delay
        }
    }

    /// The longest wait for a next attempt under these terms, whatever the clock of an earlier life said.
    pub(crate) fn longest(&self, terms: &Terms) -> Duration {
        let counted = self.delay_max.max(self.base(terms).saturating_mul(PATIENCE_MAX));
        let pause = counted.max(self.issuer_pause).max(BUSY_PAUSE);
        pause.saturating_add((pause / 100).saturating_mul(self.jitter_percent))
    }

    /// How many retries a job has, from 0 to [`MOST_RETRIES`].
    fn allowed(&self, terms: &Terms) -> u8 {
        match terms.retries {
            0 => self.retries,
            asked => asked.clamp(0, MOST_RETRIES) as u8,
        }
    }

    fn pause(&self, base: Duration, failures: u8) -> Duration {
        let doublings = u32::from(failures.saturating_sub(1)).min(30);
        base.saturating_mul(1 << doublings).min(self.delay_max.max(base))
    }

    /// Each attempt has its own stream of randomness, so that the order of failures changes nothing.
    fn jittered(&self, pause: Duration, history: History) -> Duration {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&history.transfer.0.to_le_bytes());
        seed[16..20].copy_from_slice(&history.attempt.to_le_bytes());
        let drawn = ChaCha8Rng::from_seed(seed).next_u32();
        let millionths = (u64::from(drawn) * u64::from(self.jitter_percent) * 10_000) >> 32;
        pause.saturating_add((pause / 1_000_000).saturating_mul(millionths as u32))
    }
}

/// The most of [`patience`].
const PATIENCE_MAX: u32 = 4;

/// Factor of the pause by class of error: a full disk is not emptied in a minute.
fn patience(class: ErrorClass) -> u32 {
    match class {
        ErrorClass::NoSpace => PATIENCE_MAX,
        ErrorClass::Overload | ErrorClass::ReadOnly => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use weir_units::Bytes;
    use weir_world::Party;

    use super::*;

    const NOW: Timestamp = Timestamp(0);

    fn failure(class: ErrorClass, retry: Retry) -> Failure {
        let (party, phase) = (Party::Destination, Phase::Transfer);
        Failure {
            class,
            party,
            phase,
            retry,
            message: String::new(),
            remedy: String::new(),
            bytes_moved: Bytes(0),
        }
    }

    fn history(failures: u8, free_retries: u8) -> History {
        History {
            transfer: TransferId(7),
            work: Work::Copy,
            attempt: 1,
            failures,
            free_retries,
            resume: false,
        }
    }

    fn exact() -> RetryPolicy {
        RetryPolicy {
            jitter_percent: 0,
            ..RetryPolicy::default()
        }
    }

    /// A restart after the clock was set back would leave a transfer waiting for the time it was set back by.
    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let policy = RetryPolicy {
            retries: MOST_RETRIES as u8,
            ..RetryPolicy::default()
        };
        for delay in [0, 1, 600, 3600, 86_400] {
            let terms = Terms {
                retry_delay: Duration::from_secs(delay),
                ..Terms::default()
            };
            let longest = policy.longest(&terms);
            for class in ErrorClass::ALL {
                for failures in 0..MOST_RETRIES as u8 {
                    let history = history(failures, failures);
                    let mut late = failure(*class, Retry::Later);
                    let counted = policy.after_failure(&terms, history, &late, NOW);
                    late.party = Party::Issuer;
                    let issuer = policy.after_failure(&terms, history, &late, NOW);
                    for next in [counted, issuer, policy.after_loss(&terms, history, NOW)] {
                        let Next::Queued { not_before, .. } = next else {
                            panic!("{next:?}");
                        };
                        assert!(not_before <= NOW + longest, "{class:?} {failures} {not_before:?}");
                    }
                }
            }
            assert!(
                longest <= Duration::from_secs(3600.max(4 * delay)) * 5 / 4,
                "{longest:?}"
            );
        }
    }

    /// Seconds until the next attempt, after `failures` earlier ones; none if it is given up.
    fn pause(retries: i32, delay_secs: u64, class: ErrorClass, failures: u8) -> Option<u64> {
        let terms = Terms {
            retries,
            retry_delay: Duration::from_secs(delay_secs),
            ..Terms::default()
        };
        match exact().after_failure(&terms, history(failures, 0), &failure(class, Retry::Later), NOW) {
            Next::Queued { not_before, .. } => Some(not_before.since(NOW).as_secs()),
            Next::Failed => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn retries_are_counted_as_fts_does() {
        // A wrong count either gives up on a healthy file or hammers a broken one.
        let network = |retries, failures| pause(retries, 10, ErrorClass::Network, failures).is_some();
        assert_eq!(
            [0, 1, 2, 3].map(|failures| network(0, failures)),
            [true, true, true, false]
        );
        assert_eq!([0, 1].map(|failures| network(1, failures)), [true, false]);
        assert_eq!([0, 1].map(|failures| network(-1, failures)), [false, false]);
    }

    #[test]
    fn pauses_double_up_to_the_cap() {
        let network = |failures| pause(100, 600, ErrorClass::Network, failures);
        assert_eq!([0, 1, 2, 3, 90].map(network), [600, 1200, 2400, 3600, 3600].map(Some));
        assert_eq!(pause(100, 7200, ErrorClass::Network, 1), Some(7200));
        assert_eq!(pause(0, 0, ErrorClass::Network, 0), Some(120));
        assert_eq!(pause(0, 0, ErrorClass::NoSpace, 0), Some(480));
    }

    #[test]
    fn hopeless_errors_fail_at_once() {
        let never = failure(ErrorClass::NotFound, Retry::Never);
        assert_eq!(
            exact().after_failure(&Terms::default(), history(0, 0), &never, NOW),
            Next::Failed
        );
    }

    #[test]
    fn immediate_retries_are_bounded() {
        let now = failure(ErrorClass::Network, Retry::Now);
        let after = |free| exact().after_failure(&Terms::default(), history(0, free), &now, NOW);
        let immediate = |free_retries| Next::Queued {
            work: Work::Copy,
            not_before: NOW,
            failures: 0,
            free_retries,
            resume: true,
        };
        assert_eq!([after(0), after(1)], [immediate(1), immediate(2)]);
        assert!(matches!(after(2), Next::Queued { failures: 1, .. }));
    }

    #[test]
    fn losses_are_free_but_bounded() {
        let after = |free| exact().after_loss(&Terms::default(), history(0, free), NOW);
        assert!(matches!(
            after(0),
            Next::Queued {
                failures: 0,
                free_retries: 1,
                resume: true,
                ..
            }
        ));
        assert!(matches!(
            after(8),
            Next::Queued {
                failures: 1,
                free_retries: 8,
                resume: true,
                ..
            }
        ));
    }

    #[test]
    fn an_issuer_that_does_not_answer_costs_no_retries() {
        // An hour without tokens would fail everything that waits for one.
        let mut gone = failure(ErrorClass::Timeout, Retry::Later);
        gone.party = Party::Issuer;
        let after = |failures| exact().after_failure(&Terms::default(), history(failures, 0), &gone, NOW);
        for failures in [0, 3, 200] {
            let Next::Queued {
                failures: kept,
                not_before,
                ..
            } = after(failures)
            else {
                panic!("{failures}")
            };
            assert_eq!((kept, not_before.since(NOW)), (failures, Duration::from_secs(30)));
        }
        gone.retry = Retry::Never;
        assert_eq!(
            exact().after_failure(&Terms::default(), history(0, 0), &gone, NOW),
            Next::Failed
        );
    }

    #[test]
    fn a_service_that_has_no_place_costs_no_retries() {
        // One user's long copies would fail the others' that wait for the same places.
        let mut busy = failure(ErrorClass::Overload, Retry::Later);
        let after = |busy: &Failure| exact().after_failure(&Terms::default(), history(3, 0), busy, NOW);
        assert_eq!(after(&busy), Next::Failed, "a storage that is busy");
        busy.party = Party::TransferService;
        let next = after(&busy);
        assert!(matches!(next, Next::Queued { failures: 3, .. }), "{next:?}");
        busy.phase = Phase::Preparation;
        assert_eq!(after(&busy), Next::Failed);
        (busy.phase, busy.class) = (Phase::Transfer, ErrorClass::Internal);
        assert_eq!(after(&busy), Next::Failed);
    }

    #[test]
    fn jitter_stays_in_its_range_and_repeats() {
        let policy = RetryPolicy::default();
        let drawn = |attempt| {
            policy.jittered(
                Duration::from_secs(100),
                History {
                    attempt,
                    ..history(0, 0)
                },
            )
        };
        let all: Vec<_> = (0..100).map(drawn).collect();
        assert!(
            all.iter().all(|pause| (100..=125).contains(&pause.as_secs())),
            "{all:?}"
        );
        let (least, most) = (
            all.iter().min().expect("100 of them"),
            all.iter().max().expect("100 of them"),
        );
        assert!(most.saturating_sub(*least) > Duration::from_secs(15));
        assert_eq!(drawn(3), drawn(3));
    }
}
