//! The account of what held flows back: time by class and by the resource that froze its rate.

use std::collections::BTreeMap;

use super::quantities::{ATTOS_PER_NANO, Moment};
use super::shares::NONE;

/// Stands for the cap of the class itself where a resource is named.
const CAP: u32 = NONE - 1;

/// The limit that sets the rate of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// It has no flows, or none that move.
    Nothing,
    /// The cap on each of its flows.
    Cap,
    /// A resource.
    Resource(u32),
}

impl Limit {
    fn number(self) -> u32 {
        match self {
            Self::Nothing => NONE,
            Self::Cap => CAP,
            Self::Resource(resource) => resource,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Stretch {
    since: Moment,
    flows: u32,
    limit: u32,
}

/// Time in which flows were held back; see the module.
#[derive(Debug, Default)]
pub(super) struct HeldTimes {
    stretches: Vec<Stretch>,
    /// Attoseconds times flows, by class and limit.
    sums: BTreeMap<(u32, u32), u128>,
}

impl HeldTimes {
    pub(super) fn add_class(&mut self) {
        self.stretches.push(Stretch {
            since: Moment::ZERO,
            flows: 0,
            limit: NONE,
        });
    }

    /// From this moment on so many flows of a class are held by this limit.
    pub(super) fn change(&mut self, class: u32, now: Moment, flows: u32, limit: Limit) {
        let limit = limit.number();
        let stretch = &mut self.stretches[class as usize];
        if (stretch.flows, stretch.limit) == (flows, limit) {
            return;
        }
        self.pass(class, now);
        let stretch = &mut self.stretches[class as usize];
        (stretch.flows, stretch.limit) = (flows, limit);
    }

    fn pass(&mut self, class: u32, now: Moment) {
        let stretch = &mut self.stretches[class as usize];
        let passed = now.since(stretch.since);
        stretch.since = stretch.since.max(now);
        if stretch.limit != NONE && stretch.flows > 0 && passed > 0 {
            let sum = self.sums.entry((class, stretch.limit)).or_default();
            // Attoseconds of 10²⁰ s and many flows may be too many.
            *sum = sum.saturating_add(passed.saturating_mul(stretch.flows.into()));
        }
    }

    /// Takes the sums up to a moment: class, resource (`None` for its own cap), and nanoseconds times flows.
    pub(super) fn take(&mut self, now: Moment) -> impl Iterator<Item = (u32, Option<u32>, u128)> {
        for class in 0..self.stretches.len() as u32 {
            self.pass(class, now);
        }
        let sums = std::mem::take(&mut self.sums).into_iter();
        sums.map(|((class, limit), attos)| (class, (limit != CAP).then_some(limit), attos / ATTOS_PER_NANO))
    }
}
