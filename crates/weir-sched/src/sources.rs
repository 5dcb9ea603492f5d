//! Which replica to read from.
//!
//! The expected time until a file has arrived, by what was measured on each link: what is queued before it, divided by what
//! the link brings; then the copy itself; both as often as attempts fail. Storage that nobody has tried yet is taken to be as
//! good as the median of those that are known, so that it gets its chance, and is not preferred.

use std::time::Duration;

use serde::Serialize;
use weir_units::{BitRate, Bytes};

use crate::SeId;

/// What one transfer brings before anything was measured anywhere: 50 MB/s.
const GUESS: f64 = 50e6;
/// An attempt that nearly always fails still has some chance.
const HOPE: f64 = 0.02;

/// A replica's storage, and what is known of the link from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Where the replica is.
    pub source: SeId,
    /// What one transfer brings, start-up and failures included.
    pub each: Option<BitRate>,
    /// Part of recent attempts that failed for reasons of the path or the storage, in thousandths.
    pub failing: u32,
    /// What waits already on this link.
    pub queued: Bytes,
    /// How many transfers work on that.
    pub slots: u32,
}

/// A replica's storage, and when a file is expected from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Where the replica is.
    pub source: SeId,
    /// From now until the file has arrived.
    pub expected: Duration,
}

/// The best source first. Equal ones come in the order of their numbers, so that the order of `candidates` does not matter.
pub fn rank_sources(candidates: &[Candidate], size: Bytes) -> Vec<Choice> {
    let known = |candidate: &Candidate| {
        candidate
            .each
            .map(|each| each.as_f64() / 8.0)
            .filter(|each| *each > 0.0)
    };
    let mut rates: Vec<f64> = candidates.iter().filter_map(known).collect();
    rates.sort_by(f64::total_cmp);
    let usual = rates.get(rates.len() / 2).copied().unwrap_or(GUESS);
    let expected = |candidate: &Candidate| {
        let each = known(candidate).unwrap_or(usual);
        let wait = candidate.queued.as_f64() / (each * f64::from(candidate.slots.max(1)));
        let success = (1.0 - f64::from(candidate.failing.min(1000)) / 1000.0).max(HOPE);
        Duration::from_secs_f64(((wait + size.as_f64() / each) / success).min(1e9))
    };
    let mut choices: Vec<Choice> = candidates
        .iter()
        .map(|candidate| Choice {
            source: candidate.source,
            expected: expected(candidate),
        })
        .collect();
    choices.sort_by_key(|choice| (choice.expected, choice.source));
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(source: u32, mb_per_second: Option<u64>, failing: u32, queued_gb: u64) -> Candidate {
        Candidate {
            source: SeId(source),
            each: mb_per_second.map(|rate| BitRate(rate * 8_000_000)),
            failing,
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
        // A choice by name or by distance alone sends everybody to the source that is down.
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
}
