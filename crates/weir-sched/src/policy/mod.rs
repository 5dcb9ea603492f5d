//! The policy: which transfer starts next.
//!
//! # The model
//! A transfer needs three slots: one of its link, one of its destination's inbound **gate**, one of its source's outbound gate.
//! A link with queued transfers always *waits* somewhere: at its own limit, or in the list of one gate that has no room, or,
//! if nothing holds it back, in the **hall** (gate 0, which always has room).
//!
//! A gate that has room and is awaited stands in the **rotation** of that level. [`Policy::pick`] takes the most urgent level,
//! the next gate in its rotation, and the first link waiting there. If the link's other end is full, the link goes to wait
//! there; otherwise its first transfer starts, and the link goes to the back of the list.
//!
//! From this follow the properties:
//! - *No head-of-line blocking*: a link that cannot start waits at the gate that holds it, and in nobody's way.
//! - *Work conserving*: a gate with room and a waiting link is in the rotation.
//! - *Fair*: links that wait for one gate take turns; within a link and a priority, first come, first served.
//! - *Cost follows change*: only gates that got room, and links that got work, are looked at.
//! - *No starvation between equals*: a link between two busy ends might find one of them full at every turn. After
//!   [`PATIENCE`] such turns it keeps the slot it was offered at its destination, and is first in line at its source. Slots
//!   are only ever kept at destinations while waiting for sources, so such waits cannot form a circle.
//!
//! Priorities are strict wherever links compete for one gate. Shares, ageing and the optimiser will come in here, behind the
//! same five calls: `enqueue`, `dequeue`, `pick`, `release`, `set_limits`.

mod gate;
mod link;
pub(crate) mod list;
mod view;

use std::collections::{BTreeMap, VecDeque};

use weir_units::Timestamp;

use crate::core::table::Table;
use crate::stats::Counts;
use crate::{Blocker, Decision, LimitChange, Limits, Link, Priority, SeId, Verdict};
use gate::Gate;
use link::{LinkState, Links, Place};

/// Levels of urgency, the most urgent first: links that starve, transfers resumed after a restart, priorities 5 to 1.
pub(crate) const LEVELS: usize = 7;
/// A set of levels, one bit each.
type Levels = u8;
const STARVING: usize = 0;
/// Level of transfers that were active when the service stopped: their slots were theirs before.
pub(crate) const RESUMED: usize = 1;
/// Turns in a row that a link loses to a full other end before it may keep a slot.
const PATIENCE: u32 = 16;
/// The gate that always has room.
const HALL: u32 = 0;

/// The level of a priority.
pub(crate) fn level_of(priority: Priority) -> usize {
    usize::from(7 - priority.get())
}

/// Which end of its link's queue a transfer joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Behind all others of its level.
    Back,
    /// Before them: it waited its turn already.
    Front,
}

/// Queues, slots and turns.
#[derive(Debug)]
pub(crate) struct Policy {
    limits: Limits,
    links: Links,
    gates: Vec<Gate>,
    rotation: [VecDeque<u32>; LEVELS],
    link_numbers: BTreeMap<Link, u32>,
    /// The outbound gate of each storage element; the inbound one follows it.
    gate_numbers: BTreeMap<SeId, u32>,
}

impl Policy {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            links: Links::default(),
            gates: vec![Gate::new(SeId(u32::MAX), u32::MAX)],
            rotation: Default::default(),
            link_numbers: BTreeMap::new(),
            gate_numbers: BTreeMap::new(),
        }
    }

    /// The number of a link, which is made if it was not known.
    pub(crate) fn link(&mut self, link: Link) -> u32 {
        if let Some(number) = self.link_numbers.get(&link) {
            return *number;
        }
        let number = self.links.0.len() as u32;
        let source = self.outbound_gate(link.source);
        let destination = self.outbound_gate(link.destination) + 1;
        self.links
            .0
            .push(LinkState::new(link, source, destination, self.limits.of_link(link)));
        self.gates[source as usize].links.push(number);
        self.gates[destination as usize].links.push(number);
        self.link_numbers.insert(link, number);
        number
    }

    fn outbound_gate(&mut self, se: SeId) -> u32 {
        if let Some(number) = self.gate_numbers.get(&se) {
            return *number;
        }
        let number = self.gates.len() as u32;
        self.gates.push(Gate::new(se, self.limits.of_outbound(se)));
        self.gates.push(Gate::new(se, self.limits.of_inbound(se)));
        self.gate_numbers.insert(se, number);
        number
    }

    pub(crate) fn counts(&mut self, link: u32) -> &mut Counts {
        &mut self.links[link].counts
    }

    /// Puts a transfer into its link's queue.
    pub(crate) fn enqueue(&mut self, table: &mut Table, row: u32, level: usize, join: Join) {
        table[row].set_level(level);
        let link = table[row].link;
        let size = table[row].size;
        let state = &mut self.links[link];
        match join {
            Join::Back => state.queues[level].push_back(table, row),
            Join::Front => state.queues[level].push_front(table, row),
        }
        state.counts.queued += 1;
        state.counts.queued_bytes += size;
        self.settle(link);
    }

    /// Takes a transfer out of its link's queue, before its turn.
    pub(crate) fn dequeue(&mut self, table: &mut Table, row: u32) {
        let link = table[row].link;
        self.unqueue(table, row);
        self.settle(link);
    }

    fn unqueue(&mut self, table: &mut Table, row: u32) {
        let (link, level, size) = (table[row].link, table[row].level(), table[row].size);
        let state = &mut self.links[link];
        state.queues[level].remove(table, row);
        state.counts.queued -= 1;
        state.counts.queued_bytes -= size;
    }

    /// Takes the next transfer that may start out of its queue, and gives it its three slots. None if nothing may start.
    pub(crate) fn pick(&mut self, table: &mut Table, now: Timestamp) -> Option<u32> {
        for level in 0..LEVELS {
            while let Some(gate) = self.rotation[level].pop_front() {
                let state = &mut self.gates[gate as usize];
                state.in_rotation &= !(1 << level);
                if !state.has_room() {
                    continue;
                }
                let Some(link) = state.waiting[level].pop_front(&mut self.links) else {
                    continue;
                };
                self.links[link].place = Place::Idle;
                self.rotate(gate, level);
                if let Some(row) = self.try_start(table, link, gate, now) {
                    return Some(row);
                }
            }
        }
        None
    }

    /// Tells whether another `pick` may find something.
    pub(crate) fn has_turns(&self) -> bool {
        self.rotation.iter().any(|gates| !gates.is_empty())
    }

    /// It is this link's turn: starts its first transfer, or sends it to wait where it is held back.
    fn try_start(&mut self, table: &mut Table, link: u32, turn: u32, now: Timestamp) -> Option<u32> {
        let state = &mut self.links[link];
        let row = state
            .queues
            .iter()
            .find_map(list::List::head)
            .expect("a link waits only while it has transfers");
        let transfer = table[row].id;
        let destination_room = state.reserved || self.gates[state.destination as usize].has_room();
        let source_room = self.gates[state.source as usize].has_room();
        let blocker = if state.active >= state.limit {
            Some(Blocker::Link)
        } else if !destination_room {
            Some(Blocker::Destination)
        } else if !source_room {
            Some(Blocker::Source)
        } else {
            None
        };
        if let Some(blocker) = blocker {
            state.note(Decision {
                at: now,
                transfer,
                verdict: Verdict::Wait(blocker),
            });
            self.miss(link, turn, blocker);
            return None;
        }
        state.active += 1;
        state.counts.active += 1;
        let verdict = Verdict::Start {
            active: state.active,
            limit: state.limit,
        };
        state.note(Decision {
            at: now,
            transfer,
            verdict,
        });
        state.misses = 0;
        let (source, destination) = (state.source, state.destination);
        if std::mem::take(&mut state.reserved) {
            self.gates[destination as usize].kept -= 1;
        } else {
            self.gates[destination as usize].held += 1;
        }
        self.gates[source as usize].held += 1;
        self.unqueue(table, row);
        self.settle(link);
        Some(row)
    }

    /// A turn came to nothing. One too many, and the link keeps its destination's slot.
    fn miss(&mut self, link: u32, turn: u32, blocker: Blocker) {
        let state = &mut self.links[link];
        if turn != HALL && blocker != Blocker::Link {
            state.misses += 1;
            if state.misses >= PATIENCE && blocker == Blocker::Source && !state.reserved {
                state.reserved = true;
                let destination = &mut self.gates[state.destination as usize];
                destination.held += 1;
                destination.kept += 1;
            }
        }
        self.settle(link);
    }

    /// Gives back the slots of a transfer of this link.
    pub(crate) fn release(&mut self, link: u32) {
        let state = &mut self.links[link];
        state.active -= 1;
        state.counts.active -= 1;
        let gates = [state.source, state.destination];
        for gate in gates {
            self.gates[gate as usize].held -= 1;
            self.rotate_all(gate);
        }
        self.settle(link);
    }

    /// Changes limits. Costs a look at every link and gate: operators change limits, not transfers.
    pub(crate) fn set_limits(&mut self, changes: &[LimitChange]) {
        for change in changes {
            self.limits.apply(*change);
        }
        for gate in 1..self.gates.len() as u32 {
            let state = &mut self.gates[gate as usize];
            let inbound = gate % 2 == 0;
            state.limit = if inbound {
                self.limits.of_inbound(state.se)
            } else {
                self.limits.of_outbound(state.se)
            };
            self.rotate_all(gate);
        }
        for link in 0..self.links.0.len() as u32 {
            self.links[link].limit = self.limits.of_link(self.links[link].link);
            self.settle(link);
        }
    }

    /// Brings a link to the place where it belongs now. Does nothing if it is there.
    fn settle(&mut self, link: u32) {
        let state = &self.links[link];
        let level = state.first_level();
        let may_start = state.active < state.limit;
        let reserved = state.reserved;
        let (Some(level), true) = (level, may_start) else {
            self.unreserve(link);
            self.move_to(link, if level.is_some() { Place::Full } else { Place::Idle });
            return;
        };
        if reserved && self.gates[state.destination as usize].held > self.gates[state.destination as usize].limit {
            self.unreserve(link);
            return self.settle(link);
        }
        let level = if reserved { STARVING } else { level };
        let state = &self.links[link];
        match state.place {
            Place::At { gate, level: now } if gate != HALL && now != level => {
                self.move_to(link, Place::At { gate, level });
            }
            Place::At { level: now, .. } if now == level => {}
            _ => {
                let gate = self.waiting_room(state, level);
                self.move_to(link, Place::At { gate, level });
            }
        }
    }

    /// The gate at which a link has to wait: one that is full, else one where others wait already, else the hall.
    fn waiting_room(&self, state: &LinkState, level: usize) -> u32 {
        let (source, destination) = (state.source, state.destination);
        let full = |gate: u32| !self.gates[gate as usize].has_room();
        let awaited = |gate: u32| self.gates[gate as usize].is_awaited(level);
        if state.reserved {
            return if full(source) { source } else { HALL };
        }
        [destination, source]
            .into_iter()
            .find(|gate| full(*gate))
            .or_else(|| [destination, source].into_iter().find(|gate| awaited(*gate)))
            .unwrap_or(HALL)
    }

    fn move_to(&mut self, link: u32, place: Place) {
        if let Place::At { gate, level } = self.links[link].place {
            self.gates[gate as usize].waiting[level].remove(&mut self.links, link);
        }
        self.links[link].place = place;
        if let Place::At { gate, level } = place {
            self.gates[gate as usize].waiting[level].push_back(&mut self.links, link);
            self.rotate(gate, level);
        }
    }

    /// Gives back the slot that a starving link kept.
    fn unreserve(&mut self, link: u32) {
        let state = &mut self.links[link];
        if std::mem::take(&mut state.reserved) {
            let number = state.destination;
            let destination = &mut self.gates[number as usize];
            destination.held -= 1;
            destination.kept -= 1;
            self.rotate_all(number);
        }
    }

    /// Puts a gate into the rotation of one level, if it has room, is awaited there, and is not in it.
    fn rotate(&mut self, gate: u32, level: usize) {
        let state = &mut self.gates[gate as usize];
        let bit = 1 << level;
        if state.has_room() && state.in_rotation & bit == 0 && !state.waiting[level].is_empty() {
            state.in_rotation |= bit;
            self.rotation[level].push_back(gate);
        }
    }

    fn rotate_all(&mut self, gate: u32) {
        for level in 0..LEVELS {
            self.rotate(gate, level);
        }
    }
}
