#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const HERE: RseId = RseId(9);

fn source(rse: u32) -> Source {
    Source {
        rse: RseId(rse),
        readable: true,
        wanted: true,
        shares_scheme: true,
        tape: false,
        ranking: 0,
        failing: 0,
    }
}

fn links(all: &[(u32, u32, u32)]) -> Links {
    let mut links = Links::default();
    for (from, to, distance) in all {
        links.set(RseId(*from), RseId(*to), *distance);
    }
    links
}

fn order(ranking: &Ranking) -> Vec<u32> {
    ranking.sources.iter().map(|one| one.rse.0).collect()
}

#[test]
fn the_best_source_comes_first() {
    let links = links(&[(1, 9, 2), (2, 9, 1), (3, 9, 1), (4, 9, 1), (5, 9, 1)]);
    let mut all = [source(1), source(2), source(3), source(4), source(5)];
    all[1].ranking = -1;
    all[2].tape = true;
    all[3].failing = 100;
    assert_eq!(order(&rank(&all, &links.to(HERE), true)), [5, 4, 1, 3, 2]);
    let ranking = rank(&all, &links.to(HERE), false);
    assert_eq!(
        (order(&ranking), ranking.excluded),
        (vec![5, 4, 1, 2], vec![(RseId(3), Excluded::Tape)])
    );
}

#[test]
fn an_impossible_source_says_why() {
    let links = links(&[(1, 9, 1), (2, 9, 1), (3, 9, 1)]);
    let mut all = [source(1), source(2), source(3), source(4), source(9)];
    (all[0].readable, all[1].wanted, all[2].shares_scheme) = (false, false, false);
    let ranking = rank(&all, &links.to(HERE), true);
    let why = ranking.excluded.iter().map(|(_, why)| *why).collect::<Vec<_>>();
    use Excluded::{Destination, Distance, Scheme, Unreadable, Unwanted};
    assert_eq!(why, [Unreadable, Unwanted, Scheme, Distance, Destination]);
    assert_eq!(ranking.refusal(), Some(RequestState::NoSources));

    let refusal = |source: Source| rank(&[source], &links.to(HERE), false).refusal();
    assert_eq!(refusal(source(1)), None);
    assert_eq!(
        refusal(Source {
            tape: true,
            ..source(1)
        }),
        Some(RequestState::OnlyTapeSources)
    );
    assert_eq!(
        refusal(Source {
            shares_scheme: false,
            ..source(1)
        }),
        Some(RequestState::MismatchScheme)
    );
    assert_eq!(
        rank(&[], &links.to(HERE), true).refusal(),
        Some(RequestState::NoSources)
    );
}

#[test]
fn files_hop_where_no_link_leads() {
    let mut links = links(&[(1, 2, 1), (2, 9, 1), (1, 3, 1), (3, 9, 1), (4, 9, 50), (4, 2, 1)]);
    assert_eq!(links.to(HERE).from(RseId(1)), None);
    links.allow_hop(RseId(2), 10);
    links.allow_hop(RseId(3), 5);
    let hops = |rse, hops: &[u32], distance| {
        let route = links.to(HERE).from(RseId(rse)).unwrap();
        let expected = hops.iter().map(|rse| RseId(*rse)).collect::<Vec<_>>();
        assert_eq!((route.hops, route.distance), (expected, distance));
    };
    hops(1, &[3], 7);
    // A direct link, however far, needs no storage of a third site.
    hops(4, &[], 50);
}

/// The cheapest of all ways without a circle.
fn reference(links: &Links, from: RseId, seen: &BTreeSet<RseId>) -> Option<u64> {
    let next = |to: &RseId| {
        let distance = u64::from(*links.distances(*to)?.get(&from)?);
        if *to == HERE {
            return Some(distance);
        }
        let penalty = u64::from(*links.penalty(*to)?);
        let mut seen = seen.clone();
        if !seen.insert(*to) {
            return None;
        }
        Some(distance + penalty + reference(links, *to, &seen)?)
    };
    let all = (0..5).map(RseId).chain([HERE]).collect::<Vec<_>>();
    all.iter().filter_map(next).min()
}

proptest! {
    #[test]
    fn ways_over_hops_are_the_shortest(
        all in prop::collection::btree_map((0..5_u32, prop::sample::select(vec![0_u32, 1, 2, 3, 4, 9])), 0..9_u32, 0..16),
        hops in prop::collection::btree_map(0..5_u32, 0..5_u32, 0..4),
    ) {
        let mut links = Links::default();
        for ((from, to), distance) in all.iter().filter(|((from, to), _)| from != to) {
            links.set(RseId(*from), RseId(*to), *distance);
        }
        for (rse, penalty) in hops {
            links.allow_hop(RseId(rse), penalty);
        }
        for from in (0..5).map(RseId) {
            let found = links.to(HERE).from(from);
            let direct = links.distances(HERE).and_then(|into| into.get(&from)).map(|distance| u64::from(*distance));
            let expected = direct.or_else(|| reference(&links, from, &BTreeSet::from([from])));
            prop_assert_eq!(found.map(|route| route.distance), expected);
        }
    }
}
