//! Ways between RSEs: direct links, and hops where there is none.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use crate::ids::RseId;

/// Intermediate RSEs of one way, at most.
const HOPS_MAX: usize = 4;

/// The distances between RSEs, and the RSEs over which files may hop.
#[derive(Debug, Clone, Default)]
pub struct Links {
    /// Of each RSE, those from which a link leads to it, with the distance.
    into: BTreeMap<RseId, BTreeMap<RseId, u32>>,
    /// With the penalty of a hop.
    hops: BTreeMap<RseId, u32>,
}

/// The way of a file from a source to its destination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Intermediate RSEs in order; empty for a direct link.
    pub hops: Vec<RseId>,
    /// The sum of the distances and of the hops' penalties.
    pub distance: u64,
}

/// The ways to one destination.
#[derive(Debug)]
pub struct Ways<'a> {
    links: &'a Links,
    destination: RseId,
    /// Of each RSE that has one: the cost of its way over hops, the next RSE, and the number of RSEs in between.
    over: BTreeMap<RseId, (u64, RseId, usize)>,
}

impl Links {
    /// Sets the distance of a link.
    pub fn set(&mut self, source: RseId, destination: RseId, distance: u32) {
        self.into.entry(destination).or_default().insert(source, distance);
    }

    /// Lets files hop over an RSE, which counts as this much distance.
    pub fn allow_hop(&mut self, rse: RseId, penalty: u32) {
        self.hops.insert(rse, penalty);
    }

    /// The distances of the links that lead to an RSE, by their sources.
    pub fn distances(&self, destination: RseId) -> Option<&BTreeMap<RseId, u32>> {
        self.into.get(&destination)
    }

    /// The penalty of a hop over an RSE, if files may hop there.
    pub fn penalty(&self, rse: RseId) -> Option<&u32> {
        self.hops.get(&rse)
    }

    /// The ways to a destination: Dijkstra's algorithm, from the destination over the RSEs that files may hop over.
    pub fn to(&self, destination: RseId) -> Ways<'_> {
        let mut over = BTreeMap::new();
        let mut open = BinaryHeap::from([Reverse((0_u64, 0_usize, destination))]);
        let mut done = std::collections::BTreeSet::new();
        while let Some(Reverse((cost, n_hops, at))) = open.pop() {
            if !done.insert(at) {
                continue;
            }
            // From `at` one goes back only if files may hop over it.
            let penalty = match self.hops.get(&at) {
                _ if at == destination => 0,
                Some(penalty) if n_hops < HOPS_MAX => u64::from(*penalty),
                _ => continue,
            };
            let n_between = if at == destination { 0 } else { n_hops + 1 };
            for (from, distance) in self.into.get(&at).into_iter().flatten() {
                let cost = cost + penalty + u64::from(*distance);
                let known = over
                    .get(from)
                    .is_none_or(|(known, _, n): &(u64, RseId, usize)| (cost, n_between) < (*known, *n));
                if known && *from != destination {
                    over.insert(*from, (cost, at, n_between));
                    open.push(Reverse((cost, n_between, *from)));
                }
            }
        }
        Ways {
            links: self,
            destination,
            over,
        }
    }
}

impl Ways<'_> {
    /// The destination.
    pub fn destination(&self) -> RseId {
        self.destination
    }

    /// The way from a source: its direct link, however far, or the shortest way over hops.
    pub fn from(&self, source: RseId) -> Option<Route> {
        let direct = self
            .links
            .into
            .get(&self.destination)
            .and_then(|into| into.get(&source));
        if let Some(distance) = direct {
            return Some(Route {
                hops: Vec::new(),
                distance: u64::from(*distance),
            });
        }
        let (distance, mut next, _) = *self.over.get(&source)?;
        let mut hops = Vec::new();
        while next != self.destination {
            hops.push(next);
            next = self.over.get(&next)?.1;
        }
        Some(Route { hops, distance })
    }
}
