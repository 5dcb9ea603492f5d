//! Re-evaluation of a rule after a change of its content. The catalogue asks its database for the same difference, part by part.

use crate::ids::{DidId, RseId};

/// The difference between the locks that a rule has and the locks that it should have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Locks to make, in order.
    pub missing: Vec<(DidId, RseId)>,
    /// Locks to release, in order.
    pub surplus: Vec<(DidId, RseId)>,
}

/// Compares a part of a rule's content with its locks. `files` and `rses` are the wanted locks: every file at every RSE. All three are
/// sorted and without duplicates.
pub fn difference(files: &[DidId], rses: &[RseId], locks: &[(DidId, RseId)]) -> Difference {
    let mut difference = Difference::default();
    let mut wanted = files
        .iter()
        .flat_map(|file| rses.iter().map(move |rse| (*file, *rse)))
        .peekable();
    let mut held = locks.iter().copied().peekable();
    while let Some(next) = wanted.peek().copied().into_iter().chain(held.peek().copied()).min() {
        match (wanted.next_if_eq(&next), held.next_if_eq(&next)) {
            (Some(missing), None) => difference.missing.push(missing),
            (None, Some(surplus)) => difference.surplus.push(surplus),
            _ => {}
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn missing_and_surplus_files_are_differences_of_sets(
            files in prop::collection::btree_set((0..9_u64).prop_map(DidId), 0..6),
            rses in prop::collection::btree_set((0..4_u32).prop_map(RseId), 0..3),
            locks in prop::collection::btree_set(((0..9_u64).prop_map(DidId), (0..4_u32).prop_map(RseId)), 0..12),
        ) {
            let wanted = files.iter().flat_map(|file| rses.iter().map(|rse| (*file, *rse))).collect::<BTreeSet<_>>();
            let files = files.into_iter().collect::<Vec<_>>();
            let rses = rses.into_iter().collect::<Vec<_>>();
            let held = locks.iter().copied().collect::<Vec<_>>();
            let found = difference(&files, &rses, &held);
            prop_assert_eq!(found.missing, wanted.difference(&locks).copied().collect::<Vec<_>>());
            prop_assert_eq!(found.surplus, locks.difference(&wanted).copied().collect::<Vec<_>>());
        }
    }
}
