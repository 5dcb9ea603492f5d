//! When a link missed bits: the stretches of its bins with the largest sums.
//!
//! Each bin has a score: the bits that it missed, less a part of those asked. The stretches are all maximal scoring subsequences (Ruzzo and
//! Tompa, 1999): no bin can be added to one, or taken from it, without a loss. So a catch-up ends a stretch, and a single good bin does
//! not. The result depends on nothing that is drawn.

use std::ops::Range;

use super::view::{Link, View};

/// The part of its asked bits that a link may miss.
const FELT: f64 = 0.05;
/// Files whose bits the score of a stretch must exceed: a file more or less in a bin is no cause.
const FILES: f64 = 2.5;
/// Bins of asked bits that the score must reach.
const LEAST: f64 = 0.3;
/// The fewest bins.
const LEAST_BINS: usize = 2;

/// A stretch in which a link missed bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stretch {
    /// The number of the link.
    pub(super) link: usize,
    pub(super) bins: Range<usize>,
    /// Bits that were missing.
    pub(super) missing: f64,
}

/// The stretches of all links, in the order of the links.
pub(super) fn stretches(view: &View<'_>) -> Vec<Stretch> {
    let of = |(number, link): (usize, &Link<'_>)| {
        let asked = link.sum(view.hold.clone()).asked / view.hold.len().max(1) as f64;
        let scores: Vec<f64> = link
            .bits
            .get(view.hold.clone())
            .unwrap_or_default()
            .iter()
            .map(|bits| bits.asked * (1.0 - FELT) - bits.achieved)
            .collect();
        let first = view.hold.start;
        let least = (FILES * link.file).max(LEAST * asked);
        let mut found: Vec<Stretch> = Vec::new();
        for (bins, score) in maximal(&scores) {
            let bins = first + bins.start..first + bins.end;
            let sum = link.sum(bins.clone());
            let missing = sum.asked - sum.achieved;
            if asked > 0.0 && score >= least && bins.len() >= LEAST_BINS && missing >= FELT * sum.asked {
                found.push(Stretch {
                    link: number,
                    bins,
                    missing,
                });
            }
        }
        found
    };
    view.links.iter().enumerate().flat_map(of).collect()
}

/// All maximal scoring subsequences, in order, with their scores.
pub(super) fn maximal(scores: &[f64]) -> Vec<(Range<usize>, f64)> {
    // Of each candidate: its bins, and the sums of all scores before and up to its end.
    let mut list: Vec<(Range<usize>, f64, f64)> = Vec::new();
    let mut sum = 0.0;
    for (at, score) in scores.iter().enumerate() {
        let before = sum;
        sum += score;
        if *score <= 0.0 {
            continue;
        }
        let mut new = (at..at + 1, before, sum);
        loop {
            let below = list.iter().rposition(|other| other.1 < new.1);
            match below {
                Some(at) if list[at].2 < new.2 => {
                    new = (list[at].0.start..new.0.end, list[at].1, new.2);
                    list.truncate(at);
                }
                _ => break,
            }
        }
        list.push(new);
    }
    list.into_iter()
        .map(|(bins, left, right)| (bins, right - left))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_catch_up_ends_a_stretch_and_a_single_good_bin_does_not() {
        let found = maximal(&[-1.0, 4.0, 3.0, -2.0, 5.0, -9.0, 2.0]);
        assert_eq!(found, [(1..5, 10.0), (6..7, 2.0)]);
        // The example of Ruzzo and Tompa (1999), figure 1.
        let scores = [4.0, -5.0, 3.0, -3.0, 1.0, 2.0, -2.0, 2.0, -2.0, 1.0, 5.0];
        let found: Vec<_> = maximal(&scores).into_iter().map(|(bins, _)| bins).collect();
        assert_eq!(found, [0..1, 2..3, 4..11]);
    }

    proptest! {
        /// A stretch could be made better by adding a bin or leaving one out.
        #[test]
        fn no_stretch_can_be_bettered(scores in proptest::collection::vec(-9_i8..9, 0..40)) {
            let scores: Vec<f64> = scores.into_iter().map(f64::from).collect();
            let found = maximal(&scores);
            prop_assert!(found.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
            for (bins, sum) in &found {
                let part = |range: Range<usize>| scores[range].iter().sum::<f64>();
                prop_assert!((part(bins.clone()) - sum).abs() < 1e-9);
                for cut in bins.start + 1..bins.end {
                    prop_assert!(part(bins.start..cut) > 0.0 && part(cut..bins.end) > 0.0);
                }
            }
            let best = (0..scores.len()).flat_map(|from| (from + 1..=scores.len()).map(move |to| (from, to)));
            let best = best.map(|(from, to)| scores[from..to].iter().sum::<f64>()).fold(0.0, f64::max);
            let most = found.iter().map(|(_, sum)| *sum).fold(0.0, f64::max);
            prop_assert!((best - most).abs() < 1e-9);
        }
    }
}
