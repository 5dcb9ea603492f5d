//! Queues of tape operations: files to bring online, and copies to watch until they are on tape. Clean-ups after a
//! cancel wait here too: with a slot they would wait for ever at a link where nothing may start.
//!
//! Tape operations are apart from the queues of links: they move no bytes over a link, take hours, and are counted in
//! tens of thousands. Each VO at a storage element has a queue; limits hold per storage element and per VO there. The
//! more urgent level goes first; among equals, the VO with the fewest running. The number of copies that wait to be
//! written to tape is not limited.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Table;
use crate::policy::list::List;
use crate::policy::{Join, LEVELS};
use crate::settings::Settings;
use crate::stats::TapeStats;
use crate::{Cause, Reason, Resource, SeId, VoId, Work};

/// Clean-ups at once, of a VO at a storage element: two or three small requests each.
const CLEANUPS: u32 = 50;

/// Key of a queue: virtual organisation, operation and storage element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Whose {
    pub(crate) work: Work,
    pub(crate) se: SeId,
    pub(crate) vo: VoId,
}

/// Transfers of one VO that wait for one tape.
#[derive(Debug)]
struct TapeQueue {
    lists: [List; LEVELS],
    queued: u64,
    active: u32,
    turn: Option<Turn>,
}

/// A lane that may go on, in the order in which lanes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    level: usize,
    active: u32,
    whose: Whose,
}

/// All tapes.
#[derive(Debug, Default)]
pub(crate) struct Tapes {
    lanes: BTreeMap<Whose, TapeQueue>,
    /// Files being brought online, per storage element.
    active: BTreeMap<SeId, u32>,
    turns: BTreeSet<Turn>,
}

impl Tapes {
    /// Puts a transfer into the queue of its level.
    pub(crate) fn enqueue(&mut self, table: &mut Table, row: u32, whose: Whose, join: Join, settings: &Settings) {
        let lane = self.lanes.entry(whose).or_insert_with(|| TapeQueue {
            lists: [List::default(); LEVELS],
            queued: 0,
            active: 0,
            turn: None,
        });
        let list = &mut lane.lists[table[row].level()];
        match join {
            Join::Back => list.push_back(table, row),
            Join::Front => list.push_front(table, row),
        }
        lane.queued += 1;
        self.settle(whose, settings);
    }

    /// Takes a transfer out of its queue.
    pub(crate) fn dequeue(&mut self, table: &mut Table, row: u32, whose: Whose, settings: &Settings) {
        let lane = self.lanes.get_mut(&whose).expect("it was queued there");
        let level = table[row].level();
        lane.lists[level].remove(table, row);
        lane.queued -= 1;
        self.settle(whose, settings);
    }

    /// Takes the next transfer that may go on out of its queue, and gives it its slot.
    pub(crate) fn pick(&mut self, table: &mut Table, settings: &Settings) -> Option<u32> {
        let Turn { level, whose, .. } = self.turns.first().copied()?;
        let lane = self.lanes.get_mut(&whose).expect("a turn belongs to a lane");
        let row = lane.lists[level].head().expect("a turn belongs to a transfer");
        lane.lists[level].remove(table, row);
        lane.queued -= 1;
        lane.active += 1;
        if whose.work == Work::Stage {
            *self.active.entry(whose.se).or_default() += 1;
        }
        self.settle_se(whose, settings);
        Some(row)
    }

    /// Gives back the slot of a transfer.
    pub(crate) fn release(&mut self, whose: Whose, settings: &Settings) {
        let lane = self.lanes.get_mut(&whose).expect("it was picked there");
        lane.active -= 1;
        if whose.work == Work::Stage
            && let Some(active) = self.active.get_mut(&whose.se)
        {
            *active -= 1;
        }
        self.settle_se(whose, settings);
    }

    /// Tells whether another `pick` finds something.
    pub(crate) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Settings have changed.
    pub(crate) fn set(&mut self, settings: &Settings) {
        for whose in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.settle(whose, settings);
        }
    }

    /// The reason why transfers wait here.
    pub(crate) fn why(&self, whose: Whose, settings: &Settings) -> Reason {
        let full = self
            .limits(whose, settings)
            .into_iter()
            .find(|(_, active, allowed)| active >= allowed);
        full.map_or(Reason::Next, |(resource, active, allowed)| Reason::Full {
            resource,
            allowed,
            active,
            cause: Cause::Limit,
            holders: Vec::new(),
        })
    }

    pub(crate) fn stats(&self) -> impl Iterator<Item = TapeStats> {
        self.lanes.iter().map(|(whose, lane)| TapeStats {
            work: whose.work,
            se: whose.se,
            vo: whose.vo,
            queued: lane.queued,
            active: lane.active.into(),
        })
    }

    /// The limits of a lane: resource, slots taken and slots allowed.
    fn limits(&self, whose: Whose, settings: &Settings) -> Vec<(Resource, u32, u32)> {
        let of_vo = self.lanes.get(&whose).map_or(0, |lane| lane.active);
        match whose.work {
            Work::Stage => {}
            Work::Archive => return Vec::new(),
            Work::Copy => return vec![(Resource::Inbound(whose.se), of_vo, CLEANUPS)],
        }
        let of_se = self.active.get(&whose.se).copied().unwrap_or_default();
        let held = [
            (Resource::Staging(whose.se), of_se),
            (Resource::VoStaging(whose.se, whose.vo), of_vo),
        ];
        held.map(|(resource, active)| (resource, active, settings.slots(resource)))
            .to_vec()
    }

    /// Requeues every lane that shares a limit with this one.
    fn settle_se(&mut self, whose: Whose, settings: &Settings) {
        let of_se = |vo| Whose { vo, ..whose };
        let range = of_se(VoId(0))..=of_se(VoId(u32::MAX));
        for whose in self.lanes.range(range).map(|(whose, _)| *whose).collect::<Vec<_>>() {
            self.settle(whose, settings);
        }
    }

    /// Finds a lane its turn, if it has something to do and room for it.
    fn settle(&mut self, whose: Whose, settings: &Settings) {
        let has_room = self
            .limits(whose, settings)
            .iter()
            .all(|(_, active, allowed)| active < allowed);
        let Some(lane) = self.lanes.get_mut(&whose) else { return };
        let level = lane.lists.iter().position(|list| !list.is_empty());
        let turn = level.filter(|_| has_room).map(|level| Turn {
            level,
            active: lane.active,
            whose,
        });
        if turn == lane.turn {
            return;
        }
        if let Some(former) = std::mem::replace(&mut lane.turn, turn) {
            self.turns.remove(&former);
        }
        self.turns.extend(turn);
    }
}
