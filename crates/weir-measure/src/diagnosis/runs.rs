//! Runs of bins with one cause each, where several causes held a link one after the other.

use std::ops::Range;

/// Bins whose missing bits a change of the cause must explain better.
const CHANGE: f64 = 4.0;
/// The fewest bins of a part.
const LEAST_BINS: usize = 3;

/// The runs of bins with one cause each, that leave least unexplained: `bits[bin][cause]` are the bits that a cause explains. Each change
/// costs as much as [`CHANGE`] mean bins (Viterbi, 1967).
pub(super) fn runs(bits: &[Vec<f64>]) -> Vec<(Range<usize>, usize)> {
    let n_causes = bits.first().map_or(0, Vec::len);
    if n_causes == 0 {
        return Vec::new();
    }
    let whole: f64 = bits.iter().flatten().sum();
    let price = CHANGE * whole / bits.len() as f64;
    // The best sum up to each bin with each cause in it, and the cause of the bin before.
    let mut best: Vec<f64> = vec![0.0; n_causes];
    let mut before: Vec<Vec<usize>> = Vec::with_capacity(bits.len());
    for bin in bits {
        let first = largest(&best);
        let of = |cause: usize| {
            let (stay, change) = (best[cause], best[first] - price);
            if stay >= change { (stay, cause) } else { (change, first) }
        };
        let from: Vec<(f64, usize)> = (0..n_causes).map(of).collect();
        before.push(from.iter().map(|(_, cause)| *cause).collect());
        best = from.iter().zip(bin).map(|((sum, _), bits)| sum + bits).collect();
    }
    let mut cause = largest(&best);
    let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
    for at in (0..bits.len()).rev() {
        match runs.last_mut() {
            Some((range, known)) if *known == cause => range.start = at,
            _ => runs.push((at..at + 1, cause)),
        }
        cause = before[at][cause];
    }
    runs.reverse();
    runs.retain(|(range, _)| range.len() >= LEAST_BINS);
    runs
}

/// The first of the largest.
fn largest(sums: &[f64]) -> usize {
    (0..sums.len()).fold(0, |most, at| if sums[at] > sums[most] { at } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bin_of_another_cause_is_no_change() {
        let one = |at: usize| vec![f64::from(u8::from(at == 0)), f64::from(u8::from(at == 1))];
        let bins: Vec<Vec<f64>> = [0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1].into_iter().map(one).collect();
        assert_eq!(runs(&bins), [(0..8, 0), (8..13, 1)]);
        assert_eq!(runs(&[]), []);
    }
}
