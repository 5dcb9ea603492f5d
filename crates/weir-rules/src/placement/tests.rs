#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn candidate(rse: u32) -> Candidate {
    Candidate {
        rse: RseId(rse),
        weight: Weight::ONE,
        quota_left: None,
        room: None,
    }
}

fn candidates(n: u32) -> Vec<Candidate> {
    (0..n).map(candidate).collect()
}

fn unit(bytes: u64, held: &[(u32, u64)]) -> Unit {
    Unit {
        bytes: Bytes(bytes),
        held: held.iter().map(|(rse, bytes)| (RseId(*rse), Bytes(*bytes))).collect(),
    }
}

#[test]
fn holders_come_first_the_fullest_before_the_others() {
    let mut placement = Placement::new(candidates(5), 2, 1).unwrap();
    let chosen = placement.place(&unit(10, &[(4, 3), (2, 10), (1, 5)])).unwrap();
    assert_eq!(chosen, [RseId(2), RseId(1)]);
    let chosen = placement.place(&unit(10, &[(4, 3)])).unwrap();
    assert_eq!(chosen[0], RseId(4));
}

#[test]
fn shares_follow_the_weights() {
    let mut all = candidates(3);
    all[0].weight = Weight::read("2.5").unwrap();
    all[1].weight = Weight::read("0.5").unwrap();
    all[2].weight = Weight::read("0").unwrap();
    let mut placement = Placement::new(all, 1, 7).unwrap();
    let mut n_placed = BTreeMap::new();
    for _ in 0..6000 {
        *n_placed.entry(placement.place(&unit(1, &[])).unwrap()[0]).or_insert(0) += 1;
    }
    assert_eq!(n_placed.len(), 2);
    assert!((4800..5200).contains(&n_placed[&RseId(0)]), "{n_placed:?}");
    // An RSE keeps the files that it holds, whatever its weight.
    assert_eq!(placement.place(&unit(1, &[(2, 1)])).unwrap(), [RseId(2)]);
}

#[test]
fn weights_are_numbers() {
    assert_eq!(Weight::read(" 1 "), Some(Weight::ONE));
    for text in ["", "x", "-1", "NaN", "inf", "1e7"] {
        assert_eq!(Weight::read(text), None, "{text}");
    }
}

#[test]
fn records_of_one_unit_are_not_given_to_the_next() {
    let mut all = candidates(2);
    (all[0].quota_left, all[1].room) = (Some(Bytes(15)), Some(Bytes(10)));
    let mut placement = Placement::new(all, 1, 3).unwrap();
    let mut taken = [placement.place(&unit(10, &[])), placement.place(&unit(10, &[]))].map(|chosen| chosen.unwrap()[0]);
    taken.sort();
    assert_eq!(taken, [RseId(0), RseId(1)]);
    let refused = placement.place(&unit(10, &[])).unwrap_err();
    assert!(matches!(refused, Shortage::Room { fitting: 0, .. }), "{refused}");
    // Files that are already there take no room.
    assert_eq!(placement.place(&unit(10, &[(1, 10)])).unwrap(), [RseId(1)]);
}

#[test]
fn shortages_say_what_is_short() {
    let refused = Placement::new(candidates(1), 2, 0).unwrap_err().to_string();
    let expected = "Target RSE set not sufficient for number of copies. (2 copies requested, RSE set size 1)";
    assert_eq!(refused, expected);
    let mut all = candidates(2);
    all[0].quota_left = Some(Bytes(5));
    let refused = Placement::new(all, 2, 0).unwrap().place(&unit(10, &[])).unwrap_err();
    assert!(
        matches!(
            refused,
            Shortage::Quota {
                fitting: 1,
                found: 2,
                ..
            }
        ),
        "{refused}"
    );
}

fn worlds() -> impl Strategy<Value = (Vec<Candidate>, Vec<Unit>, usize, u64)> {
    let candidate = (
        0..12_u32,
        0..3_u64,
        prop::option::of(0..100_u64),
        prop::option::of(0..100_u64),
    );
    let candidates = prop::collection::vec(candidate, 1..8).prop_map(|all| {
        let all = all.into_iter().map(|(rse, weight, quota, room)| {
            let candidate = Candidate {
                rse: RseId(rse),
                weight: Weight(weight),
                quota_left: quota.map(Bytes),
                room: room.map(Bytes),
            };
            (rse, candidate)
        });
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    });
    let held = prop::collection::btree_map((0..12_u32).prop_map(RseId), (0..30_u64).prop_map(Bytes), 0..4);
    let unit = (0..30_u64, held).prop_map(|(bytes, held)| Unit {
        bytes: Bytes(bytes),
        held: held.into_iter().collect(),
    });
    (candidates, prop::collection::vec(unit, 1..6), 1..4_usize, any::<u64>())
}

proptest! {
    /// Every copy is at an RSE of its own, within quota and room, and nothing is refused that would fit.
    #[test]
    fn placements_keep_every_limit((candidates, units, copies, seed) in worlds()) {
        let Ok(mut placement) = Placement::new(candidates.clone(), copies, seed) else {
            prop_assert!(candidates.len() < copies);
            return Ok(());
        };
        let mut left = candidates.iter().map(|one| (one.rse, one.clone())).collect::<BTreeMap<_, _>>();
        for unit in &units {
            let fits = |one: &&Candidate| {
                let missing = unit.missing_at(one.rse);
                let weighed = one.weight > Weight(0) || unit.held_at(one.rse) > Bytes(0);
                weighed && one.quota_left.is_none_or(|left| left >= unit.bytes) && one.room.is_none_or(|room| room >= missing)
            };
            let fitting = left.values().filter(fits).map(|one| one.rse).collect::<BTreeSet<_>>();
            let Ok(chosen) = placement.place(unit) else {
                prop_assert!(fitting.len() < copies);
                continue;
            };
            prop_assert_eq!(chosen.len(), copies);
            prop_assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), copies);
            prop_assert!(chosen.iter().all(|rse| fitting.contains(rse)));
            for rse in &chosen {
                let (one, missing) = (left.get_mut(rse).unwrap(), unit.missing_at(*rse).0);
                one.quota_left = one.quota_left.map(|left| Bytes(left.0 - unit.bytes.0));
                one.room = one.room.map(|left| Bytes(left.0 - missing));
            }
        }
        let mut again = Placement::new(candidates, copies, seed).unwrap();
        let mut first = Placement::new(again.candidates.clone(), copies, seed).unwrap();
        for unit in &units {
            prop_assert_eq!(again.place(unit), first.place(unit));
        }
    }
}
