//! Start times of links: spread over the cycle, so that the total injection is even.
//!
//! Start times drawn at random bunch: of thirty links, two or three meet in most tenths of a cycle, and none in some. Here each link gets a
//! share of the cycle proportional to its bytes in it, in an order that keeps the links into one RSE apart. Any stretch of the cycle then
//! brings about the same bytes, in total and into each RSE.

use std::collections::BTreeMap;

use rand_chacha::rand_core::RngCore;

use crate::plan::RatedLink;
use crate::seed::stream;

/// Fractional part of the golden ratio in parts of 2⁶⁴: multiples of it fill a circle as evenly as multiples of one number can (Weyl).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The places of a link, in parts of 2⁶⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// In the cycle.
    pub(super) cycle: u64,
    /// Of its first file within the size of a file.
    pub(super) file: u64,
}

/// Gives each link its places. The seed turns all of them by one angle.
pub(super) fn places(links: &[RatedLink], seed: u64) -> Vec<Place> {
    let mut drawn = stream(seed, "places");
    let (cycle_turn, file_turn) = (drawn.next_u64(), drawn.next_u64());
    let total: u128 = links.iter().map(|rated| u128::from(rated.rate.0)).sum();
    let mut places = vec![Place { cycle: 0, file: 0 }; links.len()];
    let mut before: u128 = 0;
    for (number, at) in order(links).into_iter().enumerate() {
        let middle = before * 2 + u128::from(links[at].rate.0);
        before += u128::from(links[at].rate.0);
        // Middle of its share ÷ (2 × total), in parts of 2⁶⁴; rates are below 2⁵⁰, sums of a million of them below 2⁷⁰.
        let share = (middle << 56) / (total * 2).max(1);
        places[at] = Place {
            cycle: cycle_turn.wrapping_add((share as u64) << 8),
            file: file_turn.wrapping_add(GOLDEN.wrapping_mul(number as u64)),
        };
    }
    places
}

/// The links in rounds: the fastest into each RSE, then the second of each, and so on.
fn order(links: &[RatedLink]) -> Vec<usize> {
    let mut into: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, rated) in links.iter().enumerate() {
        into.entry(&rated.link.destination).or_default().push(at);
    }
    let mut rounds: Vec<(usize, usize, usize)> = Vec::with_capacity(links.len());
    for (number, mut own) in into.into_values().enumerate() {
        own.sort_by_key(|at| (std::cmp::Reverse(links[*at].rate), *at));
        rounds.extend(own.into_iter().enumerate().map(|(round, at)| (round, number, at)));
    }
    rounds.sort_unstable();
    rounds.into_iter().map(|(.., at)| at).collect()
}

#[cfg(test)]
mod tests {
    use weir_model::{Link, RseName};
    use weir_units::{BitRate, Bytes};

    use super::*;

    fn links(rates: impl IntoIterator<Item = (usize, u64)>) -> Vec<RatedLink> {
        let name = |text: String| RseName::new(&text).expect("a name");
        let link = |(at, (to, rate)): (usize, (usize, u64))| RatedLink {
            link: Link {
                source: name(format!("S{at}")),
                destination: name(format!("D{to}")),
            },
            rate: BitRate(rate),
            volume: Bytes(rate),
            file_size: Bytes(1_000),
            n_files: 1,
            source_files: 2,
        };
        rates.into_iter().enumerate().map(link).collect()
    }

    /// Bits of the links that start in each tenth of the cycle.
    fn tenths(links: &[RatedLink], seed: u64, is_one: impl Fn(&RatedLink) -> bool) -> [u64; 10] {
        let mut bits = [0; 10];
        for (rated, place) in links.iter().zip(places(links, seed)) {
            if is_one(rated) {
                bits[((u128::from(place.cycle) * 10) >> 64) as usize] += rated.rate.0;
            }
        }
        bits
    }

    #[test]
    fn each_part_of_a_cycle_brings_the_same_bytes() {
        // Wrong: links meet, so that a site gets a burst and then nothing, as with the comb of fifteen minutes in 2024.
        let links = links((0..600).map(|at| (at % 6, 100 + (at as u64 * 37) % 400)));
        for seed in 0..20 {
            let total: u64 = links.iter().map(|rated| rated.rate.0).sum();
            for bits in tenths(&links, seed, |_| true) {
                assert!(bits.abs_diff(total / 10) * 20 < total / 10, "{bits} of {total}");
            }
            let into = |rated: &RatedLink| rated.link.destination.as_str() == "D3";
            let own: u64 = links.iter().filter(|rated| into(rated)).map(|rated| rated.rate.0).sum();
            for bits in tenths(&links, seed, into) {
                assert!(bits.abs_diff(own / 10) * 5 < own / 10, "{bits} of {own}");
            }
        }
    }

    #[test]
    fn the_seed_turns_places_and_keeps_them_apart() {
        // Wrong: every run meets the same moments, or two links have one place.
        let links = links((0..30).map(|at| (at % 6, 1_000)));
        let (one, other) = (places(&links, 1), places(&links, 2));
        assert_ne!(one, other);
        let mut cycles: Vec<u64> = one.iter().map(|place| place.cycle).collect();
        cycles.sort_unstable();
        let least = cycles.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(least.is_some_and(|least| least > u64::MAX / 31), "{least:?}");
        let mut files: Vec<u64> = one.iter().map(|place| place.file).collect();
        files.sort_unstable();
        let most = files.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(most.is_some_and(|most| most < u64::MAX / 10), "{most:?}");
    }
}
