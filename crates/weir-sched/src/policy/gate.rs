//! Gates: the slots of one storage element in one direction, and the links that wait for them.

use super::list::List;
use super::{LEVELS, Levels};
use crate::SeId;

/// Slots of one direction of one storage element.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) se: SeId,
    pub(crate) limit: u32,
    /// Slots taken: by transfers, and by links that keep one while they wait for their source.
    pub(crate) held: u32,
    /// Those of them that are kept by waiting links.
    pub(crate) kept: u32,
    /// Links that wait here, by the level of their first transfer.
    pub(crate) waiting: [List; LEVELS],
    /// Levels at which this gate stands in the rotation.
    pub(crate) in_rotation: Levels,
    /// All links that pass here.
    pub(crate) links: Vec<u32>,
}

impl Gate {
    pub(crate) fn new(se: SeId, limit: u32) -> Self {
        Self {
            se,
            limit,
            held: 0,
            kept: 0,
            waiting: [List::default(); LEVELS],
            in_rotation: 0,
            links: Vec::new(),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.held < self.limit
    }

    /// Tells whether somebody waits here who is at least as urgent.
    pub(crate) fn is_awaited(&self, level: usize) -> bool {
        self.waiting[..=level].iter().any(|list| !list.is_empty())
    }
}
