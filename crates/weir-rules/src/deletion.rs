//! Choice of the replicas of an RSE to delete.
//!
//! A replica that no lock holds has a tombstone: the time from which it may go. Until room is needed it stays, as a cached copy.

use weir_units::{Bytes, Timestamp};

use crate::ids::DidId;

/// A tombstone of this time marks a replica that is of no use any more, such as one of a purged rule: it goes even where room is plenty.
pub const OBSOLETE: Timestamp = Timestamp(0);

/// A replica that might be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// The file.
    pub file: DidId,
    /// Its size.
    pub bytes: Bytes,
    /// From when on it may go; `None`: it may not.
    pub tombstone: Option<Timestamp>,
    /// Locks that hold it.
    pub n_locks: u64,
    /// Whether a transfer that has not ended reads it.
    pub is_source: bool,
}

/// How much an RSE is to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// All that may go.
    Greedy,
    /// As much as is needed for this room to be free; and all that is obsolete.
    Free {
        /// The room that is free now.
        free: Bytes,
        /// The room that is to be free.
        wanted: Bytes,
    },
    /// Obsolete replicas only: the free room of the RSE is not known.
    ObsoleteOnly,
}

/// Chooses at most `limit` replicas, oldest tombstone first; gives their places in `replicas`, which may be in any order.
pub fn choose(replicas: &[Replica], goal: Goal, now: Timestamp, limit: usize) -> Vec<usize> {
    let may_go = |replica: &Replica| {
        replica.n_locks == 0 && !replica.is_source && replica.tombstone.is_some_and(|tombstone| tombstone <= now)
    };
    let mut open = (0..replicas.len())
        .filter(|at| may_go(&replicas[*at]))
        .collect::<Vec<_>>();
    open.sort_by_key(|at| (replicas[*at].tombstone, replicas[*at].file));
    let mut needed = match goal {
        Goal::Greedy => u64::MAX,
        Goal::Free { free, wanted } => wanted.0.saturating_sub(free.0),
        Goal::ObsoleteOnly => 0,
    };
    let mut chosen = Vec::new();
    for at in open {
        let is_obsolete = replicas[at].tombstone == Some(OBSOLETE);
        if chosen.len() == limit || !(is_obsolete || needed > 0) {
            break;
        }
        needed = needed.saturating_sub(replicas[at].bytes.0);
        chosen.push(at);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn replica(file: u64, bytes: u64, tombstone: Option<u64>) -> Replica {
        Replica {
            file: DidId(file),
            bytes: Bytes(bytes),
            tombstone: tombstone.map(Timestamp),
            n_locks: 0,
            is_source: false,
        }
    }

    const NOW: Timestamp = Timestamp(100);

    #[test]
    fn the_oldest_go_until_there_is_room() {
        let replicas = [
            replica(1, 10, Some(50)),
            replica(2, 10, Some(20)),
            replica(3, 10, Some(101)),
            replica(4, 10, None),
            replica(5, 10, Some(0)),
            Replica {
                n_locks: 1,
                ..replica(6, 10, Some(1))
            },
            Replica {
                is_source: true,
                ..replica(7, 10, Some(1))
            },
        ];
        let choose = |goal, limit| choose(&replicas, goal, NOW, limit);
        assert_eq!(choose(Goal::Greedy, 10), [4, 1, 0]);
        assert_eq!(choose(Goal::Greedy, 2), [4, 1]);
        assert_eq!(choose(Goal::ObsoleteOnly, 10), [4]);
        let free = |free| Goal::Free {
            free: Bytes(free),
            wanted: Bytes(30),
        };
        assert_eq!(choose(free(30), 10), [4]);
        assert_eq!(choose(free(19), 10), [4, 1]);
        assert_eq!(choose(free(0), 10), [4, 1, 0]);
    }

    proptest! {
        /// Locked replicas and sources of transfers stay, and no more is deleted than needed.
        #[test]
        fn no_replica_in_use_goes(
            rows in prop::collection::vec((0..20_u64, prop::option::of(0..150_u64), 0..2_u64, any::<bool>()), 0..20),
            wanted in 0..100_u64,
            limit in 0..10_usize,
        ) {
            let row = |(at, (bytes, tombstone, n_locks, is_source)): (usize, &(u64, Option<u64>, u64, bool))| Replica {
                n_locks: *n_locks,
                is_source: *is_source,
                ..replica(at as u64, *bytes, *tombstone)
            };
            let replicas = rows.iter().enumerate().map(row).collect::<Vec<_>>();
            let goal = Goal::Free { free: Bytes(0), wanted: Bytes(wanted) };
            let chosen = choose(&replicas, goal, NOW, limit);
            prop_assert!(chosen.len() <= limit);
            for at in &chosen {
                let replica = &replicas[*at];
                prop_assert!(replica.n_locks == 0 && !replica.is_source && replica.tombstone.is_some_and(|tombstone| tombstone <= NOW));
            }
            if let Some((last, before)) = chosen.split_last() {
                let freed = before.iter().map(|at| replicas[*at].bytes.0).sum::<u64>();
                prop_assert!(freed < wanted || replicas[*last].tombstone == Some(OBSOLETE));
            }
        }
    }
}
