//! Chooses the copies that are tried, where a plan needs more of them than can be.

use std::collections::{BTreeMap, BTreeSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use weir_model::Link;
use weir_plan::{Mode, Plan, Workload};

use crate::services::storage::StorageDoor;

/// A copy between two doors, in a mode or in the one that the transfer service chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copy {
    pub(crate) source: usize,
    pub(crate) destination: usize,
    pub(crate) mode: Option<Mode>,
}

/// A sample of the plan's copies with an external storage at one end, and the number of those left out. Drawn from the
/// plan's seed, so that each such storage is source and destination at least once where it is in the plan.
pub(crate) fn copies(plan: &Plan, doors: &[StorageDoor], most: usize) -> (Vec<Copy>, usize) {
    let numbers: BTreeMap<&str, usize> = doors
        .iter()
        .enumerate()
        .map(|(at, door)| (door.name.as_str(), at))
        .collect();
    // A transfer service that runs elsewhere has to reach the grid's own storages, too.
    let is_served_elsewhere = plan.grid.transfer_service.is_some();
    let mut all: BTreeSet<Copy> = BTreeSet::new();
    let mut add = |link: &Link, mode: Option<Mode>| {
        let ends = (
            numbers.get(link.source.as_str()),
            numbers.get(link.destination.as_str()),
        );
        if let (Some(&source), Some(&destination)) = ends
            && (is_served_elsewhere || !(doors[source].embedded && doors[destination].embedded))
        {
            all.insert(Copy {
                source,
                destination,
                mode,
            });
        }
    };
    for workload in &plan.workloads {
        match workload {
            Workload::Rates(rates) => rates.links.iter().for_each(|rated| add(&rated.link, None)),
            Workload::Matrix(steps) | Workload::Ramp(steps) => {
                let cells = steps.steps.iter().flat_map(|step| &step.cells);
                cells.for_each(|cell| add(&cell.link, cell.mode));
            }
        }
    }
    let mut all: Vec<Copy> = all.into_iter().collect();
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    for last in (1..all.len()).rev() {
        all.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    // Copies that bring a storage in a new role come first.
    let mut seen = BTreeSet::new();
    let mut is_new = |copy: &Copy| {
        let source = seen.insert((copy.source, false, copy.mode));
        let destination = seen.insert((copy.destination, true, copy.mode));
        source || destination
    };
    let (mut chosen, rest): (Vec<Copy>, Vec<Copy>) = all.into_iter().partition(|copy| is_new(copy));
    chosen.extend(rest);
    let left_out = chosen.len().saturating_sub(most);
    chosen.truncate(most);
    chosen.sort();
    (chosen, left_out)
}

/// The space that the plan needs at each door, in bytes.
pub(crate) fn needs(plan: &Plan, doors: &[StorageDoor]) -> Vec<u64> {
    let needs: BTreeMap<String, u64> = plan
        .summary()
        .rses
        .iter()
        .map(|need| (need.rse.to_string(), need.sources.0 + need.arriving.0))
        .collect();
    doors
        .iter()
        .map(|door| needs.get(&door.name).copied().unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]
    use weir_plan::{Challenge, Overrides};

    use super::*;
    use crate::execute::engine::tests::door;

    /// Every pair of ten storages, the first two of which start with the grid.
    fn all_pairs(seed: u64) -> (Plan, Vec<StorageDoor>) {
        let names: Vec<String> = (0..10).map(|number| format!("S{number}")).collect();
        let rse = |(number, name): (usize, &String)| {
            let url = format!("url = \"https://s{number}.example.org/x\"\n");
            format!(
                "[[grid.rse]]\nname = \"{name}\"\n{}",
                if number < 2 { "" } else { &url }
            )
        };
        let rses: String = names.iter().enumerate().map(rse).collect();
        let pairs = names.iter().flat_map(|one| names.iter().map(move |other| (one, other)));
        let links: Vec<String> = pairs
            .filter(|(one, other)| one != other)
            .map(|(one, other)| format!("\"{one}->{other}\""))
            .collect();
        let links = links.join(", ");
        let text = format!(
            "name = \"c\"\nseed = {seed}\n[grid]\nname = \"g\"\n{rses}[[workload]]\nkind = \"matrix\"\nlinks = [{links}]\n\
             modes = [\"pull\", \"push\"]\nsizes = [\"1 MB\"]\n"
        );
        let challenge = Challenge::parse(&text, "c.toml".as_ref()).unwrap_or_else(|problems| panic!("{}", problems[0]));
        let doors = names.iter().enumerate().map(|(number, name)| StorageDoor {
            embedded: number < 2,
            ..door(name)
        });
        (challenge.resolve(&Overrides::default()).unwrap(), doors.collect())
    }

    #[test]
    fn each_storage_is_tried_in_each_role_and_mode() {
        // Wrong: an unreadable storage is not noticed, because its links were not drawn.
        for seed in 0..20 {
            let (plan, doors) = all_pairs(seed);
            let (chosen, left_out) = copies(&plan, &doors, 40);
            assert_eq!((chosen.len(), left_out), (40, 2 * (90 - 2) - 40));
            for number in 2..10 {
                for mode in [Mode::Pull, Mode::Push] {
                    let is = |copy: &&Copy| copy.mode == Some(mode);
                    let there = |pick: fn(&Copy) -> usize| chosen.iter().filter(is).any(|copy| pick(copy) == number);
                    assert!(
                        there(|copy| copy.source) && there(|copy| copy.destination),
                        "{number} {mode:?}"
                    );
                }
            }
            assert!(
                chosen.iter().all(|copy| copy.source > 1 || copy.destination > 1),
                "between embedded storages"
            );
            assert_eq!(copies(&plan, &doors, 40).0, chosen, "the seed decides");
        }
    }
}
