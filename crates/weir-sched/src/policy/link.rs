//! Links: their queues, their slots, and where they wait.

use std::collections::VecDeque;

use super::LEVELS;
use super::list::{List, NIL, Nodes};
use crate::stats::Counts;
use crate::{Decision, Link};

/// Decisions kept per link.
const DECISIONS_KEPT: usize = 8;

/// Where a link waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing is queued.
    Idle,
    /// At its own limit: it comes back when one of its transfers ends.
    Full,
    /// In the list of a gate, at a level.
    At { gate: u32, level: usize },
}

/// One link.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub(crate) link: Link,
    /// Gates that it passes.
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) limit: u32,
    pub(crate) active: u32,
    /// Its transfers that could start, by level.
    pub(crate) queues: [List; LEVELS],
    pub(crate) place: Place,
    neighbours: [u32; 2],
    /// Turns in a row that came to nothing because the other end was full.
    pub(crate) misses: u32,
    /// It holds a slot of its destination while it waits for its source.
    pub(crate) reserved: bool,
    pub(crate) counts: Counts,
    pub(crate) decisions: VecDeque<Decision>,
}

impl LinkState {
    pub(crate) fn new(link: Link, source: u32, destination: u32, limit: u32) -> Self {
        Self {
            link,
            source,
            destination,
            limit,
            active: 0,
            queues: [List::default(); LEVELS],
            place: Place::Idle,
            neighbours: [NIL; 2],
            misses: 0,
            reserved: false,
            counts: Counts::default(),
            decisions: VecDeque::new(),
        }
    }

    /// The level of its first transfer.
    pub(crate) fn first_level(&self) -> Option<usize> {
        self.queues.iter().position(|queue| !queue.is_empty())
    }

    /// Notes a decision. Waiting again for the same cause is not news.
    pub(crate) fn note(&mut self, decision: Decision) {
        let same = |last: &Decision| last.transfer == decision.transfer && last.verdict == decision.verdict;
        if self.decisions.back().is_some_and(same) {
            return;
        }
        if self.decisions.len() == DECISIONS_KEPT {
            self.decisions.pop_front();
        }
        self.decisions.push_back(decision);
    }
}

/// All links, as nodes of the gates' lists.
#[derive(Debug, Default)]
pub(crate) struct Links(pub(crate) Vec<LinkState>);

impl Nodes for Links {
    fn previous(&mut self, node: u32) -> &mut u32 {
        &mut self.0[node as usize].neighbours[0]
    }

    fn next(&mut self, node: u32) -> &mut u32 {
        &mut self.0[node as usize].neighbours[1]
    }
}

impl std::ops::Index<u32> for Links {
    type Output = LinkState;
    fn index(&self, number: u32) -> &LinkState {
        &self.0[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Links {
    fn index_mut(&mut self, number: u32) -> &mut LinkState {
        &mut self.0[number as usize]
    }
}
