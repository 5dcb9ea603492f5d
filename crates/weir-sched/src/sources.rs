//! Choice of the replica to read from.
//!
//! The cost is the expected time until a file has arrived, by the measurements on each link: the queue before it
//! divided by the link's rate, then the copy itself. Both are multiplied by the expected number of attempts. A storage
//! without measurements is assumed to be as good as the median of the others: it gets its chance, and is not preferred.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_units::{BitRate, Bytes};

use crate::SeId;

/// Throughput of one transfer before any measurement: 50 MB/s.
const GUESS: f64 = 50e6;
/// An attempt that nearly always fails still has some chance.
const HOPE: f64 = 0.02;

/// How to choose among the sources of a file, with the words and the meaning of FTS3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Where the file is expected to have arrived first: [`rank_sources`].
    #[default]
    Auto,
    /// As the client lists them.
    Orderly,
    /// The fewest files that wait on the link.
    Queue,
    /// The smallest part of recent attempts that failed.
    Success,
    /// The most that the link brings now, all its transfers together.
    Throughput,
    /// The most that one transfer brings.
    FileThroughput,
    /// The fewest bytes that wait on the link.
    PendingData,
    /// The shortest time until the queue of the link is copied.
    WaitingTime,
    /// Waiting time, multiplied by the expected number of attempts.
    WaitingTimeWithError,
    /// Waiting time as above, plus the time of the copy itself.
    Duration,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Auto,
        Self::Orderly,
        Self::Queue,
        Self::Success,
        Self::Throughput,
        Self::FileThroughput,
        Self::PendingData,
        Self::WaitingTime,
        Self::WaitingTimeWithError,
        Self::Duration,
    ];

    /// The word of FTS3.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Orderly => "orderly",
            Self::Queue => "queue",
            Self::Success => "success",
            Self::Throughput => "throughput",
            Self::FileThroughput => "file-throughput",
            Self::PendingData => "pending-data",
            Self::WaitingTime => "waiting-time",
            Self::WaitingTimeWithError => "waiting-time-with-error",
            Self::Duration => "duration",
        }
    }

    /// Reads the word of FTS3.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == word)
    }
}

/// A replica's storage, with the measurements of the link from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Where the replica is.
    pub source: SeId,
    /// Throughput of one transfer, start-up and failures included.
    pub each: Option<BitRate>,
    /// Part of recent attempts that failed for reasons of the path or the storage, in thousandths.
    pub failing: u32,
    /// How many files wait already on this link.
    pub waiting: u64,
    /// How much waits there.
    pub queued: Bytes,
    /// How many transfers work on that.
    pub slots: u32,
    /// How many do so now.
    pub active: u64,
}

impl Candidate {
    /// Throughput of one transfer, in bytes per second, if measured.
    fn known(&self) -> Option<f64> {
        self.each.map(|each| each.as_f64() / 8.0).filter(|each| *each > 0.0)
    }

    /// Seconds until the queue is copied.
    fn wait(&self, each: f64) -> f64 {
        self.queued.as_f64() / (each * f64::from(self.slots.max(1)))
    }

    /// Part of attempts that succeed, with some hope left.
    fn success(&self) -> f64 {
        (1.0 - f64::from(self.failing.min(1000)) / 1000.0).max(HOPE)
    }
}

/// A replica's storage, and when a file is expected from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Where the replica is.
    pub source: SeId,
    /// From now until the file has arrived.
    pub expected: Duration,
}

/// Assumed throughput of one transfer on a link without measurements: the median of the others.
fn usual(candidates: &[Candidate]) -> f64 {
    let mut rates: Vec<f64> = candidates.iter().filter_map(Candidate::known).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(GUESS)
}

/// From now until the file has arrived.
fn expected(candidate: &Candidate, size: Bytes, usual: f64) -> Duration {
    let each = candidate.known().unwrap_or(usual);
    let seconds = (candidate.wait(each) + size.as_f64() / each) / candidate.success();
    Duration::from_secs_f64(seconds.min(1e9))
}

/// The best source first. Equal ones come in the order of their numbers, so that the order of `candidates` does not matter.
pub fn rank_sources(candidates: &[Candidate], size: Bytes) -> Vec<Choice> {
    let usual = usual(candidates);
    let mut choices: Vec<Choice> = candidates
        .iter()
        .map(|candidate| Choice {
            source: candidate.source,
            expected: expected(candidate, size, usual),
        })
        .collect();
    choices.sort_by_key(|choice| (choice.expected, choice.source));
    choices
}

/// Places in `candidates`, the best first by this strategy. Equal ones stay in the order in which they are given.
pub fn rank_by(strategy: Strategy, candidates: &[Candidate], size: Bytes) -> Vec<usize> {
    let usual = usual(candidates);
    let price = |candidate: &Candidate| {
        let each = candidate.known().unwrap_or(usual);
        let with_error = candidate.wait(each) / candidate.success();
        match strategy {
            Strategy::Orderly => 0.0,
            Strategy::Auto => expected(candidate, size, usual).as_secs_f64(),
            Strategy::Queue => candidate.waiting as f64,
            Strategy::Success => f64::from(candidate.failing),
            Strategy::Throughput => -each * candidate.active.max(1) as f64,
            Strategy::FileThroughput => -each,
            Strategy::PendingData => candidate.queued.as_f64(),
            Strategy::WaitingTime => candidate.wait(each),
            Strategy::WaitingTimeWithError => with_error,
            Strategy::Duration => with_error + size.as_f64() / each,
        }
    };
    let prices: Vec<f64> = candidates.iter().map(price).collect();
    let mut places: Vec<usize> = (0..candidates.len()).collect();
    places.sort_by(|one, other| prices[*one].total_cmp(&prices[*other]));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(source: u32, mb_per_second: Option<u64>, failing: u32, queued_gb: u64) -> Candidate {
        Candidate {
            source: SeId(source),
            each: mb_per_second.map(|rate| BitRate(rate * 8_000_000)),
            failing,
            waiting: queued_gb,
            active: 0,
            queued: Bytes(queued_gb * 1_000_000_000),
            slots: 10,
        }
    }

    fn order(candidates: &[Candidate]) -> Vec<u32> {
        let ranked = rank_sources(candidates, Bytes(1_000_000_000));
        ranked.iter().map(|choice| choice.source.0).collect()
    }

    #[test]
    fn fast_sources_come_first_unless_they_fail_or_are_busy() {
        // A choice by name or by distance alone sends every transfer to the source that is down.
        let fast = candidate(1, Some(100), 0, 0);
        let slow = candidate(2, Some(20), 0, 0);
        assert_eq!(order(&[slow, fast]), [1, 2]);
        assert_eq!(order(&[candidate(1, Some(100), 950, 0), slow]), [2, 1]);
        assert_eq!(order(&[candidate(1, Some(100), 0, 100), slow]), [2, 1]);
    }

    #[test]
    fn the_unknown_lie_between_the_known() {
        let known = [
            candidate(1, Some(100), 0, 0),
            candidate(3, Some(50), 0, 0),
            candidate(4, Some(10), 0, 0),
        ];
        assert_eq!(
            order(&[known[0], known[1], known[2], candidate(2, None, 0, 0)]),
            [1, 2, 3, 4]
        );
    }

    #[test]
    fn nothing_overflows() {
        // 2^63 bytes from a source that never answered.
        let hopeless = Candidate {
            failing: 1000,
            slots: 0,
            queued: Bytes(u64::MAX),
            ..candidate(1, Some(0), 0, 0)
        };
        let ranked = rank_sources(&[hopeless], Bytes(1 << 63));
        assert_eq!(ranked[0].expected, Duration::from_secs(1_000_000_000));
        assert!(rank_sources(&[], Bytes(1)).is_empty());
    }

    #[test]
    fn each_strategy_looks_at_what_its_name_says() {
        // A strategy that looks at something else sends files where the client did not want them.
        let busy = Candidate {
            waiting: 2,
            active: 9,
            ..candidate(1, Some(100), 100, 60)
        };
        let quiet = Candidate {
            waiting: 5,
            active: 1,
            ..candidate(2, Some(20), 0, 10)
        };
        let failing = Candidate {
            waiting: 9,
            active: 2,
            ..candidate(3, Some(200), 900, 20)
        };
        let first = |strategy| rank_by(strategy, &[busy, quiet, failing], Bytes(1_000_000_000))[0];
        let expected = [
            (Strategy::Orderly, 0),
            (Strategy::Queue, 0),
            (Strategy::Success, 1),
            (Strategy::Throughput, 0),
            (Strategy::FileThroughput, 2),
            (Strategy::PendingData, 1),
            (Strategy::WaitingTime, 2),
            (Strategy::WaitingTimeWithError, 1),
            (Strategy::Auto, 0),
            (Strategy::Duration, 0),
        ];
        for (strategy, place) in expected {
            assert_eq!(first(strategy), place, "{}", strategy.as_str());
        }
    }

    #[test]
    fn equal_sources_keep_the_order_of_the_client() {
        let same = [
            candidate(9, None, 0, 0),
            candidate(3, None, 0, 0),
            candidate(5, None, 0, 0),
        ];
        for strategy in Strategy::ALL {
            assert_eq!(rank_by(strategy, &same, Bytes(1)), [0, 1, 2], "{}", strategy.as_str());
            assert_eq!(Strategy::named(strategy.as_str()), Some(strategy));
        }
    }
}
